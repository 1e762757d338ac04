"""The layer contract, on layers that keep it and on layers that break one clause each."""

import pytest
import torch
from torch import nn

from polynsd.nn import NSD, PolyNSD, PolySheafConv
from polynsd.published import PUBLISHED_LAYER
from polynsd.testing import FAMILIES, check_layer

IN = 5


@pytest.mark.parametrize("normalization", ["none", "sheaf-augmented"])
@pytest.mark.parametrize("maps", FAMILIES)
def test_convolutions_keep_it(maps, normalization):
    check_layer(lambda: PolySheafConv(IN, 3, stalk_dim=2, maps=maps, normalization=normalization), IN)


@pytest.mark.parametrize(
    "options",
    [
        {"fixed_channels": ("laplacian", "signless")},
        {"edge_weights": True, "learner": "pooled"},
        {"basis": "jacobi(0.5, -0.3)", "coefficients": "free", "correction": "high-pass"},
        {"coefficients": "interpolation", "correction": "none", "gate": "linear"},
        {"dropout": 0.5, "dropout_position": "after"},
        {
            "maps": "conformal", "maps_on": "nodes", "learner": "gnn", "trunk": "both", "gate": "shortcut",
            "norm": "layer", "norm_position": "after", "learner_inputs": ("state", "features", "degree"),
        },
        {"learner": "mlp", "normalization": "random-walk", "map_start": "identity", "edge_weights": True},
    ],
    ids=str,
)  # fmt: skip
def test_models_keep_it(options):
    layer = PUBLISHED_LAYER | {"stalk_dim": 2, "degree": 3} | options
    check_layer(lambda: PolyNSD(IN, 3, 2, 4, **layer), IN)


def test_lazy_layers_and_sheaf_diffusion_keep_it():
    check_layer(lambda: NSD(-1, 3, 2, 4, stalk_dim=2), IN)


class Mean(nn.Module):
    """A layer that keeps the contract: a linear map, then the mean of the neighbours."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(IN, 2)

    def reset_parameters(self):
        self.linear.reset_parameters()

    def forward(self, x, edge_index, batch=None):
        h = self.linear(x)
        source, target = edge_index
        total = torch.zeros_like(h).index_add(0, target, h[source])
        return h + total / target.bincount(minlength=len(x)).clamp(min=1)[:, None]


class Idle(Mean):
    def __init__(self):
        super().__init__()
        self.unused = nn.Parameter(torch.ones(1))


class Numbered(Mean):
    def forward(self, x, edge_index, batch=None):
        return super().forward(x, edge_index) * torch.arange(len(x))[:, None].to(x)


class Leaky(Mean):
    def forward(self, x, edge_index, batch=None):
        y = super().forward(x, edge_index)
        return y - y.mean(0)


class Double(Mean):
    def forward(self, x, edge_index, batch=None):
        return super().forward(x, edge_index).double()


class Stubborn(Mean):
    def reset_parameters(self):
        nn.init.normal_(self.linear.weight)


class Constant(Mean):
    def reset_parameters(self):
        nn.init.ones_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)


def test_a_plain_layer_keeps_it():
    check_layer(Mean, IN)
    check_layer(Mean, IN, call=lambda layer, x, edge_index, batch: layer(x, edge_index))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (Idle, "no gradient reaches unused"),
        (Numbered, "permuted nodes"),
        (Leaky, "batch of two graphs"),
        (Double, "float32 became torch.float64"),
        (Stubborn, "leaves linear.bias as it was"),
        (Constant, "nothing is drawn at random"),
    ],
)
def test_broken_layers_are_found_out(make, text):
    with pytest.raises(AssertionError, match=text):
        check_layer(make, IN)
