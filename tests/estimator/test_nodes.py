"""Nodes of a graph in scikit-learn's tools: labels of other nodes are not seen, edges and features are."""

import numpy as np
import pytest
from toy import classifier, regressor, toy_graph

from polynsd import DataError, ShapeError
from polynsd.estimator import GraphNodes, TransformFeatures

model_selection = pytest.importorskip("sklearn.model_selection")


def test_rows_are_nodes_of_one_graph():
    graph = toy_graph(names=True)
    nodes = GraphNodes(graph)
    assert len(nodes) == 32  # every fifth node has no label
    assert nodes.shape == (32, 3)
    assert set(nodes.y) == {"low", "high"}
    some = nodes[np.arange(32) % 2 == 0][[0, 2]]
    assert some.graph is graph
    np.testing.assert_array_equal(some.numbers, nodes.numbers[[0, 4]])
    assert repr(some) == "GraphNodes(2 of the 40 nodes of 'toy')"


def test_labels_of_other_nodes_are_not_seen():
    graph = toy_graph()
    nodes = GraphNodes(graph)
    train = nodes[:20]
    model = classifier().fit(train, train.y)
    used = model.train_mask_ | model.val_mask_
    np.testing.assert_array_equal(np.flatnonzero(used), train.numbers)
    whole = classifier().fit(graph, train=train.numbers)
    np.testing.assert_array_equal(model.predict(nodes[20:]), whole.predict()[nodes.numbers[20:]])
    assert model.predict_proba(nodes[20:]).shape == (12, 2)
    assert model.score(nodes[20:], nodes.y[20:]) == whole.score(nodes=nodes.numbers[20:])


def test_cross_validation():
    nodes = GraphNodes(toy_graph(60))
    model = classifier(epochs=2)
    scores = model_selection.cross_validate(model, nodes, nodes.y, cv=2, scoring=("roc_auc", "accuracy"))
    assert np.isfinite([scores["test_roc_auc"], scores["test_accuracy"]]).all()
    assert model_selection.cross_val_predict(model, nodes, nodes.y, cv=2).shape == (48,)


def test_grid_search_of_a_pipeline():
    pipeline = pytest.importorskip("sklearn.pipeline")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    nodes = GraphNodes(toy_graph(60, names=True))
    steps = pipeline.make_pipeline(TransformFeatures(preprocessing.StandardScaler()), classifier(epochs=2))
    grid = {"sheafclassifier__degree": [0, 1], "transformfeatures__transformer__with_mean": [True]}
    search = model_selection.GridSearchCV(steps, grid, cv=2).fit(nodes, nodes.y)
    assert search.best_params_["sheafclassifier__degree"] in (0, 1)
    assert set(search.predict(nodes[:5])) <= {"low", "high"}
    scaled = search.best_estimator_[0].transform(nodes).graph.x
    np.testing.assert_allclose(scaled[nodes.numbers].mean(0), 0, atol=1e-6)


def test_regression_and_weights():
    nodes = GraphNodes(toy_graph(60, regression=True))
    model = regressor().fit(nodes[:30], nodes.y[:30], sample_weight=np.arange(30.0))
    assert model.predict(nodes[30:]).shape == (18,)
    assert np.isfinite(model.score(nodes[30:], nodes.y[30:]))
    with pytest.raises(ShapeError, match=r"one weight per node, \[30\]"):
        regressor().fit(nodes[:30], nodes.y[:30], sample_weight=np.ones(60))


def test_refusals():
    graph = toy_graph()
    with pytest.raises(ShapeError, match="from 0 to 39"):
        GraphNodes(graph, [40])
    with pytest.raises(ShapeError, match="must be numbers"):
        GraphNodes(graph, [0.5])
    with pytest.raises(ShapeError, match="one label per node"):
        classifier().fit(GraphNodes(graph), [0, 1])
    with pytest.raises(DataError, match="needs GraphNodes"):
        TransformFeatures(None).fit(graph.x)
