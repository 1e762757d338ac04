"""One `SheafLayer`: its formula part by part, what it starts from, and that every parameter learns."""

import math
from dataclasses import fields

import pytest
import torch
from small_graphs import EDGE_INDEX, NUM_NODES, close, features, shaken
from torch.nn.functional import elu

from polynsd import ConfigError, LayerConfig, PolyNSD, Topology
from polynsd.nn import SheafLayer, count_parameters
from polynsd.published import PUBLISHED_LAYER
from polynsd.sheaf.orthogonal import METHODS

TOPOLOGY = Topology.from_edge_index(EDGE_INDEX, NUM_NODES)
CHANNELS, FAMILIES = 3, ("identity", "diagonal", "orthogonal", "general")


def published(**options):
    return LayerConfig(**PUBLISHED_LAYER | {"stalk_dim": 2} | options)


def make_layer(**options):
    torch.manual_seed(0)
    return shaken(SheafLayer(CHANNELS, published(**options)))


def state(layer, seed=0):
    D = layer.config.total_stalk_dim
    return features(NUM_NODES, D * CHANNELS, seed).reshape(NUM_NODES, D, CHANNELS)


def mixed(layer, x):
    """(I ⊗ W₁) x W₂ᵀ."""
    return torch.einsum("ij,njc,kc->nik", layer.stalk_mixing, x, layer.channel_mixing)


@pytest.mark.parametrize("maps", FAMILIES)
@pytest.mark.parametrize("correction", ["none", "linear", "high-pass"])
def test_the_update_is_gate_times_state_minus_activated_filter(maps, correction):
    layer = make_layer(maps=maps, correction=correction, fixed_channels=("laplacian",))
    x = state(layer)
    z = layer.filter(layer.laplacian(x, TOPOLOGY), mixed(layer, x))
    assert close(layer(x, TOPOLOGY), (1 + layer.epsilon.tanh()) * x - elu(z))


def test_the_residual_correction_mixes_the_untouched_state_in():
    options = {"activation": "identity", "maps": "general"}
    layer, plain = make_layer(correction_state="residual", **options), make_layer(**options)
    x = state(layer)
    difference = layer.filter.alpha * (mixed(layer, x) - x)
    assert close(layer(x, TOPOLOGY) - plain(x, TOPOLOGY), difference)


def test_idle_mixing_exists_but_does_nothing():
    idle, none = make_layer(mixing="idle"), make_layer(mixing="none")
    none.load_state_dict({name: value for name, value in idle.state_dict().items() if "mixing" not in name})
    assert torch.equal(idle(state(idle), TOPOLOGY), none(state(idle), TOPOLOGY))
    assert idle.stalk_mixing.numel() + idle.channel_mixing.numel() == 2**2 + CHANNELS**2


def test_a_new_layer_starts_from_identity_orthogonal_and_zero():
    layer = SheafLayer(CHANNELS, published())
    eye = torch.eye(CHANNELS)
    assert torch.equal(layer.stalk_mixing, torch.eye(2))
    assert torch.allclose(layer.channel_mixing @ layer.channel_mixing.mT, eye, atol=1e-6)
    assert not torch.allclose(layer.channel_mixing, eye)
    assert all((p == 0).all() for p in (layer.epsilon, layer.filter.theta, layer.filter.alpha))


@pytest.mark.parametrize(("gate", "gain"), [("tanh", lambda e: 1 + e.tanh()), ("linear", lambda e: 1 + e)])
def test_the_gate_scales_the_residual(gate, gain):
    layer = make_layer(gate=gate)
    assert close(layer.residual_gain(), gain(layer.epsilon))
    assert make_layer(gate="none").residual_gain() == 1


@pytest.mark.parametrize("mixing", ["both", "full"])
def test_a_shortcut_is_a_linear_map_inside_the_activation(mixing):
    layer = make_layer(gate="shortcut", norm="layer", mixing=mixing, coefficients="free")
    x = state(layer)
    y = layer.norm(x.flatten(1)).reshape(x.shape)
    h = mixed(layer, y) if mixing == "both" else (y.flatten(1) @ layer.full_mixing.mT).reshape(x.shape)
    z = layer.filter(layer.laplacian(x, TOPOLOGY), h)
    expected = elu(z + (y.flatten(1) @ layer.shortcut.weight.mT + layer.shortcut.bias).reshape(x.shape))
    assert close(layer(x, TOPOLOGY), expected)
    assert layer.epsilon is None
    assert layer.residual_gain() == 0
    assert close(layer.response(torch.linspace(0, 2, 5)).r[0], layer.response(torch.linspace(0, 2, 5)).m)


@pytest.mark.parametrize("coefficients", ["free", "interpolation"])
@pytest.mark.parametrize("basis", ["chebyshev1", "legendre", "jacobi(0.5, 0)", "gegenbauer(1.5)"])
def test_a_layer_with_a_shortcut_starts_as_the_adjacency(basis, coefficients):
    """m(λ) = 1 − λ on [0, 2]; convex weights have no such polynomial."""
    lam = torch.linspace(0, 2, 7).double()
    options = {"gate": "shortcut", "correction": "none", "basis": basis}
    layer = SheafLayer(CHANNELS, published(coefficients=coefficients, **options))
    assert torch.allclose(layer.filter.response(lam), 1 - lam, atol=1e-5)
    convex = SheafLayer(CHANNELS, published(**options))
    assert convex.filter.response(lam[-1:]).item() == pytest.approx(1)


@pytest.mark.parametrize("maps", [maps for maps in FAMILIES if maps != "identity"])
def test_maps_that_start_constant_transport_by_the_identity(maps):
    """The first Laplacian is that of the constant sheaf, times tanh(1)² where ρ = tanh scales the maps."""
    options = {"maps": maps, "map_start": "constant", "normalization": "none"}
    layer = SheafLayer(CHANNELS, published(**options)).double()
    plain = SheafLayer(CHANNELS, published(maps="identity", normalization="none")).double()
    scale = 1.0 if maps == "orthogonal" else math.tanh(1) ** 2
    x = state(layer)
    dense = [one.laplacian(x, TOPOLOGY).to_dense() for one in (layer, plain)]
    assert torch.allclose(dense[0], scale * dense[1], atol=1e-12)
    torch.autograd.backward(layer(x, TOPOLOGY).square().sum())
    assert layer.learner.maps.linear.weight.grad.abs().max() > 1e-9  # it can leave this state


@pytest.mark.parametrize("position", ["before", "after"])
def test_dropout_acts_before_the_mixing_or_after_the_filter(position):
    layer = make_layer(dropout=0.5, dropout_position=position, maps="identity", activation="identity")
    x, gain = state(layer), layer.residual_gain()
    z = gain * x - layer(x, TOPOLOGY)
    noisy = gain * x - layer.train()(x, TOPOLOGY)
    dropped = noisy.abs() < 1e-12
    if position == "after":  # an entry of z is lost or doubled
        assert 0.2 < dropped.double().mean() < 0.8
        assert close(noisy[~dropped], 2 * z[~dropped])
    else:  # the mixing has spread what was left
        assert dropped[:6].sum() == 0  # node 6 is isolated
        assert not close(noisy, z, atol=1e-3)


def test_map_dropout_touches_the_maps_only():
    layer = make_layer(map_dropout=1 - 1e-12, map_activation="identity").train()
    assert (layer.laplacian(state(layer), TOPOLOGY).maps == 0).all()
    assert layer.eval().laplacian(state(layer), TOPOLOGY).maps.abs().min() > 0


BROAD = [
    {"maps": maps, "fixed_channels": channels, **more}
    for maps in (*FAMILIES, "orthogonal(cayley)", "orthogonal(matrix_exp)")
    for channels in ((), ("laplacian", "signless"))
    for more in (
        {},
        {"normalization": "sheaf", "correction": "high-pass", "lambda_max": "lanczos"},
        {"normalization": "none", "coefficients": "free", "gate": "linear"},
        {"normalization": "degree", "coefficients": "interpolation", "activation": "tanh"},
        {"filter": "diffusion", "mixing": "stalk", "activation": "relu"},
        {"basis": "jacobi(0.5, -0.2)", "correction_state": "residual", "dropout_position": "after"},
    )
] + [
    {"maps": maps, "learner": learner, "edge_weights": True, "edge_dim": 2, "map_activation": activation}
    for maps in ("diagonal", "orthogonal", "general")
    for learner in ("concat", "pooled")
    for activation in ("tanh", "elu", "identity")
]  # fmt: skip


@pytest.mark.parametrize("options", BROAD, ids=lambda options: "-".join(map(str, options.values())))
def test_every_parameter_learns(options):
    layer = make_layer(**options)
    attributes = features(TOPOLOGY.num_half_edges, 2) if layer.config.edge_dim else None
    layer(state(layer), TOPOLOGY, edge_attr=attributes).square().sum().backward()
    silent = [name for name, p in layer.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    assert silent == []


def test_only_idle_mixing_does_not_learn():
    layer = make_layer(mixing="idle")
    layer(state(layer), TOPOLOGY).square().sum().backward()
    silent = [name for name, parameter in layer.named_parameters() if parameter.grad is None]
    assert silent == ["stalk_mixing", "channel_mixing"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"gate": "shortcut", "dropout_position": "after"}, "dropout_position='before'"),
        ({"gate": "shortcut", "correction_state": "residual"}, "correction_state='filtered'"),
        ({"maps": "identity", "edge_weights": True}, "learns nothing"),
        ({"map_start": "zero"}, "map_start"),
    ],
)
def test_options_that_exclude_each_other(options, text):
    with pytest.raises(ConfigError, match=text):
        published(**options)


def test_the_bias_of_constant_maps_is_a_parameter_of_the_sheaf_and_starts_anew():
    options = PUBLISHED_LAYER | {"stalk_dim": 2, "map_start": "constant"}
    model = PolyNSD(4, 3, 2, 2, **options)
    first = model.layers[0].learner
    assert any(first.bias is p for p in model.sheaf_parameters())
    with torch.no_grad():
        for p in first.parameters():
            p.add_(1)
    model.reset_parameters()
    assert torch.equal(first.bias, torch.ones(2))
    assert not first.maps.linear.weight.any()


# No option is decoration: each changes the output or the number of parameters of a layer


ALTERNATIVES = {  # option: the other values it can take, besides the published one
    "stalk_dim": [1, 3],
    "maps": ["identity", "general", *(f"orthogonal({method})" for method in METHODS), "conformal"],
    "maps_on": ["nodes"],
    "fixed_channels": [("laplacian",), ("signless",)],
    "normalization": ["none", "sheaf", "degree", "random-walk"],
    "learner": ["pooled", "mlp", "gnn"],
    "learner_hops": [1, 2],
    "learner_width": [5],
    "learner_inputs": [("state", "degree")],
    "trunk": ["both"],
    "map_activation": ["elu", "identity"],
    "map_start": ["constant", "identity"],
    "edge_weights": [True],
    "edge_dim": [2],
    "filter": ["diffusion"],
    "degree": [0, 1, 5],
    "basis": [
        "chebyshev2", "chebyshev3", "chebyshev4", "legendre", "gegenbauer(1.5)", "jacobi(0.5, 0)", "monomial",
    ],
    "coefficients": ["free", "interpolation"],
    "correction": ["high-pass", "none"],
    "lambda_max": ["lanczos"],
    "mixing": ["stalk", "channel", "full", "none", "idle"],
    "norm": ["layer", "batch"],
    "norm_position": ["after"],
    "gate": ["linear", "none", "shortcut", "rezero"],
    "activation": ["relu", "tanh", "identity"],
    "dropout": [0.0, 0.7],
    "map_dropout": [0.5],
    "dropout_position": ["after", "last"],
    "correction_state": ["residual"],
}  # fmt: skip
GNN = {"learner": "gnn"}
NEEDED = {  # options that mean something only beside others
    **dict.fromkeys(("learner_hops", "learner_width", "learner_inputs", "trunk"), GNN),
    "norm_position": {"norm": "layer"},
}


def fingerprint(options):
    """(number of parameters, output) of a layer in training mode, with the same noise for equal shapes."""
    torch.manual_seed(0)
    layer = shaken(SheafLayer(3, published(**{"dropout": 0.3, **options}))).train().requires_grad_(False)
    D, edge_dim = layer.config.total_stalk_dim, layer.config.edge_dim
    x = features(NUM_NODES, 3 * D).reshape(NUM_NODES, D, 3)
    attributes = features(TOPOLOGY.num_half_edges, edge_dim) if edge_dim else None
    return count_parameters(layer), layer(x, TOPOLOGY, edge_attr=attributes)


def differ(a, b):
    """Whether two fingerprints can be told apart."""
    return a[0] != b[0] or a[1].shape != b[1].shape or (a[1] - b[1]).abs().max() > 1e-6


def test_no_option_was_forgotten():
    assert set(ALTERNATIVES) == {field.name for field in fields(LayerConfig)}


@pytest.mark.parametrize("option", ALTERNATIVES)
def test_every_value_of_every_option_does_something(option):
    needed = NEEDED.get(option, {})
    results = [fingerprint(needed), *(fingerprint(needed | {option: v}) for v in ALTERNATIVES[option])]
    for i, result in enumerate(results):
        assert all(differ(result, other) for other in results[:i])


def test_equal_options_give_equal_layers():
    assert not differ(fingerprint({}), fingerprint({}))
