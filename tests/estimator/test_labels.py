"""What counts as a label: −1 is none among classes of a graph, and a number like any other for regression."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from toy import classifier, regressor, toy_graph

from polynsd import DataError, ShapeError
from polynsd.estimator import SheafClassifier
from polynsd.estimator.labels import read_groups


def labels(*values):
    return np.resize(np.array(values), 40)


@pytest.mark.parametrize("dtype", [np.int64, np.float64, object])
def test_a_target_of_minus_one_is_a_target(dtype):
    y = labels(-1, 3, -1, 0).astype(dtype)
    model = regressor(epochs=2).fit(toy_graph(), y)
    assert model.n_train_ == 40
    as_floats = regressor(epochs=2).fit(toy_graph(), y.astype(float))
    np.testing.assert_array_equal(model.predict(), as_floats.predict())
    assert model.score(toy_graph(), y) == as_floats.score(toy_graph(), y.astype(float))


def test_nan_and_none_are_no_targets():
    y = labels(-1.0, 3.0, 2.0, 0.5)
    y[7] = np.nan
    with_nan = regressor(epochs=2).fit(toy_graph(), y)
    with_none = regressor(epochs=2).fit(toy_graph(), np.where(np.isnan(y), None, y.astype(object)))
    assert with_nan.n_train_ == with_none.n_train_ == 39
    np.testing.assert_array_equal(with_nan.predict(), with_none.predict())


def test_words_are_no_targets():
    with pytest.raises(DataError, match="targets must be numbers"):
        regressor(epochs=1).fit(toy_graph(), labels("a", "b").astype(object))


def test_plus_and_minus_one_are_not_taken_for_labels_silently(caplog):
    with pytest.raises(DataError, match="got 1 class, 1"):
        classifier(epochs=1).fit(toy_graph(), labels(-1, 1))
    assert "20 labels are -1, which means 'no label', beside the classes 1" in caplog.text


def test_minus_one_among_negative_classes_is_told(caplog):
    classifier(epochs=1).fit(toy_graph(), labels(-2, -1, 0, 1))
    assert "10 labels are -1" in caplog.text
    assert "-2, 0, 1" in caplog.text


def test_the_usual_minus_one_needs_no_words(caplog):
    classifier(epochs=1).fit(toy_graph())
    regressor(epochs=1).fit(toy_graph(), labels(-1, 1))
    assert not caplog.text


def test_an_adjacency_matrix_is_sparse():
    graph = toy_graph()
    dense = np.zeros((40, 40))
    dense[graph.edge_index[0], graph.edge_index[1]] = dense[graph.edge_index[1], graph.edge_index[0]] = 1
    with pytest.raises(ShapeError, match=r"scipy\.sparse\.csr_array"):
        classifier(epochs=1).fit(graph.x, graph.y, edges=dense)
    model = classifier(epochs=2).fit(graph.x, graph.y, edges=sparse.csr_array(dense))
    same = classifier(epochs=2).fit(replace(graph, x=graph.x.astype(np.float64)))
    np.testing.assert_allclose(model.predict_proba(), same.predict_proba())


def test_groups_are_numbers_or_names_and_gaps_are_none():
    assert read_groups(["b", None, "a", "b"], 4).tolist() == [1, -1, 0, 1]
    assert read_groups([7, -1, 7], 3).tolist() == [0, -1, 0]
    assert read_groups([3.0, np.nan], 4, rows=np.array([2, 0])).tolist() == [-1, -1, 0, -1]
    with pytest.raises(ShapeError, match=r"one group per node, \[3\]; got \[2\]"):
        read_groups([1, 2], 3)


def test_a_class_that_lives_in_one_group_is_learned_all_the_same():
    x, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 10 == 0
    model = classifier(epochs=2).fit(x, y, groups=np.where(y, 9, np.arange(60) // 12))
    np.testing.assert_array_equal(model.val_mask_, np.ones(60, bool))
    assert np.isfinite(model.predict_proba()).all()
    model = SheafClassifier(budget=1e-3, device="cpu").fit(x, y, groups=np.where(y, 9, np.arange(60) // 12))
    assert np.isfinite(model.predict_proba()).all()
