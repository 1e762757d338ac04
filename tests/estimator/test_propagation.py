"""Spreading labels: those of a fold's training nodes only, on the graph of fit only."""

from dataclasses import replace

import numpy as np
import pytest
from test_linear_candidates import inputs_of, random_folds, random_graph

from polynsd.data import Graph
from polynsd.estimator.features import FeatureTreatments
from polynsd.estimator.folds import Folds
from polynsd.estimator.inputs import Inputs
from polynsd.estimator.kinds import restore_member, store_member
from polynsd.estimator.linear import LinearCandidate
from polynsd.estimator.members import FitData
from polynsd.estimator.propagation import FitOnce, PropagationCandidate, PropagationMember, propagate
from polynsd.training import get_task


def two_paths(length=15) -> Graph:
    """Two paths, a class each; features say nothing."""
    ends = [(i, i + 1) for part in (0, length) for i in range(part, part + length - 1)]
    x = np.random.default_rng(0).normal(size=(2 * length, 2)).astype(np.float32)
    return Graph("paths", np.array(ends).T, 2 * length, x=x, y=np.repeat([0, 1], length))


def fit(graph, folds, target=None, metric="accuracy", base=None) -> PropagationMember:
    target = graph.y if target is None else target
    data = FitData(inputs_of(graph), target, folds, get_task(metric))
    return PropagationCandidate("labels", "labels", base).fit(data).member


def test_what_is_spread_solves_the_equation():
    inputs = inputs_of(two_paths())
    p, given = inputs.adjacency("symmetric"), np.random.default_rng(0).random((30, 2))
    found = propagate(p, given, 0.6)
    np.testing.assert_allclose(found, 0.4 * given + 0.6 * (p @ found), atol=1e-9)


def test_a_label_reaches_the_nodes_that_are_connected():
    graph = two_paths()
    train = np.isin(np.arange(30), [0, 14, 15, 29])
    outputs = fit(graph, Folds.one(train, ~train)).outputs(inputs_of(graph))
    np.testing.assert_array_equal(outputs[0].argmax(1), graph.y)
    np.testing.assert_allclose(np.exp(outputs).sum(-1), 1)


def test_labels_of_held_out_nodes_have_no_influence():
    graph, folds = two_paths(), random_folds(30, 2)
    other = np.where(folds.val[0] & ~folds.val[1], 1 - graph.y, graph.y)
    first, second = (fit(graph, folds, y) for y in (graph.y, other))
    assert (first.labels[0] == second.labels[0]).all()
    assert not (first.labels[1] == second.labels[1]).all()
    alike = (first, replace(second, share=first.share))
    np.testing.assert_array_equal(*[member.outputs(inputs_of(graph))[0, folds.used] for member in alike])


def test_nodes_without_a_label_see_those_of_held_out_nodes():
    graph = two_paths()
    train, val = np.isin(np.arange(30), [0, 29]), np.isin(np.arange(30), [14, 15])
    outputs = fit(graph, Folds.one(train, val)).outputs(inputs_of(graph))[0]
    assert outputs[13, 0] - outputs[13, 1] > 5 > abs(outputs[14, 0] - outputs[14, 1])


@pytest.mark.parametrize("base", [None, LinearCandidate("linear", "smoothed", hops=1)])
def test_members_are_restored_and_know_their_nodes(base):
    graph, other = random_graph(), random_graph(80, seed=1)
    member = fit(graph, random_folds(60), base=base)
    again = restore_member(*store_member(member))
    np.testing.assert_array_equal(again.outputs(inputs_of(graph)), member.outputs(inputs_of(graph)))
    elsewhere = Inputs(other, FeatureTreatments.learn(other.x), places=np.full(80, -1))
    found = again.outputs(elsewhere)
    if base is None:
        np.testing.assert_allclose(np.exp(found), np.repeat(member.prior[:, None], 80, 1))
    else:
        np.testing.assert_array_equal(found, member.base.outputs(elsewhere))


def test_numbers_are_spread():
    graph = two_paths()
    target = np.where(graph.y == 0, -1.0, 1.0) + np.tile(np.linspace(-0.3, 0.3, 15), 2)
    train = np.arange(30) % 3 == 0
    member = fit(graph, Folds.one(train, ~train), target, "r2")
    found = member.outputs(inputs_of(graph))[0, :, 0]
    assert np.abs(found - target).mean() < 0.2


def test_an_edge_less_is_still_the_same_graph():
    graph = two_paths()
    train = np.isin(np.arange(30), [0, 14, 15, 29])
    member = fit(graph, Folds.one(train, ~train))
    less = replace(graph, edge_index=graph.edge_index[:, 1:])
    assert np.exp(member.outputs(inputs_of(less))[0, 13]).argmax() == 0
    assert np.ptp(member.outputs(inputs_of(less))[0, 13]) > 1


def test_a_base_is_fitted_once():
    graph, folds = random_graph(), random_folds(60)
    inputs, base = inputs_of(graph), FitOnce(LinearCandidate("linear", "smoothed"))
    data = FitData(inputs, graph.y, folds, get_task("accuracy"))
    member = PropagationCandidate("labels", "labels", base).fit(data).member
    assert base.fit(data).member is member.base
    assert base.fit(replace(data, folds=random_folds(60, 2))).member is not member.base
