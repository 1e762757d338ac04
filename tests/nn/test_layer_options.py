"""No option is decoration: each changes the output or the number of parameters of a layer."""

from dataclasses import fields

import pytest
import torch
from small_graphs import EDGE_INDEX, NUM_NODES, features, shaken

from polynsd import LayerConfig, Topology
from polynsd.nn import SheafLayer, count_parameters
from polynsd.sheaf.orthogonal import METHODS

TOPOLOGY = Topology.from_edge_index(EDGE_INDEX, NUM_NODES)
BASE = {"stalk_dim": 2, "dropout": 0.3}
ALTERNATIVES = {  # option: the other values it can take, besides the default
    "stalk_dim": [1, 3],
    "maps": ["identity", "general", *(f"orthogonal({method})" for method in METHODS)],
    "fixed_channels": [("laplacian",), ("signless",)],
    "normalization": ["none", "sheaf", "degree"],
    "learner": ["pooled"],
    "map_activation": ["elu", "identity"],
    "map_start": ["constant"],
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
    "gate": ["linear", "none", "shortcut"],
    "activation": ["relu", "tanh", "identity"],
    "dropout": [0.0, 0.7],
    "map_dropout": [0.5],
    "dropout_position": ["after"],
    "correction_state": ["residual"],
}  # fmt: skip


def fingerprint(options):
    """(number of parameters, output) of a layer in training mode, with the same noise for equal shapes."""
    torch.manual_seed(0)
    layer = shaken(SheafLayer(3, LayerConfig(**{**BASE, **options}))).train().requires_grad_(False)
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
    results = [fingerprint({}), *(fingerprint({option: value}) for value in ALTERNATIVES[option])]
    for i, result in enumerate(results):
        assert all(differ(result, other) for other in results[:i])


def test_equal_options_give_equal_layers():
    assert not differ(fingerprint({}), fingerprint({}))
