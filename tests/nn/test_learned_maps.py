"""Trunks, maps on nodes and the block after which the norm stands; learned maps contain their control."""

import pytest
import torch
from small_graphs import EDGE_INDEX, NUM_FEATURES, NUM_NODES, close, features, shaken
from torch.nn import functional

from polynsd import ConfigError, IdentitySheaf, PolyNSD, Topology
from polynsd.nn.assembly import assemble_laplacian
from polynsd.published import PUBLISHED_LAYER
from polynsd.sheaf.learner import neighbour_mean

TOPOLOGY = Topology.from_edge_index(EDGE_INDEX, NUM_NODES)
ADJACENCY = torch.zeros(NUM_NODES, NUM_NODES, dtype=torch.float64)
ADJACENCY[TOPOLOGY.row, TOPOLOGY.col] = 1
BLOCK = PUBLISHED_LAYER | {
    "stalk_dim": 2, "degree": 2, "gate": "shortcut", "activation": "relu", "coefficients": "free",
    "correction": "none", "norm": "batch", "norm_position": "after", "dropout_position": "last",
    "mixing": "full",
    "learner": "gnn", "learner_width": 6, "learner_hops": 2, "trunk": "both", "map_start": "identity",
    "learner_inputs": ("state", "features", "degree"),
}  # fmt: skip
CONTROL = BLOCK | {"map_start": "random"}


def build(kind, num_layers=3, seed=0, **options):
    torch.manual_seed(seed)
    return kind(NUM_FEATURES, 4, num_layers, 2, **options)


@pytest.mark.parametrize("normalization", ["sheaf-augmented", "random-walk"])
@pytest.mark.parametrize(
    "maps", ["orthogonal", "orthogonal(euler)", "orthogonal(cayley)", "conformal", "diagonal"]
)
@pytest.mark.parametrize("channels", [(), ("laplacian",)])
def test_on_nodes_the_model_starts_as_its_control_bit_for_bit(maps, normalization, channels):
    changes = {"normalization": normalization, "fixed_channels": channels}
    model = build(PolyNSD, **(BLOCK | changes | {"maps": maps, "maps_on": "nodes"}))
    control = build(IdentitySheaf, **(CONTROL | changes | {"maps": "identity"}))
    x = features(dtype=torch.float32)
    assert torch.equal(model.eval()(x, EDGE_INDEX), control.eval()(x, EDGE_INDEX))
    assert all(torch.equal(p, model.state_dict()[name]) for name, p in control.state_dict().items())


@pytest.mark.parametrize("maps", ["diagonal", "orthogonal", "general", "conformal"])
def test_on_edges_it_does_so_up_to_rounding(maps):
    model = build(PolyNSD, **(BLOCK | {"maps": maps})).double().eval()
    control = build(IdentitySheaf, **(CONTROL | {"maps": "identity"})).double().eval()
    assert close(model(features(), EDGE_INDEX), control(features(), EDGE_INDEX))


def test_the_maps_leave_the_identity_in_the_first_step():
    model = build(PolyNSD, **(BLOCK | {"maps": "orthogonal", "maps_on": "nodes"}))
    model(features(dtype=torch.float32), EDGE_INDEX).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.sheaf_parameters())
    assert not any(p.any() for p in model.sheaf_parameters())


@pytest.mark.parametrize("maps", ["orthogonal", "conformal", "diagonal", "general"])
def test_maps_on_nodes_are_the_same_maps_on_all_edges_of_a_node(maps):
    options = BLOCK | {"maps": maps, "maps_on": "nodes", "map_start": "random"}
    layer = shaken(build(PolyNSD, 1, **options)).layers[0]
    x, context = features(NUM_NODES, 8).reshape(NUM_NODES, 2, 4), features(NUM_NODES, 8, seed=1)
    L, t = layer.learn(x, TOPOLOGY, context=context)
    maps = layer.learner.maps_on_edges(t, TOPOLOGY)
    on_edges = assemble_laplacian(layer.config, TOPOLOGY, None, None, maps)
    assert close(L.to_dense(), on_edges.to_dense())


def test_a_trunk_is_graphsage_with_a_root_term():
    layer = shaken(build(PolyNSD, 1, **(BLOCK | {"maps": "orthogonal"}))).layers[0]
    t = x = features(NUM_NODES, layer.learner.trunk.own[0].in_features)
    mean = ADJACENCY / ADJACENCY.sum(1, keepdim=True).clamp(min=1)
    for own, others in zip(layer.learner.trunk.own, layer.learner.trunk.others, strict=True):
        t = functional.gelu(own(t) + others(mean @ t))
    assert close(layer.learner.trunk(x, TOPOLOGY), t)
    assert close(neighbour_mean(x, TOPOLOGY), mean @ x)
    weight = torch.rand(TOPOLOGY.num_half_edges, dtype=torch.float64)
    weight = weight + weight[TOPOLOGY.twin]
    weighted = torch.zeros_like(ADJACENCY)
    weighted[TOPOLOGY.row, TOPOLOGY.col] = weight
    weighted = weighted / weighted.sum(1, keepdim=True).clamp(min=1e-9)
    assert close(neighbour_mean(x, TOPOLOGY, weight), weighted @ x)


def test_the_block_normalises_the_sum_and_drops_last():
    layer = shaken(
        build(PolyNSD, 1, **(BLOCK | {"maps": "orthogonal", "norm": "layer", "dropout": 0.5}))
    ).layers[0]
    x, context = features(NUM_NODES, 8).reshape(NUM_NODES, 2, 4), features(NUM_NODES, 8, seed=1)
    sheaf = layer.learn(x, TOPOLOGY, context=context)
    h = functional.linear(x.flatten(1), layer.full_mixing).reshape(x.shape)
    z = layer.filter(sheaf.laplacian, h).flatten(1)
    z = layer.norm(z + layer.shortcut(x.flatten(1)) + layer.addition(sheaf.trunk)).relu()
    assert close(layer.diffuse(x, *sheaf).flatten(1), z)
    torch.manual_seed(0)
    dropped = layer.train().diffuse(x, *sheaf).flatten(1)
    torch.manual_seed(0)
    assert close(dropped, functional.dropout(z.reshape(x.shape), 0.5).flatten(1))


@pytest.mark.parametrize("shared_maps", [False, True])
def test_the_decoder_sees_the_state_of_the_last_layer(shared_maps):
    options = BLOCK | {"maps": "orthogonal", "maps_on": "nodes", "shared_maps": shared_maps}
    model = shaken(build(PolyNSD, 2, **options))
    state = model.encode(features())
    context = state.flatten(-2)
    first = model.layers[0].learn(state, TOPOLOGY, context=context)
    for layer in model.layers:
        sheaf = first if shared_maps else layer.learn(state, TOPOLOGY, context=context)
        state = layer.diffuse(state, *sheaf)
    assert close(model(features(), EDGE_INDEX), model.decoder(state.flatten(1)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learner": "gnn", "trunk": "state"}, "leaves nothing to read"),
        ({"learner": "gnn", "learner_inputs": ("degree",)}, "must contain 'state'"),
        ({"maps_on": "nodes", "edge_dim": 2}, "see no edge features"),
        ({"normalization": "random-walk", "maps": "general"}, "diagonal FᵀF"),
        ({"learner": "gnn", "learner_hops": 0}, "learner_hops"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        build(PolyNSD, **(PUBLISHED_LAYER | options))
