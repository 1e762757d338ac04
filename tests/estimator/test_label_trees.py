"""Trees that see labels of neighbours: never a node's own or held-out ones; what they mean is learned."""

import numpy as np
import pytest
from test_linear_candidates import inputs_of, random_folds, random_graph

from polynsd import DataError
from polynsd.data import Graph
from polynsd.estimator.features import FeatureTreatments
from polynsd.estimator.folds import Folds
from polynsd.estimator.inputs import Inputs
from polynsd.estimator.kinds import restore_member, store_member
from polynsd.estimator.label_trees import PRIOR, LabelTreesCandidate, add_labels, as_columns
from polynsd.estimator.members import FitData
from polynsd.estimator.storage import check_member
from polynsd.training import get_task

pytestmark = pytest.mark.usefixtures("no_tracer")


def fit(graph, folds, target=None, metric="accuracy"):
    target = graph.y if target is None else target
    return LabelTreesCandidate().fit(FitData(inputs_of(graph), target, folds, get_task(metric)))


def columns_of(graph, labels) -> np.ndarray:
    return add_labels(np.empty((graph.num_nodes, 0)), inputs_of(graph), as_columns(labels, 3))


def test_the_columns_are_those_of_the_equation():
    graph = random_graph()
    labels = np.where(np.random.default_rng(0).random(60) < 0.6, graph.y, -1)
    P, is_known = inputs_of(graph).adjacency("mean").toarray(), (labels >= 0).astype(float)
    Y = np.eye(3)[labels] * is_known[:, None]
    mean, expected = Y.sum(0) / is_known.sum(), []
    for Q in (P, P @ P - np.diag(np.diag(P @ P))):
        known = Q @ is_known[:, None]
        expected += [(Q @ Y + PRIOR * mean) / (known + PRIOR), known]
    np.testing.assert_allclose(columns_of(graph, labels), np.hstack(expected), atol=1e-12)


def test_a_node_does_not_see_its_own_label():
    graph, node = random_graph(), 7
    labels = graph.y.copy()
    labels[node] = (labels[node] + 1) % 3
    before, after = columns_of(graph, graph.y), columns_of(graph, labels)
    mean = np.bincount(labels, minlength=3) - np.bincount(graph.y, minlength=3)  # of which it is a part
    near = after[node] - before[node]
    for start, share in ((0, before[node, 3]), (4, before[node, 7])):
        np.testing.assert_allclose(near[start : start + 3], PRIOR * mean / 60 / (share + PRIOR), atol=1e-12)
    assert (near[[3, 7]] == 0).all()


def test_labels_of_held_out_nodes_have_no_influence():
    graph, folds = random_graph(200, 4, dense=True), random_folds(200, 2)
    other = np.where(folds.val[0] & ~folds.val[1], (graph.y + 1) % 3, graph.y)
    first, second = (fit(graph, folds, y).member for y in (graph.y, other))
    assert (first.labels[0] == second.labels[0]).all()
    assert not (first.labels[1] == second.labels[1]).all()


def test_neighbours_of_another_class_are_understood():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    ends = rng.integers(0, 400, (2, 6000))
    ends = np.unique(ends[:, (y[ends[0]] + 1) % 3 == y[ends[1]]], axis=1)  # class c beside class c + 1 alone
    graph = Graph("unlike", ends, 400, x=rng.normal(size=(400, 2)), y=y)
    train = rng.random(400) < 0.6
    outputs = fit(graph, Folds.one(train, ~train)).outputs
    assert (outputs[0].argmax(1) == y)[~train].mean() > 0.95


@pytest.mark.parametrize("metric", ["accuracy", "r2"])
def test_members_are_restored_and_see_no_labels_of_other_nodes(metric):
    graph, other = random_graph(200, 4, dense=True), random_graph(80, 4, seed=1, dense=True)
    target = graph.y if metric == "accuracy" else graph.x[:, 0].astype(np.float64)
    member, expected = fit(graph, random_folds(200, 2), target, metric)
    again = restore_member(*store_member(member))
    found = again.outputs(inputs_of(graph))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    elsewhere = Inputs(other, FeatureTreatments.learn(other.x), places=np.full(80, -1))
    assert np.isfinite(again.outputs(elsewhere)).all()
    check_member(again, 4, found.shape[2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda labels: labels + 3, "must lie from -1 to 2"),
        (lambda labels: labels[:1], "not those of 2 folds"),
        (lambda labels: labels.double(), "not those of 2 folds and 3 outputs"),
    ],
)
def test_labels_that_do_not_fit_are_refused(change, message):
    graph = random_graph(60, 4, dense=True)
    data, tensors = store_member(fit(graph, random_folds(60, 2)).member)
    with pytest.raises(DataError, match=message):
        restore_member(data, {**tensors, "labels": change(tensors["labels"])})
