"""The base of the sheaf models of the zoo: encoder and decoder around stalks, mixing, a block of diffusion;
and `VanillaSheaf`, which is this block without a sheaf.

States are `[N, d, C]`: d stalk coordinates with C = `hidden_channels` numbers each.

Each of these models takes steps along a Laplacian L. A polynomial of any degree and basis may stand in place
of L (`StepFilter`): `degree`, `basis` and `coefficients`. With the defaults a model is as published.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from polynsd.config import MOST_HOPS, LayerConfig
from polynsd.errors import ConfigError, require_at_least, require_at_most, require_choice
from polynsd.nn.features import encode_features
from polynsd.nn.inputs import check_features, linear
from polynsd.nn.layer import SheafLayer, mix
from polynsd.nn.models import NSD
from polynsd.nn.precision import in_full_precision
from polynsd.published import PUBLISHED_LAYER
from polynsd.sheaf.laplacian import NORMALIZATIONS, SheafLaplacian
from polynsd.spectral.filter import COEFFICIENTS, Diffusion, PolynomialFilter
from polynsd.spectral.operator import SpectralOperator
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
BASIS = "chebyshev1"


class StepFilter(PolynomialFilter):
    """A polynomial in place of L that starts as L itself, p(λ) = 2λ/λ_max, where its coefficients are free.

    λ_max = 2 under the normalisations of sheaves.
    """

    def reset_parameters(self) -> None:
        """Starts from p(ξ) = 1 + ξ; convex weights start uniform."""
        super().reset_parameters()
        self.start_as(1.0, 1.0)


def build_step(degree: int, basis: str, coefficients: str) -> Diffusion | StepFilter:
    """What stands in place of L: L itself for degree 1 with its own coefficients, otherwise a polynomial."""
    require_choice("coefficients", coefficients, ("own", *COEFFICIENTS))
    require_at_most("degree", degree, MOST_HOPS)
    if coefficients != "own" or degree != 1:
        return StepFilter(basis, degree, "free" if coefficients == "own" else coefficients)
    if basis != BASIS:
        raise ConfigError(
            f"basis={basis!r} is that of a polynomial, and the published step has none; give degree=2 or "
            "more, or coefficients='free'."
        )
    return Diffusion()


class SheafModel(ZooModel):
    """Encoder, what a subclass does with a state on stalks (`diffuse`), decoder.

    `hidden_channels` is C, per stalk coordinate; `num_layers` counts steps; `dropout` is that of the state,
    after the encoder and in every layer.

    Args:
        stalk_dim: d.
        degree: K of the polynomial of L in place of L.
        basis: that it is written in, e.g. `legendre`, `jacobi(0.5, 0)`.
        coefficients: `own`: for degree 1 the published step, L itself, and for others free coefficients that
            start there; `convex`, `free` (learned for degree 1 too), `interpolation` as in
            `PolynomialFilter`.
    """

    space: ClassVar[Options] = SPACE
    published: ClassVar[Options] = PUBLISHED

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, input_dropout: float = 0.0, stalk_dim: int = 3, degree: int = 1,
        basis: str = BASIS, coefficients: str = "own",
    ) -> None:  # fmt: skip
        super().__init__(dropout, input_dropout)
        require_at_least("hidden_channels", hidden_channels, 1)
        require_at_least("stalk_dim", stalk_dim, 1)
        require_at_least("num_layers", num_layers, 1)
        self.in_channels, self.channels, self.stalk_dim = in_channels, hidden_channels, stalk_dim
        self.filter_options = degree, basis, coefficients
        layers = [self.make_layer() for _ in range(num_layers)]
        self.encoder = linear(in_channels, stalk_dim * hidden_channels)
        self.layers = nn.ModuleList(layers)
        self.decoder = linear(stalk_dim * hidden_channels, out_channels)

    def make_layer(self) -> nn.Module:
        """One step; a subclass knows what it is called with."""
        raise NotImplementedError

    def make_filter(self) -> Diffusion | StepFilter:
        """What stands in place of L in one step."""
        return build_step(*self.filter_options)

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
    """x⁺ = LayerNorm( (1 + tanh ε) x − φ(p(L) M₂ φ(M₁ h)) ) with mixings M₁, M₂ and φ = ELU.

    h is the state x after dropout; LayerNorm acts on the C channels of every stalk coordinate. p(L) = L
    unless the model has a polynomial.
    """

    def __init__(self, model: SheafModel) -> None:
        super().__init__()
        stalk_dim, channels = model.stalk_dim, model.channels
        self.filter = model.make_filter()
        self.first, self.second = Mixing(stalk_dim, channels), Mixing(stalk_dim, channels)
        self.epsilon = nn.Parameter(torch.zeros(stalk_dim, 1))
        self.norm = nn.LayerNorm(channels)

    def reset_parameters(self) -> None:
        for module in (self.filter, self.first, self.second, self.norm):
            module.reset_parameters()
        nn.init.zeros_(self.epsilon)

    def forward(self, x: Tensor, h: Tensor, L: SpectralOperator) -> Tensor:
        """One step of the state x, where h diffuses."""
        diffused = functional.elu(self.filter(L, self.second(functional.elu(self.first(h)))))
        return self.norm((1 + self.epsilon.tanh()) * x - diffused)


def nsd_layer(model: SheafModel) -> SheafLayer:
    """A layer of Neural Sheaf Diffusion that is given its Laplacian: `layer.diffuse(x, L)`."""
    own = {"stalk_dim": model.stalk_dim, "maps": "general", "dropout": model.dropout}
    config = LayerConfig(**PUBLISHED_LAYER | NSD.preset | own)
    return SheafLayer(model.channels, config, model.make_filter(), learns_maps=False)


def identity_laplacian(
    topology: Topology, state: Tensor, normalization: str = "sheaf-augmented"
) -> SheafLaplacian:
    """The Laplacian of the constant sheaf, F = I, on states like this one; its blocks are found once."""
    maps = torch.ones(topology.num_half_edges, 1, 1, dtype=state.dtype, device=state.device)
    return SheafLaplacian(topology, maps, normalization, stalk_dim=state.size(-2), constant="identity")


class VanillaSheaf(SheafModel):
    """Diffusion on the constant sheaf, with LayerNorm: the identity sheaf network (ISN + LN).

        x⁺ = LayerNorm( (1 + tanh ε) x − φ(L M₂ φ(M₁ dropout(x))) ),      M_i x = (I ⊗ W_i) x W'_i

    The other arguments are those of `SheafModel`.

    Args:
        normalization: of L: `sheaf-augmented`, `sheaf`, `degree` or `none`.
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, input_dropout: float = 0.0, stalk_dim: int = 3, degree: int = 1,
        basis: str = BASIS, coefficients: str = "own", normalization: str = "sheaf-augmented",
    ) -> None:  # fmt: skip
        require_choice("normalization", normalization, NORMALIZATIONS)
        super().__init__(
            in_channels, hidden_channels, num_layers, out_channels, dropout=dropout,
            input_dropout=input_dropout, stalk_dim=stalk_dim, degree=degree, basis=basis,
            coefficients=coefficients,
        )  # fmt: skip
        self.normalization = normalization

    def make_layer(self) -> nn.Module:
        return DiffusionBlock(self)

    def diffuse(self, state: Tensor, topology: Topology, x: Tensor) -> Tensor:
        L = identity_laplacian(topology, state, self.normalization)
        for index, block in enumerate(self.layers):
            state = block(state, self.drop_before(index, state), L)
        return state
