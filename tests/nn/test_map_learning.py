"""What the map learners compute: a linear map of [x_v ‖ x_u], and edge weights that both ends agree on."""

import pytest
import torch
from small_graphs import EDGE_INDEX, NUM_NODES, close, features, shaken

from polynsd import SheafLearner, Topology
from polynsd.sheaf import get_family

TOPOLOGY = Topology.from_edge_index(EDGE_INDEX, NUM_NODES)
D, C = 4, 3
STATE = features(NUM_NODES, D * C).reshape(NUM_NODES, D, C)


def make_learner(family="general", **options):
    torch.manual_seed(0)
    return shaken(SheafLearner(D, C, get_family(family), D, **options)).requires_grad_(False)


def endpoint_pairs(x):
    """[H, 2m] the features of both ends of every half-edge, its own node first."""
    return torch.cat([x[TOPOLOGY.row], x[TOPOLOGY.col]], -1)


@pytest.mark.parametrize(
    ("activation", "rho"),
    [("tanh", torch.tanh), ("identity", lambda raw: raw), ("elu", torch.nn.functional.elu)],
)
def test_concat_is_a_linear_map_of_both_ends(activation, rho):
    learner = make_learner(activation=activation)
    raw = endpoint_pairs(STATE.flatten(1)) @ learner.maps.linear.weight.mT
    assert close(learner(STATE, TOPOLOGY), rho(raw).reshape(-1, D, D))


def test_edge_features_are_appended():
    learner, attributes = make_learner(edge_dim=2), features(TOPOLOGY.num_half_edges, 2)
    inputs = torch.cat([endpoint_pairs(STATE.flatten(1)), attributes], -1)
    maps = torch.tanh(inputs @ learner.maps.linear.weight.mT).reshape(-1, D, D)
    assert close(learner(STATE, TOPOLOGY, attributes), maps)


def test_pooled_takes_the_mean_over_the_stalk_of_each_end_apart():
    learner = make_learner(kind="pooled")
    raw = endpoint_pairs(STATE.mean(1)) @ learner.maps.linear.weight.mT
    maps = learner(STATE, TOPOLOGY)
    assert learner.maps.linear.in_features == 2 * C
    assert close(maps, torch.tanh(raw).reshape(-1, D, D))
    assert (maps - maps[TOPOLOGY.twin]).abs().amax((1, 2)).min() > 1e-2


def test_the_published_pooling_confuses_the_ends():
    """Cutting [x_v ‖ x_u] into D pieces of length 2C and adding them is symmetric in v and u for even D."""
    pairs = endpoint_pairs(STATE.flatten(1))
    pooled = pairs.reshape(-1, D, 2 * C).sum(1)
    assert close(pooled, pooled[TOPOLOGY.twin])


def test_swapping_the_ends_gives_the_map_at_the_other_end():
    learner = make_learner()
    swapped = Topology.from_edge_index(EDGE_INDEX.flip(0), NUM_NODES)
    assert close(learner(STATE, swapped), learner(STATE, TOPOLOGY))
    own, other, _ = learner.maps.linear.weight.split([D * C, D * C, 0], 1)
    learner.maps.linear.weight.copy_(torch.cat([other, own], 1))
    reversed_maps = learner(STATE, TOPOLOGY)
    assert close(reversed_maps, make_learner()(STATE, TOPOLOGY)[TOPOLOGY.twin])


@pytest.mark.parametrize("kind", ["concat", "pooled"])
def test_edge_weights_are_symmetric_and_between_0_and_1(kind):
    learner = make_learner("orthogonal", edge_weights=True, kind=kind)
    maps = learner(STATE, TOPOLOGY)
    weight = torch.linalg.matrix_norm(maps, 2)
    assert close(weight, weight[TOPOLOGY.twin])
    assert ((weight > 0) & (weight < 1)).all()
    x = STATE.mean(1) if kind == "pooled" else STATE.flatten(1)
    score = torch.sigmoid(endpoint_pairs(x) @ learner.weights.linear.weight[0])
    assert close(weight, score * score[TOPOLOGY.twin])
