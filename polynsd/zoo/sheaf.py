"""The base of the sheaf models of the zoo: encoder and decoder around stalks, mixing, a block of diffusion;
and `VanillaSheaf`, which is this block without a sheaf.

States are `[N, d, C]`: d stalk coordinates with C = `hidden_channels` numbers each.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from polynsd.config import LayerConfig
from polynsd.errors import require_at_least, require_choice
from polynsd.kernels import BlockOperator, block_product
from polynsd.nn.features import encode_features
from polynsd.nn.inputs import check_features, linear
from polynsd.nn.layer import SheafLayer, mix
from polynsd.nn.models import NSD
from polynsd.nn.precision import in_full_precision
from polynsd.published import PUBLISHED_LAYER
from polynsd.sheaf.laplacian import NORMALIZATIONS, SheafLaplacian
from polynsd.topology import Topology, as_topology
from polynsd.zoo.layers import CONVOLUTIONS, INPUT_DROPOUT, Options, ZooModel
from polynsd.zoo.matrices import refuse_weights

SPACE: Options = {
    "num_layers": CONVOLUTIONS,
    "hidden_channels": [16, 32],
    "stalk_dim": [2, 3, 4, 5],
    "input_dropout": INPUT_DROPOUT,
}
PUBLISHED: Options = {"num_layers": 2, "hidden_channels": 32, "stalk_dim": 3}


class SheafModel(ZooModel):
    """Encoder, what a subclass does with a state on stalks (`diffuse`), decoder.

    `hidden_channels` is C, per stalk coordinate; `num_layers` counts steps; `dropout` is that of the state,
    after the encoder and in every layer.

    Args:
        stalk_dim: d.
    """

    space: ClassVar[Options] = SPACE
    published: ClassVar[Options] = PUBLISHED

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, input_dropout: float = 0.0, stalk_dim: int = 3,
    ) -> None:  # fmt: skip
        super().__init__(dropout, input_dropout)
        require_at_least("hidden_channels", hidden_channels, 1)
        require_at_least("stalk_dim", stalk_dim, 1)
        require_at_least("num_layers", num_layers, 1)
        self.in_channels, self.channels, self.stalk_dim = in_channels, hidden_channels, stalk_dim
        layers = [self.make_layer() for _ in range(num_layers)]
        self.encoder = linear(in_channels, stalk_dim * hidden_channels)
        self.layers = nn.ModuleList(layers)
        self.decoder = linear(stalk_dim * hidden_channels, out_channels)

    def make_layer(self) -> nn.Module:
        """One step; a subclass knows what it is called with."""
        raise NotImplementedError

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        refuse_weights(type(self).__name__, edge_weight)
        check_features(self, x)
        topology = as_topology(edge_index, x.size(-2))
        return self.decoder(self._diffuse_in_full_precision(self.encode(x), topology, x).flatten(-2))

    def encode(self, x: Tensor) -> Tensor:
        """[N, in_channels] → the initial state `[N, d, C]`."""
        h = functional.elu(encode_features(self.encoder, x, self.input_dropout, self.training))
        return self.drop(h).unflatten(-1, (self.stalk_dim, self.channels))

    @in_full_precision
    def _diffuse_in_full_precision(self, state: Tensor, topology: Topology, x: Tensor) -> Tensor:
        return self.diffuse(state, topology, x)

    def diffuse(self, state: Tensor, topology: Topology, x: Tensor) -> Tensor:
        """The last state from the first one; x are the features that it was encoded from."""
        raise NotImplementedError

    def drop_before(self, layer: int, state: Tensor) -> Tensor:
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
        nn.init.eye_(self.stalk)
        nn.init.orthogonal_(self.channel)

    def forward(self, x: Tensor) -> Tensor:
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
        for module in (self.first, self.second, self.norm):
            module.reset_parameters()
        nn.init.zeros_(self.epsilon)

    def forward(self, x: Tensor, h: Tensor, L: BlockOperator) -> Tensor:
        """One step of the state x, where h diffuses."""
        diffused = functional.elu(block_product(L, self.second(functional.elu(self.first(h)))))
        return self.norm((1 + self.epsilon.tanh()) * x - diffused)


def nsd_layer(model: SheafModel) -> SheafLayer:
    """A layer of Neural Sheaf Diffusion that is given its Laplacian: `layer.diffuse(x, L)`."""
    own = {"stalk_dim": model.stalk_dim, "maps": "general", "dropout": model.dropout}
    return SheafLayer(model.channels, LayerConfig(**PUBLISHED_LAYER | NSD.preset | own), learns_maps=False)


def identity_laplacian(
    topology: Topology, like: Tensor, normalization: str = "sheaf-augmented"
) -> BlockOperator:
    """The blocks of the Laplacian of the constant sheaf, F = I, found once per graph."""
    maps = torch.ones(topology.num_half_edges, 1, 1, dtype=like.dtype, device=like.device)
    # scalars act on stalks of any dimension
    return SheafLaplacian(topology, maps, normalization, constant="identity").blocks


class VanillaSheaf(SheafModel):
    """Diffusion on the constant sheaf, with LayerNorm: the identity sheaf network (ISN + LN).

        x⁺ = LayerNorm( (1 + tanh ε) x − φ(L M₂ φ(M₁ dropout(x))) ),      M_i x = (I ⊗ W_i) x W'_i

    Args:
        stalk_dim: d.
        normalization: of L: `sheaf-augmented`, `sheaf`, `degree` or `none`.
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, input_dropout: float = 0.0, stalk_dim: int = 3,
        normalization: str = "sheaf-augmented",
    ) -> None:  # fmt: skip
        require_choice("normalization", normalization, NORMALIZATIONS)
        sizes = in_channels, hidden_channels, num_layers, out_channels
        super().__init__(*sizes, dropout=dropout, input_dropout=input_dropout, stalk_dim=stalk_dim)
        self.normalization = normalization

    def make_layer(self) -> nn.Module:
        return DiffusionBlock(self.stalk_dim, self.channels)

    def diffuse(self, state: Tensor, topology: Topology, x: Tensor) -> Tensor:
        L = identity_laplacian(topology, state, self.normalization)
        for index, block in enumerate(self.layers):
            state = block(state, self.drop_before(index, state), L)
        return state
