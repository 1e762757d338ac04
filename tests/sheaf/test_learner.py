"""The map learner is a linear layer on concatenated end points, without ever concatenating."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from polynsd import Topology
from polynsd.errors import ConfigError, ShapeError
from polynsd.sheaf import SheafLearner, get_family
from polynsd.sheaf.learner import ACTIVATIONS, constant_maps
from polynsd.testing import FAMILIES, assert_close, example_graph, random_edges, random_tensor

TOPOLOGY = example_graph("isolated nodes")
N, H, D, C = TOPOLOGY.num_nodes, TOPOLOGY.num_half_edges, 3, 4
LEARNED = [family for family in FAMILIES if family != "identity"]


def learner(family="diagonal", **options):
    torch.manual_seed(0)
    return SheafLearner(D, C, get_family(family), 2, **options).double()


def state(*lead):
    return random_tensor(*lead, N, D, C)


def concatenated(features, edge_attr=None):
    parts = [features[TOPOLOGY.row], features[TOPOLOGY.col]]
    return torch.cat(parts if edge_attr is None else [*parts, edge_attr], -1)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kind", ["concat", "pooled"])
@pytest.mark.parametrize("family", LEARNED)
def test_maps_are_those_of_the_concatenation(family, kind, activation):
    phi, x = learner(family, kind=kind, activation=activation, edge_dim=5), state()
    edge_attr = random_tensor(H, 5, seed=1)
    features = x.mean(1) if kind == "pooled" else x.flatten(1)
    raw = concatenated(features, edge_attr) @ phi.maps.linear.weight.mT
    expected = get_family(family).build(ACTIVATIONS[activation](raw), 2)
    assert_close(phi(x, TOPOLOGY, edge_attr), expected, "maps")


def test_edge_weights_are_symmetric_products_of_scores():
    phi, x = learner(edge_weights=True), state()
    plain = get_family("diagonal").build(phi.maps(x.flatten(1), TOPOLOGY).tanh(), 2)
    score = (concatenated(x.flatten(1)) @ phi.weights.linear.weight.mT).sigmoid()
    weight = score * score[TOPOLOGY.twin]
    assert torch.equal(weight, weight[TOPOLOGY.twin])
    assert_close(phi(x, TOPOLOGY), plain * weight[..., None], "weighted maps")


def test_replicas_share_the_learner():
    phi, x = learner("general", edge_weights=True), state(3)
    assert_close(phi(x, TOPOLOGY), torch.stack([phi(part, TOPOLOGY) for part in x]), "replicas")


def test_swapped_states_swap_the_maps_of_an_edge():
    topology, phi = example_graph("one edge"), learner("general")
    x = random_tensor(2, D, C)
    assert_close(phi(x.flip(0), topology), phi(x, topology).flip(0), "swapped")


class LargestTensor(TorchDispatchMode):
    """Records the size of the largest tensor that any operation returns."""

    numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.numel = max(self.numel, result.numel())
        return result


def test_nothing_of_the_size_of_the_concatenation_is_built():
    topology = Topology.from_edge_index(random_edges(20, 400), 20)
    phi = SheafLearner(4, 32, get_family("diagonal"), 4)
    x = torch.randn(20, 4, 32)
    with LargestTensor() as largest:
        phi(x, topology)
    # node states or raw numbers, whichever is larger; the concatenation would be 2·d·C per half-edge
    assert largest.numel == max(x.numel(), topology.num_half_edges * 4)


def test_reset_draws_both_parts_anew():
    phi = learner(edge_weights=True)
    before = [p.clone() for p in phi.parameters()]
    phi.reset_parameters()
    assert all((p != old).all() for p, old in zip(phi.parameters(), before, strict=True))


@pytest.mark.parametrize("given", [None, 2])
def test_edge_features_must_be_those_it_was_built_for(given):
    edge_attr = None if given is None else random_tensor(H, given)
    with pytest.raises(ShapeError, match=f"edge_dim=3 but got edge_attr with {given or 0} features"):
        learner(edge_dim=3)(state(), TOPOLOGY, edge_attr)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kind": "conct"}, "Did you mean 'concat'"),
        ({"activation": "tahn"}, "Did you mean 'tanh'"),
        ({"edge_dim": -1}, "edge_dim must be an integer of at least 0"),
    ],
)
def test_bad_options(options, text):
    with pytest.raises(ConfigError, match=text):
        learner(**options)


def test_constant_maps_follow_the_state():
    maps = constant_maps(get_family("identity"), TOPOLOGY, torch.ones(1, dtype=torch.float64), 3)
    assert torch.equal(maps, torch.ones(H, 1, 1, dtype=torch.float64))


def test_a_learner_prints_its_family():
    assert "orthogonal(cayley) on edges, map_dim=2, kind=pooled" in repr(
        learner("orthogonal(cayley)", kind="pooled")
    )
