"""The sheaf models of the zoo are their formulas, and keep the laws that these promise."""

import gc
import weakref

import pytest
import torch
from sheaf_formulas import (
    CHANNELS,
    EYE,
    NAMES,
    D,
    build,
    conn_nsd,
    example,
    jdsnn,
    risnn,
    san,
    truth,
    vanilla,
)

from polynsd import ConfigError
from polynsd.kernels import block_product
from polynsd.nn.precision import autocast
from polynsd.sheaf import get_family
from polynsd.spectral import Diffusion
from polynsd.testing.dense import inverse_root
from polynsd.testing.samples import GRAPHS, example_graph, random_maps, random_tensor
from polynsd.zoo import ZOO, model_class
from polynsd.zoo.sheaf_maps import RotationInvariantLearner

CASES = {
    "conn-nsd": ("conn-nsd", conn_nsd, {}),
    "conn-nsd of planes": ("conn-nsd", conn_nsd, {"stalk_dim": 2}),
    "san": ("san", san, {}),
    "ansd": ("ansd", san, {"stalk_dim": 2}),
    "risnn": ("risnn", risnn, {}),
    "risnn, diagonal": ("risnn", risnn, {"maps": "diagonal"}),
    "risnn, orthogonal": ("risnn", risnn, {"maps": "orthogonal(cayley)"}),
    "risnn-not": ("risnn-not", risnn, {"stalk_dim": 2}),
    "jdsnn": ("jdsnn", jdsnn, {"channels": D}),
    "jdsnn, learned first maps": ("jdsnn", jdsnn, {"channels": D, "maps": "diagonal"}),
    "jdsnn, tanh": ("jdsnn", jdsnn, {"channels": D, "map_activation": "tanh"}),
    "jdsnn-now": ("jdsnn-now", jdsnn, {"channels": D, "dual_norm": "degree"}),
    "vanilla-sheaf": ("vanilla-sheaf", vanilla, {}),
    "vanilla-sheaf, sheaf": ("vanilla-sheaf", vanilla, {"normalization": "sheaf"}),
    "conn-nsd, filtered": ("conn-nsd", conn_nsd, {"degree": 4, "basis": "legendre"}),
    "san, filtered": ("san", san, {"degree": 4}),
    "ansd, filtered": ("ansd", san, {"degree": 1, "coefficients": "free"}),
    "risnn, filtered": ("risnn", risnn, {"degree": 8, "coefficients": "convex"}),
    "jdsnn, filtered": ("jdsnn", jdsnn, {"channels": D, "degree": 3, "coefficients": "interpolation"}),
    "vanilla-sheaf, filtered": ("vanilla-sheaf", vanilla, {"degree": 0}),
}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("case", CASES)
def test_a_model_is_its_formula(case, graph):
    name, formula, options = CASES[case]
    model = build(name, layers=3, **options)
    x, topology = example(graph)
    torch.testing.assert_close(model(x, topology), truth(formula, model, x, topology), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_degree_one_with_its_own_coefficients_is_the_published_step(name, monkeypatch):
    """Bit for bit: L x by the same kernel; and no parameter more."""
    model, (x, topology) = build(name, degree=1, coefficients="own"), example("complete")
    assert not any("filter" in key for key in model.state_dict())
    found = model(x, topology)
    monkeypatch.setattr(Diffusion, "forward", lambda self, L, x, lam_max=None: block_product(L.blocks, x))
    assert torch.equal(model(x, topology), found)
    assert torch.equal(build(name)(x, topology), found)


@pytest.mark.parametrize("name", NAMES)
def test_a_polynomial_starts_as_the_published_step(name):
    """Whatever its degree and basis; of attention where it is the same in both directions of an edge."""
    torch.manual_seed(0)
    own, filtered = (
        model_class(name)(5, CHANNELS, 2, 2, **ZOO[name].preset, **options).double().eval()
        for options in ({}, {"degree": 7, "basis": "gegenbauer(1.5)"})
    )
    filtered.load_state_dict(own.state_dict(), strict=False)
    if name in ("san", "ansd"):
        for layer in (*own.layers, *filtered.layers):
            torch.nn.init.zeros_(layer.score.weight)
    x, topology = example("complete")
    torch.testing.assert_close(filtered(x, topology), own(x, topology), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("graph", GRAPHS)
def test_attention_with_geometric_means_is_bounded_by_its_bound(graph):
    model, topology, seen = build("san", degree=2), example_graph(graph), []
    layer = model.layers[0]
    layer.filter.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    with torch.no_grad():
        layer(2 * random_tensor(topology.num_nodes, D, CHANNELS), topology)
    N, (A,) = topology.num_nodes, seen
    matrix = torch.stack([A @ e.reshape(N, D, 1) for e in torch.eye(N * D).double()], -1).reshape(N * D, -1)
    torch.testing.assert_close(matrix, matrix.mT)
    values = torch.linalg.eigvalsh(matrix)
    assert values.min() > -1e-12
    assert values.max() < A.lambda_max()


@pytest.mark.parametrize("maps", [None, "diagonal", "general"])
def test_maps_do_not_see_a_rotation_of_the_channels(maps):
    topology = example_graph("complete")
    learner = RotationInvariantLearner(get_family("general"), D).double()
    X, Q = random_tensor(5, D, CHANNELS), torch.linalg.qr(random_tensor(CHANNELS, CHANNELS, seed=1))[0]
    before = None if maps is None else random_maps(maps, topology, D)
    torch.testing.assert_close(learner(X @ Q, before, topology), learner(X, before, topology))
    assert not torch.allclose(learner(2 * X, before, topology), learner(X, before, topology))


@pytest.mark.parametrize("graph", GRAPHS)
def test_attention_sums_to_one(graph):
    layer, topology = build("san").layers[0], example_graph(graph)
    others, own = layer.attention(random_tensor(topology.num_nodes, D, CHANNELS), topology)
    torch.testing.assert_close(own.index_add(0, topology.row, others), torch.ones_like(own))
    assert (own > 0).all()
    assert (others > 0).all()


def test_the_dual_normalisation_whitens_the_states():
    flow = build("jdsnn").flows[0]
    X = random_tensor(4, D, CHANNELS)
    truth = inverse_root(X @ X.mT + EYE[:D, :D]) @ X
    torch.testing.assert_close(flow.normalize(X), truth)


def test_joint_diffusion_of_one_layer_is_the_vanilla_sheaf():
    joint, plain = build("jdsnn", layers=1), build("vanilla-sheaf", layers=1)
    plain.load_state_dict(joint.state_dict())
    x, topology = example("complete")
    torch.testing.assert_close(joint(x, topology), plain(x, topology))


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_is_not_kept_alive(name):
    model, (x, topology) = build(name), example("path")
    model(x, topology)
    grave = weakref.ref(topology)
    del x, topology
    gc.collect()
    assert grave() is None


@pytest.mark.parametrize(
    ("first", "second"), [("san", "ansd"), ("risnn", "risnn-not"), ("jdsnn", "jdsnn-now")]
)
def test_presets_are_different_models(first, second):
    x, topology = example("complete")
    assert not torch.allclose(build(first)(x, topology), build(second)(x, topology))


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_reaches_linear_maps_only(name):
    model, (x, topology) = build(name).float(), example("complete")
    with torch.no_grad(), autocast("bf16", "cpu"):
        low = model(x.float(), topology)
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), model(x.float(), topology), rtol=0.1, atol=0.1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"stalk_dim": 0},
        {"dropout": 1.0},
        {"input_dropout": -0.1},
        {"num_layers": 0},
        {"degree": -1},
        {"degree": 10**9},
        {"basis": "legendre"},
        {"coefficients": "own "},
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_wrong_values_are_named(name, wrong):
    sizes = {"in_channels": 5, "hidden_channels": 4, "num_layers": 2, "out_channels": 2}
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        model_class(name)(**{**sizes, **ZOO[name].preset, **wrong})


@pytest.mark.parametrize("name", NAMES)
def test_a_wide_state_is_mixed_the_same_way(name, monkeypatch):
    model, (x, topology) = build(name), example("complete")
    narrow = model(x, topology)
    monkeypatch.setattr("polynsd.nn.layer.NARROW", 0)
    torch.testing.assert_close(model(x, topology), narrow)
