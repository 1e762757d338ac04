"""What the sheaf models of the zoo share: encoder and decoder around stalks, mixing, a block of diffusion.

States are `[N, d, C]`: d stalk coordinates with C = `hidden_channels` numbers each.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from polynsd.config import LayerConfig
from polynsd.errors import require_at_least, require_fraction
from polynsd.kernels import BlockOperator, block_product
from polynsd.memo import TensorMemo
from polynsd.nn.features import encode_features
from polynsd.nn.inputs import check_features, linear
from polynsd.nn.layer import SheafLayer, mix
from polynsd.nn.precision import in_full_precision
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.topology import Topology, as_topology
from polynsd.zoo.operators import no_weights
from polynsd.zoo.ranges import CONVOLUTIONS, INPUT_DROPOUT, PER_COORDINATE

STALK_DIMS = [2, 3, 4, 5]
SPACE = {
    "num_layers": CONVOLUTIONS,
    "hidden_channels": PER_COORDINATE,
    "stalk_dim": STALK_DIMS,
    "input_dropout": INPUT_DROPOUT,
}
PUBLISHED = {"num_layers": 2, "hidden_channels": 32, "stalk_dim": 3}


class SheafModel(nn.Module):
    """Encoder, what a subclass does with a state on stalks (`diffuse`), decoder.

    Args:
        in_channels: features per node, or -1 to infer them at the first call.
        hidden_channels: C, per stalk coordinate.
        out_channels: classes.
        stalk_dim: d.
        dropout: of the state, after the encoder and in every layer.
        input_dropout: of the features.
        layers: one per step; a subclass knows what they are called with.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        stalk_dim: int,
        dropout: float,
        input_dropout: float,
        layers: list[nn.Module],
    ) -> None:
        super().__init__()
        require_at_least("hidden_channels", hidden_channels, 1)
        require_at_least("stalk_dim", stalk_dim, 1)
        require_at_least("num_layers", len(layers), 1)
        require_fraction("dropout", dropout)
        require_fraction("input_dropout", input_dropout)
        self.in_channels, self.channels, self.stalk_dim = in_channels, hidden_channels, stalk_dim
        self.dropout, self.input_dropout = dropout, input_dropout
        self.encoder = linear(in_channels, stalk_dim * hidden_channels)
        self.layers = nn.ModuleList(layers)
        self.decoder = linear(stalk_dim * hidden_channels, out_channels)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for module in (self.encoder, *self.layers, self.decoder):
            module.reset_parameters()

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Node features `[N, in_channels]` and a graph to `[N, out_channels]`."""
        no_weights(type(self).__name__, edge_weight)
        check_features(x, self.in_channels)
        topology = as_topology(edge_index, x.size(-2))
        return self.decoder(self._diffused(self.encode(x), topology, x).flatten(-2))

    def encode(self, x: Tensor) -> Tensor:
        """[N, in_channels] → the initial state `[N, d, C]`."""
        h = functional.elu(encode_features(self.encoder, x, self.input_dropout, self.training))
        h = functional.dropout(h, self.dropout, self.training)
        return h.unflatten(-1, (self.stalk_dim, self.channels))

    @in_full_precision
    def _diffused(self, state: Tensor, topology: Topology, x: Tensor) -> Tensor:
        return self.diffuse(state, topology, x)

    def diffuse(self, state: Tensor, topology: Topology, x: Tensor) -> Tensor:
        """The last state from the first one; x are the features that it was encoded from."""
        raise NotImplementedError

    def dropped(self, state: Tensor, layer: int) -> Tensor:
        """Dropout before a layer; the encoder has done it for the first."""
        return functional.dropout(state, self.dropout if layer else 0.0, self.training)


class Mixing(nn.Module):
    """(I ⊗ W₁) x W₂ᵀ; at first W₁ = I and W₂ is a random orthogonal matrix."""

    def __init__(self, stalk_dim: int, channels: int) -> None:
        super().__init__()
        self.stalk = nn.Parameter(torch.empty(stalk_dim, stalk_dim))
        self.channel = nn.Parameter(torch.empty(channels, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Identity and orthogonal."""
        nn.init.eye_(self.stalk)
        nn.init.orthogonal_(self.channel)

    def forward(self, x: Tensor) -> Tensor:
        """[N, d, C] → [N, d, C]."""
        return mix(x, self.stalk, self.channel)


class DiffusionBlock(nn.Module):
    """x⁺ = LayerNorm( (1 + tanh ε) x − φ(L M₂ φ(M₁ h)) ) with mixings M₁, M₂ and φ = ELU.

    h is the state x after dropout; LayerNorm acts on the C channels of every stalk coordinate.
    """

    def __init__(self, stalk_dim: int, channels: int) -> None:
        super().__init__()
        self.first, self.second = Mixing(stalk_dim, channels), Mixing(stalk_dim, channels)
        self.epsilon = nn.Parameter(torch.zeros(stalk_dim, 1))
        self.norm = nn.LayerNorm(channels)

    def reset_parameters(self) -> None:
        """Fresh mixings, ε = 0."""
        for module in (self.first, self.second, self.norm):
            module.reset_parameters()
        nn.init.zeros_(self.epsilon)

    def forward(self, x: Tensor, h: Tensor, L: BlockOperator) -> Tensor:
        """One step of the state x, where h diffuses."""
        diffused = functional.elu(block_product(L, self.second(functional.elu(self.first(h)))))
        return self.norm((1 + self.epsilon.tanh()) * x - diffused)


def nsd_layers(num_layers: int, channels: int, stalk_dim: int, dropout: float) -> list[nn.Module]:
    """Layers of Neural Sheaf Diffusion that are given their Laplacian: `layer.diffuse(x, L)`."""
    config = LayerConfig(
        stalk_dim=stalk_dim,
        maps="general",
        filter="diffusion",
        degree=1,
        correction="none",
        dropout=dropout,
    )
    return [SheafLayer(channels, config, learns_maps=False) for _ in range(num_layers)]


_constant_sheaves = TensorMemo[BlockOperator]()  # by the rowptr of a topology, which the blocks do not hold


def identity_laplacian(
    topology: Topology, like: Tensor, normalization: str = "sheaf-augmented"
) -> BlockOperator:
    """The blocks of the Laplacian of the constant sheaf, F = I, found once per graph."""
    dtype, device = like.dtype, like.device

    def find() -> BlockOperator:
        maps = torch.ones(topology.num_half_edges, 1, 1, dtype=dtype, device=device)
        return SheafLaplacian(topology, maps, normalization).blocks  # scalars act on stalks of any dimension

    return _constant_sheaves(topology.rowptr, find, dtype, device, normalization)
