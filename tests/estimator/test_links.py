"""Links as features: columns are the nodes of fit, and nothing is pretended about others."""

import numpy as np
import pytest
import torch
from scipy import sparse

from polynsd.data import Graph
from polynsd.estimator.features import FeatureTreatments
from polynsd.estimator.folds import Folds
from polynsd.estimator.inputs import Inputs
from polynsd.estimator.kinds import restore_member, store_member
from polynsd.estimator.linear import LinearCandidate
from polynsd.estimator.links import LinkCandidate, LinkedInputs
from polynsd.estimator.members import FitData
from polynsd.training import get_task

N = 120
RNG = np.random.default_rng(0)
HUB = np.arange(N) % 3  # every node is linked to one of three hubs, which is its class
EDGES = np.stack([HUB[3:], np.arange(3, N)])
X = RNG.normal(size=(N, 4))


def inputs(x=X, edges=EDGES, places=None):
    return Inputs(Graph("hubs", edges, len(x), x=x), FeatureTreatments.learn(X), places=places)


@pytest.fixture(scope="module")
def member():
    train = RNG.random(N) < 0.5
    candidate = LinkCandidate(LinearCandidate("linear, links", "links"))
    folds = Folds.one(train, ~train)
    return candidate.fit(FitData(inputs(), HUB, folds, get_task("accuracy"))).member


def test_columns_are_links_then_features():
    linked = LinkedInputs(inputs(), N)
    expected = np.hstack([inputs().adjacency("plain").toarray(), inputs().features()])
    assert sparse.issparse(linked.features())
    np.testing.assert_array_equal(linked.features().toarray(), expected)
    assert torch.equal(linked.data("standard").x, torch.from_numpy(expected).float())


def test_a_class_that_hangs_on_whom_a_node_is_linked_to_is_found(member):
    predicted = member.outputs(inputs())[0].argmax(1)
    assert (predicted[3:] == HUB[3:]).mean() > 0.95
    alone = LinearCandidate("linear", "features")
    folds = Folds.one(np.arange(N) % 2 == 0, np.arange(N) % 2 == 1)
    features = alone.fit(FitData(inputs(), HUB, folds, get_task("accuracy")))
    assert (features.outputs[0].argmax(1)[3:] == HUB[3:]).mean() < 0.7


def test_other_nodes_are_told_by_features_alone(member):
    other, unknown = RNG.normal(size=(50, 4)), np.full(50, -1)
    edges = np.stack([np.zeros(49, dtype=np.int64), np.arange(1, 50)])
    linked = member.outputs(inputs(other, edges, unknown))
    unlinked = member.outputs(inputs(other, np.empty((2, 0), dtype=np.int64), unknown))
    np.testing.assert_allclose(linked, unlinked)


def test_the_nodes_of_fit_are_known_in_another_order_and_beside_others(member):
    order = RNG.permutation(N)  # node i of the other graph is node order[i] of fit
    x = np.vstack([X[order], RNG.normal(size=(1, 4))])
    edges = np.hstack([np.argsort(order)[EDGES], [[int(np.argsort(order)[1])], [N]]])
    found = member.outputs(inputs(x, edges, np.append(order, -1)))[0]
    expected = member.outputs(inputs())[0]
    np.testing.assert_allclose(found[:N][order != 1], expected[order[order != 1]])
    assert found[N].argmax() == 1  # by its link to hub 1


def test_state(member):
    again = restore_member(*store_member(member))
    assert (again.name, again.family, again.parameters) == (member.name, "links", member.parameters)
    np.testing.assert_array_equal(again.outputs(inputs()), member.outputs(inputs()))
