"""Messages weighted edge by edge: GAT and GATv2 with a softmax, FAGCN and GGCN with signs."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn.dense import Linear

from polynsd.errors import require_at_least
from polynsd.kernels import Pattern
from polynsd.kernels.ops.edges import at_columns, at_rows, sum_at_nodes
from polynsd.nn.features import encode_features
from polynsd.nn.inputs import check_features, linear
from polynsd.nn.precision import in_full_precision
from polynsd.topology import Topology
from polynsd.zoo.layers import (
    CONVOLUTIONS,
    INPUT_DROPOUT,
    GATLayer,
    Options,
    ZooModel,
    reset,
)
from polynsd.zoo.matrices import once_per_graph, refuse_weights, symmetric_weights
from polynsd.zoo.neighbours import neighbours_and_self, require_heads


class GAT(ZooModel):
    """Veličković et al., "Graph attention networks" (2018); Brody, Alon and Yahav's GATv2 (2022).

    h_i⁺ = ‖_heads Σ_{j∈N(i)∪{i}} softmax_j(e_ij) W h_j + b, then ELU and dropout,
    e_ij = LeakyReLU_{0.2}(aᵀ[W h_i ‖ W h_j]), or aᵀ LeakyReLU_{0.2}(W' h_i + W h_j) for v2. The last
    layer takes the mean of the heads.

    `hidden_channels` is the width of all heads together; `dropout` is the rate of the attention too.

    Args:
        heads: number of heads.
        v2: whether the attention is that of GATv2.
    """

    space: ClassVar[Options] = {
        "num_layers": CONVOLUTIONS,
        "heads": [1, 4, 8],
        "input_dropout": INPUT_DROPOUT,
    }
    published: ClassVar[Options] = {"num_layers": 2, "hidden_channels": 64, "heads": 8, "input_dropout": 0.6}

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, input_dropout: float = 0.0, heads: int = 8, v2: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(dropout, input_dropout)
        require_heads(hidden_channels if num_layers > 1 else heads, heads)
        sizes = [in_channels, *[hidden_channels] * (num_layers - 1)]
        self.layers = nn.ModuleList(
            GATLayer(size, hidden_channels // heads, heads, v2=v2, dropout=dropout) for size in sizes[:-1]
        )
        self.layers.append(GATLayer(sizes[-1], out_channels, heads, v2=v2, mean=True, dropout=dropout))

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        refuse_weights("gat", edge_weight)
        near, (first, *others) = neighbours_and_self(edge_index, x), self.layers
        h = first.after_weights(self.feature_products(first.maps, x), near)
        for layer in others:
            h = layer(self.drop(functional.elu(h)), near)
        return h


class FAGCN(ZooModel):
    """Frequency adaptation (Bo et al., 2021), on the graph without self-loops.

        h⁰ = ReLU(W₁ x),   h_i^ℓ = ε h_i⁰ + Σ_j α_ij h_j^{ℓ−1} / √(d_i d_j),   out = W₂ h^L,

    with α_ij = tanh(g · [h_i ‖ h_j]) between −1 (differences) and 1 (sums).

    `num_layers` is L ≥ 1, published are 2; `dropout` is that of the features, of h⁰ and of the α_ij.

    Args:
        eps: ε, how much of h⁰ every layer adds.
    """

    space: ClassVar[Options] = {"num_layers": CONVOLUTIONS, "eps": {"low": 0.1, "high": 1.0}}
    published: ClassVar[Options] = {"num_layers": 2, "hidden_channels": 32, "eps": 0.3}

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, eps: float = 0.3,
    ) -> None:  # fmt: skip
        super().__init__(dropout)
        require_at_least("num_layers", num_layers, 1)
        self.in_channels, self.eps = in_channels, eps
        self.encoder = linear(in_channels, hidden_channels)
        self.scores = nn.ModuleList(PairScore(hidden_channels) for _ in range(num_layers))
        self.decoder = linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        refuse_weights("FAGCN", edge_weight)
        check_features(self, x)
        pattern, weight = degree_weights(edge_index, x)
        start = encode_features(self.encoder, x, self.dropout, self.training).relu()
        h = start = self.drop(start)
        for score in self.scores:
            alpha = self.drop(score(h, pattern).tanh())
            h = sum_at_nodes(alpha * weight * at_columns(h, pattern, -2), pattern, -2)
            h = h + self.eps * start if self.eps else h
        return self.decoder(h)


class PairScore(nn.Module):
    """g · [h_i ‖ h_j] `[H, 1]` for every pair of neighbours."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.there, self.here = Linear(channels, 1, bias=False), Linear(channels, 1, bias=False)
        reset(self)

    def forward(self, h: Tensor, pattern: Pattern) -> Tensor:
        there, here = self.there(h), self.here(h)
        return at_rows(here, pattern, -2) + at_columns(there, pattern, -2)


@once_per_graph
def degree_weights(topology: Topology, x: Tensor) -> tuple[Pattern, Tensor]:
    """The half-edges and `[H, 1]` their 1 / √(d_i d_j)."""
    weight = symmetric_weights(topology.row, topology.col, topology.degree)[:, None]
    return topology.pattern, weight.to(x.device, x.dtype)


class GGCN(ZooModel):
    """Yan et al., "Two sides of the same coin" (2022).

        H^ℓ = `SignedLayer`(Z^ℓ W_ℓ),   Z^{ℓ+1} = Z^ℓ + log(η / (ℓ + 1)^κ + 1) · dropout(ELU(H^ℓ)),

    without the factor for ℓ = 1; Z^1 = X for the first layer, and ELU(X W_0) where Z^2 adds to it. The last
    H^L are the logits.

    `hidden_channels`: published are 8 to 80; `num_layers` is L ≥ 1; `dropout` is that of the features and of
    what every layer adds.

    Args:
        decay: η.
        exponent: κ.
        degree_correction: learn how much the degrees of the two ends matter.
    """

    space: ClassVar[Options] = {
        "num_layers": [2, 3, 5],
        "hidden_channels": [16, 32, 80],
        "decay": {"low": 0.5, "high": 1.5},
        "exponent": [1.0, 2.0, 3.0],
        "degree_correction": [True, False],
    }
    published: ClassVar[Options] = {
        "num_layers": 5,
        "hidden_channels": 32,
        "decay": 1.0,
        "exponent": 3.0,
        "degree_correction": True,
    }

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, decay: float = 1.0, exponent: float = 3.0, degree_correction: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(dropout)
        require_at_least("num_layers", num_layers, 1)
        self.in_channels, self.hidden_channels = in_channels, hidden_channels
        self.decay, self.exponent = decay, exponent
        widths = [*[hidden_channels] * (num_layers - 1), out_channels]
        skip = hidden_channels if num_layers > 1 else 0
        self.encoder = linear(in_channels, skip + widths[0])  # X [W_0 ‖ W_1]
        self.linears = nn.ModuleList(linear(hidden_channels, width) for width in widths[1:])
        self.layers = nn.ModuleList(SignedLayer(degree_correction) for _ in widths)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        refuse_weights("GGCN", edge_weight)
        check_features(self, x)
        edges = gcn_edges(edge_index, x)
        z = encode_features(self.encoder, x, self.dropout, self.training)
        if not self.linears:
            return self.layers[0](z, edges)
        state, z = functional.elu(z[:, : self.hidden_channels]), z[:, self.hidden_channels :]
        for depth, (layer, weight) in enumerate(zip(self.layers, self.linears, strict=False), start=1):
            update = self.drop(functional.elu(layer(z, edges)))
            factor = 1.0 if depth == 1 else math.log(self.decay / (depth + 1) ** self.exponent + 1)
            state = state + factor * update
            z = weight(state)
        return self.layers[-1](z, edges)


class GcnEdges(NamedTuple):
    """The off-diagonal part of Ŝ = D̃^{−1/2} (A + I) D̃^{−1/2}."""

    pattern: Pattern
    weight: Tensor  # [H] Ŝ_ij
    ratio: Tensor  # [H] Ŝ_ii / Ŝ_ij − 1 = √(d̃_j / d̃_i) − 1


@once_per_graph
def gcn_edges(topology: Topology, x: Tensor) -> GcnEdges:
    """The constants of a graph that `SignedLayer` needs."""
    degree, row, col = (topology.degree + 1).double(), topology.row, topology.col
    ratio = (degree[col] / degree[row]).sqrt() - 1
    weight = symmetric_weights(row, col, degree)
    return GcnEdges(topology.pattern, *(part.to(x.device, x.dtype) for part in (weight, ratio)))


class SignedLayer(nn.Module):
    """Neighbours that are alike attract, the others repel.

        h_i = softplus(γ) (Σ_j Ŝ_ij τ_ij (β₊ relu(c_ij) − β₋ relu(−c_ij)) z_j + β₀ z_i)

    with the cosine c_ij of z_i and z_j, τ_ij = softplus(λ₀ (√(d̃_j / d̃_i) − 1) + λ₁) or 1, β a softmax.
    """

    def __init__(self, degree_correction: bool) -> None:
        super().__init__()
        self.correction = nn.Parameter(torch.empty(2)) if degree_correction else None  # λ
        self.mixture = nn.Parameter(torch.empty(3))  # of β₊, β₋, β₀
        self.gain = nn.Parameter(torch.empty(()))  # γ
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """λ = (½, 0), equal β, γ = 2."""
        nn.init.zeros_(self.mixture)
        nn.init.constant_(self.gain, 2.0)
        if self.correction is not None:
            with torch.no_grad():
                self.correction.zero_()[0] = 0.5

    @in_full_precision
    def forward(self, z: Tensor, edges: GcnEdges) -> Tensor:
        pattern, weight, ratio = edges
        if self.correction is not None:
            weight = weight * functional.softplus(self.correction[0] * ratio + self.correction[1])
        attract, repel, own = self.mixture.softmax(-1)
        length = torch.linalg.vector_norm(z, dim=-1, keepdim=True).clamp(min=1e-12)
        here, there = at_rows(z / length, pattern, -2), at_columns(z / length, pattern, -2)
        cosine = (here * there).sum(-1, keepdim=True)
        weight = weight.unsqueeze(-1) * (attract * cosine.relu() - repel * (-cosine).relu())
        messages = sum_at_nodes(weight * at_columns(length, pattern, -2) * there, pattern, -2)
        return functional.softplus(self.gain) * (messages + own * z)
