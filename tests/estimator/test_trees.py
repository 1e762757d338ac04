"""Boosted trees as candidates: tables, members, and poor data."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from test_linear_candidates import random_folds, random_graph

from polynsd import DataError
from polynsd.estimator.candidates import EXAMPLES, make_candidates
from polynsd.estimator.features import FeatureTreatments
from polynsd.estimator.folds import Folds
from polynsd.estimator.inputs import Inputs
from polynsd.estimator.label_trees import LabelTreesCandidate
from polynsd.estimator.members import FitData, Fitted
from polynsd.estimator.networks import Network
from polynsd.estimator.storage import check_member
from polynsd.estimator.trees import (
    Forest,
    TreesCandidate,
    TreesMember,
    find_components,
    make_table,
    trees_candidates,
)
from polynsd.training import get_task

pytestmark = pytest.mark.usefixtures("no_tracer")


def inputs_of(graph) -> Inputs:
    return Inputs(graph, FeatureTreatments.learn(graph.x))


def fit(graph, target, folds, metric="accuracy", hops=0, deadline=None, weights=None) -> Fitted:
    task = get_task(metric)
    data = FitData(inputs_of(graph), target, folds, task, weights=weights, deadline=deadline)
    return TreesCandidate("trees", "trees", hops).fit(data)


@pytest.mark.parametrize("num_classes", [2, 3, 0])  # 0: numbers
def test_stored_trees_predict_what_was_grown(num_classes):
    graph, folds = random_graph(200, 4, dense=True), random_folds(200, 2)
    target = np.minimum(graph.y, num_classes - 1) if num_classes else graph.x[:, 0].astype(np.float64)
    member, expected = fit(graph, target, folds, "accuracy" if num_classes else "r2", hops=2)
    again = TreesMember.restore(*member.state())
    found = again.outputs(inputs_of(graph))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    assert found.shape == (2, 200, num_classes or 1)
    right = found.mean(0).argmax(1) == target if num_classes else np.abs(found.mean(0)[:, 0] - target) < 0.7
    assert right.mean() > 0.7


def test_a_tree_is_followed_to_its_leaf():
    forest = Forest(
        feature=np.array([1, -1, 0, -1, -1]),
        threshold=np.array([0.5, 0, 2.0, 0, 0]),
        left=np.array([1, 0, 3, 0, 0]),
        right=np.array([2, 0, 4, 0, 0]),
        value=np.array([0, 10.0, 0, 20.0, 30.0]),
        root=np.array([0]),
        output=np.array([1]),
    )
    table = np.array([[9.0, 0.5], [2.0, 0.6], [2.1, 0.6]])
    np.testing.assert_array_equal(forest.predict(table, 2), [[0, 10], [0, 20], [0, 30]])


def test_the_table_has_neighbours_and_places():
    graph = random_graph(dense=True)
    inputs = inputs_of(graph)
    table, P = make_table(inputs, 1, None), inputs.adjacency("mean")
    assert table.shape == (60, 48)
    np.testing.assert_allclose(table[:, 20:40], P @ table[:, :20])
    np.testing.assert_allclose(np.expm1(table[:, 40]), np.bincount(graph.edge_index.ravel(), minlength=60))
    np.testing.assert_allclose(table[:, 44:], P @ table[:, 40:44])


def test_numbers_beside_many_words_stay_as_they_are():
    graph = random_graph(80, 500)
    numbers = np.random.default_rng(0).normal(size=(80, 2))
    graph = replace(graph, x=sparse.csr_array(sparse.hstack([graph.x, numbers])))
    inputs = inputs_of(graph)
    components = find_components(inputs, 2, 32, seed=0)
    table = make_table(inputs, 2, components)
    kept = inputs.features().toarray()[:, inputs.num_sparse :]
    assert kept.shape == (80, 3)  # the number of words is the third
    np.testing.assert_allclose(table[:, 32:35], kept)
    np.testing.assert_allclose(table[:, 67:70], inputs.adjacency("mean") @ kept)


@pytest.mark.parametrize("dense", [True, False])
def test_wide_features_are_replaced_by_their_leading_components(dense):
    graph = random_graph(80, 500, dense=dense)
    inputs = inputs_of(graph)
    components, width = find_components(inputs, 2, 32, seed=0), 32 if dense else 33  # the number of words
    assert components.shape == (inputs.num_features, width)
    np.testing.assert_allclose(components.T @ components, np.eye(width), atol=1e-10)
    x = inputs.features()
    x = x if dense else x.toarray()
    best = np.linalg.svd(x, compute_uv=False)[:32]
    assert np.linalg.norm(x @ components) > 0.99 * np.linalg.norm(best)
    assert make_table(inputs, 2, components).shape == (80, 3 * (width + 4))


def test_words_that_trees_see_by_components_are_stored():
    graph, folds = random_graph(80, 500), random_folds(80, 2)
    member, expected = fit(graph, graph.y, folds, hops=2)
    data, tensors = member.state()
    again = TreesMember.restore(data, tensors)
    np.testing.assert_allclose(again.outputs(inputs_of(graph)), expected, rtol=1e-6, atol=1e-9)
    check_member(again, inputs_of(graph).num_features, 3)
    with pytest.raises(DataError, match="does not take 7 features"):
        check_member(again, 7, 3)


@pytest.mark.parametrize("missing", [[2], [1, 2]])
def test_a_class_that_a_fold_does_not_have_is_unlikely(missing):
    graph, folds = random_graph(60, 4, dense=True), random_folds(60, 2)
    folds.train[0] &= ~np.isin(graph.y, missing)
    outputs = fit(graph, graph.y, folds).outputs
    assert np.isfinite(outputs).all()
    assert not np.isin(outputs[0].argmax(1), missing).any()


def test_weights_and_a_deadline_that_has_passed():
    graph = random_graph(60, 4, dense=True)
    folds, weights = Folds.one(np.arange(60) < 40, np.arange(60) >= 40), np.where(graph.y == 0, 1.0, 0.0)
    member, _ = fit(graph, graph.y, folds, deadline=0.0, weights=weights)
    assert len(member.forest.root) <= 3 * 20
    assert (member.outputs(inputs_of(graph))[0].argmax(1) == 0).all()


def test_many_features_alone_are_seen_by_many_components_once_other_cheap_models_are_known():
    narrow, wide = inputs_of(random_graph()), inputs_of(random_graph(300, 900))
    assert [c.family for c in trees_candidates(narrow)] == ["features", "trees", "trees"]
    alone, near, around = trees_candidates(wide)
    given = dict.fromkeys(EXAMPLES, "auto")
    cheap = [c for c in make_candidates(wide, ["standard"], given) if not isinstance(c, Network)]
    assert cheap[-4:] == [alone, near, around, LabelTreesCandidate()]
    folds = random_folds(300, 2)
    for candidate, columns in ((alone, 256), (near, 32), (around, 128)):
        member, _ = candidate.fit(FitData(wide, wide.graph.y, folds, get_task("accuracy")))
        assert member.components.shape[1] == columns + 1  # and the number of words
