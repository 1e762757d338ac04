"""`fit`, `predict` and `score` on graphs: who is labelled, who trains, who is held out."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from toy import classifier, regressor, toy_graph

from polynsd import ConfigError, DataError, GraphError, ShapeError
from polynsd.data import heterophilous_graph
from polynsd.estimator import SheafClassifier


def test_nodes_without_a_label_are_neither_trained_nor_validated_on():
    graph = toy_graph()
    model = classifier().fit(graph)
    np.testing.assert_array_equal(model.train_mask_, graph.y >= 0)  # each in its turn
    np.testing.assert_array_equal(model.val_mask_, graph.y >= 0)
    assert model.predict().shape == (graph.num_nodes,)


@pytest.mark.parametrize("numbers", [False, True])
def test_masks_and_node_numbers_mean_the_same(numbers):
    graph = toy_graph()
    train, val = np.zeros(40, bool), np.zeros(40, bool)
    train[1:15], val[16:30] = True, True
    train, val = train & (graph.y >= 0), val & (graph.y >= 0)
    given = [np.flatnonzero(m) if numbers else torch.from_numpy(m) for m in (train, val)]
    model = classifier(epochs=2).fit(graph, train=given[0], val=given[1])
    np.testing.assert_array_equal(model.train_mask_, train)
    np.testing.assert_array_equal(model.val_mask_, val)


def test_what_is_not_in_val_trains():
    graph, val = toy_graph(), np.arange(1, 5)
    model = classifier(epochs=1).fit(graph, val=val)
    assert model.train_mask_.sum() == (graph.y >= 0).sum() - 4


def test_given_labels_take_the_place_of_the_graphs_own():
    graph = toy_graph()
    y = np.array(["x", "y"] * 20, dtype=object)
    y[3] = None
    model = classifier(epochs=2).fit(graph, y)
    assert model.classes_.tolist() == ["x", "y"]
    assert not (model.train_mask_ | model.val_mask_)[3]
    assert set(model.predict()) <= {"x", "y"}


@pytest.mark.parametrize("classes", [["b", "a"], [7, 3], [True, False], [2.0, 1.0]])
def test_classes_may_be_anything_sortable(classes):
    y = np.array(classes * 10)
    model = classifier(epochs=2).fit(np.random.default_rng(0).normal(size=(20, 3)), y)
    assert model.classes_.tolist() == sorted(classes)
    assert model.predict().dtype.kind == y.dtype.kind


def test_a_graphs_class_names_are_the_classes():
    model = classifier(epochs=2).fit(toy_graph(names=True))
    assert model.classes_.tolist() == ["high", "low"]
    np.testing.assert_allclose(model.predict_proba().sum(1), 1)


def test_graph_data_and_pair_are_the_same_graph():
    graph = toy_graph()
    data = graph.to_pyg()
    first = classifier().fit(graph).predict_proba()
    pair = (graph.x, data.edge_index.numpy())
    for other in (classifier().fit(data), classifier().fit(pair, graph.y)):
        np.testing.assert_allclose(other.predict_proba(), first, rtol=1e-6)
    table = classifier().fit(data.x, graph.y, edges=data.edge_index)
    np.testing.assert_allclose(table.predict_proba(data.x, edges=data.edge_index), first, rtol=1e-6)


def test_splits_that_the_data_carries_are_not_used_silently(caplog):
    data = toy_graph().to_pyg()
    for part, nodes in (("train", range(10, 20)), ("val", range(20, 30)), ("test", range(30, 40))):
        data[f"{part}_mask"] = torch.isin(torch.arange(40), torch.tensor(nodes)) & (data.y >= 0)
    assert classifier(epochs=1).fit(data).n_train_ > 20
    assert "pass train" in caplog.text
    caplog.clear()
    assert classifier(epochs=1).fit(data, train=data.train_mask, val=data.val_mask).n_train_ == 8
    assert not caplog.text


def test_the_same_random_state_gives_the_same_model_and_another_one_another():
    graph = toy_graph()
    first, again, other = (classifier(random_state=s).fit(graph).predict_proba() for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3


def test_fitting_again_forgets_the_first_fit():
    model = classifier(epochs=2).fit(toy_graph(names=True))
    model.fit(np.random.default_rng(0).normal(size=(20, 5)), np.arange(20) % 3)
    assert model.n_features_in_ == 5
    assert model.classes_.tolist() == [0, 1, 2]
    assert len(model.train_mask_) == 20


def test_a_fit_that_fails_leaves_nothing_behind():
    model = classifier(epochs=1).fit(toy_graph())
    with pytest.raises(DataError):
        model.fit(toy_graph(), y=np.zeros(40, int))
    with pytest.raises(NotFittedError):
        model.predict()


def test_score_is_the_metric_on_the_nodes_asked_for():
    graph = toy_graph()
    model = classifier(epochs=20).fit(graph)
    right = model.predict() == graph.y
    assert model.score(graph) == pytest.approx(right[graph.y >= 0].mean())
    assert model.score(graph, nodes=[1, 2, 3]) == pytest.approx(right[1:4].mean())
    assert model.score(y=np.where(np.arange(40) < 4, 1 - graph.y, graph.y), nodes=[1, 2, 3]) == pytest.approx(
        1 - right[1:4].mean()
    )
    assert model.score() == model.val_score_


def test_labels_that_are_no_class_of_the_model_are_never_right():
    model = classifier(epochs=2).fit(toy_graph())
    assert model.score(y=np.full(40, 5)) == 0.0


def test_rare_classes_are_scored_by_roc_auc_unless_asked_otherwise():
    y = np.array([0] * 35 + [1] * 5)
    x = np.random.default_rng(0).normal(size=(40, 3))
    assert classifier(epochs=2).fit(x, y).metric_ == "roc_auc"
    assert classifier(epochs=2, metric="accuracy").fit(x, y).metric_ == "accuracy"
    assert classifier(epochs=2).fit(x, np.arange(40) % 2).metric_ == "accuracy"


def test_balanced_weights_find_the_rare_class():
    rng = np.random.default_rng(0)
    y = np.array([0] * 90 + [1] * 10)
    x = rng.normal(size=(100, 2)) + 0.8 * y[:, None]
    plain, balanced = (
        classifier(epochs=15, metric="accuracy", class_weight=w).fit(x, y) for w in (None, "balanced")
    )
    assert (balanced.predict() == 1).sum() > (plain.predict() == 1).sum()
    heavy = classifier(epochs=15, metric="accuracy", class_weight={1: 50.0}).fit(x, y)
    assert (heavy.predict() == 1).sum() > (plain.predict() == 1).sum()


def test_regression_is_in_the_units_of_the_targets():
    graph = toy_graph(60, regression=True)
    model = regressor(epochs=60).fit(graph)
    known = ~np.isnan(graph.y)
    assert model.metric_ == "r2"
    assert model.score(graph) > 0.8
    assert abs(model.predict()[known].mean() - graph.y[known].mean()) < 1.5
    shifted = regressor(epochs=60).fit(graph, 1000 * graph.y + 5)
    np.testing.assert_allclose(shifted.predict(), 1000 * model.predict() + 5, rtol=0.05)


def test_standardising_makes_units_irrelevant():
    graph = toy_graph()
    other = replace(graph, x=graph.x * np.float32([1, 1000, 0.01]) + np.float32([0, 5, 3]))
    first, second = (classifier().fit(g).predict_proba() for g in (graph, other))
    np.testing.assert_allclose(first, second, atol=1e-3)


def test_nothing_works_before_fit():
    for call in (classifier().predict, classifier().predict_proba, classifier().score, regressor().predict):
        with pytest.raises(NotFittedError, match="call fit or load first"):
            call(toy_graph())


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        ({"y": np.full(40, -1)}, {}, DataError, "no node has a label"),
        ({"y": None}, {}, DataError, "there are no labels"),
        ({"y": np.zeros(40, np.int64)}, {}, DataError, "at least two classes"),
        ({"x": None, "edge_index": np.empty((2, 0), int)}, {}, DataError, "needs features or edges"),
        ({}, {"train": [0, 1]}, DataError, "train holds 1 nodes without a label"),
        ({}, {"train": [1, 2], "val": [2, 3]}, DataError, "train and val must be disjoint"),
        ({}, {"val": [2, 3], "test": [3, 4]}, DataError, "val and test must be disjoint; they share 1"),
        ({}, {"train": [1, 2], "val": [3, 6], "test": [2, 7]}, DataError, "train and test must be disjoint"),
        ({}, {"val": [7]}, DataError, "training needs a node and validation 2"),
        ({}, {"val": [99]}, ShapeError, "node numbers from 0 to 39"),
        ({}, {"y": np.zeros(3, int)}, ShapeError, "one label per node"),
        ({}, {"edges": np.zeros((2, 0), int)}, GraphError, "edges of its own"),
        ({}, {"y": np.array([1, "a", None, 2] * 10, dtype=object)}, DataError, "one type"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(change, options, error, message):
    with pytest.raises(error, match=message):
        classifier(epochs=1).fit(replace(toy_graph(), **change), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": "long"}, "budget must be"),
        ({"budget": -1}, "budget must be"),
        ({"degree": "many"}, "degree must be 'auto'"),
        ({"maps": None}, "maps must be 'auto'"),
        ({"maps": "diagnal"}, "Did you mean 'diagonal'"),
        ({"validation_fraction": 1.0}, "between 0 and 1"),
        ({"metric": "f2"}, "unknown metric"),
        ({"ensemble": 0}, "ensemble must be"),
        ({"test_fraction": 1.5}, "test_fraction must"),
        ({"features": "raw"}, "features must be"),
        ({"decision": "coin"}, "unknown decision"),
        ({"calibrate": "isotonic"}, "unknown calibrate"),
        ({"class_weight": "equal"}, "class_weight must be"),
        ({"random_state": -3}, "random_state"),
    ],
)
def test_wrong_parameters_are_refused_in_fit(options, message):
    with pytest.raises(ConfigError, match=message):
        classifier(**{"epochs": 1, **options}).fit(toy_graph())


@pytest.mark.slow
def test_the_automatic_choice_beats_the_majority_on_a_heterophilous_graph():
    data = heterophilous_graph(
        num_nodes=150, num_classes=2, num_features=5, degree=6, heterophily=0.95, seed=1
    ).to_pyg()
    hidden = np.arange(150) % 4 == 0
    y = np.where(hidden, -1, data.y.numpy())
    usual = {"num_layers": 1, "hidden_channels": 8, "dropout": 0.0, "learning_rate": 0.06}
    model = SheafClassifier(**usual, epochs=20, device="cpu").fit(data, y)
    assert model.score(data, data.y.numpy(), nodes=hidden) > 0.7
