"""GGCN: signed messages, a correction for degrees, a residual that decays with depth."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from polynsd.errors import require_at_least
from polynsd.kernels import Pattern
from polynsd.kernels.ops.edges import at_columns, at_rows, sum_at_nodes
from polynsd.nn.features import encode_features
from polynsd.nn.inputs import check_features, linear
from polynsd.nn.precision import in_full_precision
from polynsd.topology import Topology
from polynsd.zoo.operators import balanced, no_weights, remembered

SHORTEST = 1e-12  # length that a state is divided by


class GGCN(nn.Module):
    """Two sides of the same coin (Yan et al., 2022).

        H^ℓ = `SignedConv`(Z^ℓ W_ℓ),   Z^{ℓ+1} = Z^ℓ + log(η / (ℓ + 1)^κ + 1) · dropout(ELU(H^ℓ)),

    without the factor for ℓ = 1; Z^1 = X for the first layer, and ELU(X W_0) where Z^2 adds to it. The last
    H^L are the logits.

    Args:
        in_channels: features per node, or -1 to infer them at the first call.
        hidden_channels: width; published are 8 to 80.
        num_layers: L ≥ 1.
        out_channels: classes.
        dropout: of the features and of what every layer adds.
        decay: η.
        exponent: κ.
        degree_correction: learn how much the degrees of the two ends matter.
    """

    space: ClassVar[dict[str, Any]] = {
        "num_layers": [2, 3, 5],
        "hidden_channels": [16, 32, 80],
        "decay": {"low": 0.5, "high": 1.5},
        "exponent": [1.0, 2.0, 3.0],
        "degree_correction": [True, False],
    }
    published: ClassVar[dict[str, Any]] = {
        "num_layers": 5,
        "hidden_channels": 32,
        "decay": 1.0,
        "exponent": 3.0,
        "degree_correction": True,
    }

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        decay: float = 1.0,
        exponent: float = 3.0,
        degree_correction: bool = True,
    ) -> None:
        super().__init__()
        require_at_least("num_layers", num_layers, 1)
        self.in_channels, self.hidden_channels, self.dropout = in_channels, hidden_channels, dropout
        self.decay, self.exponent = decay, exponent
        widths = [*[hidden_channels] * (num_layers - 1), out_channels]
        skip = hidden_channels if num_layers > 1 else 0
        self.encoder = linear(in_channels, skip + widths[0])  # X [W_0 ‖ W_1]
        self.linears = nn.ModuleList(linear(hidden_channels, width) for width in widths[1:])
        self.convs = nn.ModuleList(SignedConv(degree_correction) for _ in widths)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for layer in (self.encoder, *self.linears, *self.convs):
            layer.reset_parameters()

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        no_weights("GGCN", edge_weight)
        check_features(x, self.in_channels)
        edges = gcn_edges(edge_index, x.size(0), x)
        z = encode_features(self.encoder, x, self.dropout, self.training)
        if not self.linears:
            return self.convs[0](z, edges)
        state, z = functional.elu(z[:, : self.hidden_channels]), z[:, self.hidden_channels :]
        for depth, (conv, layer) in enumerate(zip(self.convs, self.linears, strict=False), start=1):
            update = functional.dropout(functional.elu(conv(z, edges)), self.dropout, self.training)
            state = state + self.factor(depth) * update
            z = layer(state)
        return self.convs[-1](z, edges)

    def factor(self, depth: int) -> float:
        """How much layer ℓ adds to the state."""
        return 1.0 if depth == 1 else math.log(self.decay / (depth + 1) ** self.exponent + 1)


class GcnEdges(NamedTuple):
    """The off-diagonal part of Ŝ = D̃^{−1/2} (A + I) D̃^{−1/2}."""

    pattern: Pattern
    weight: Tensor  # [H] Ŝ_ij
    ratio: Tensor  # [H] Ŝ_ii / Ŝ_ij − 1 = √(d̃_j / d̃_i) − 1


@remembered
def gcn_edges(topology: Topology, like: Tensor) -> GcnEdges:
    """What does not change while a model learns."""
    degree, row, col = (topology.degree + 1).double(), topology.row, topology.col
    ratio = (degree[col] / degree[row]).sqrt() - 1
    weight = balanced(row, col, degree)
    return GcnEdges(topology.pattern, *(part.to(like.device, like.dtype) for part in (weight, ratio)))


class SignedConv(nn.Module):
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
        """[N, C] → [N, C]."""
        pattern, weight, ratio = edges
        if self.correction is not None:
            weight = weight * functional.softplus(self.correction[0] * ratio + self.correction[1])
        attract, repel, own = self.mixture.softmax(-1)
        length = torch.linalg.vector_norm(z, dim=-1, keepdim=True).clamp(min=SHORTEST)
        here, there = at_rows(z / length, pattern, -2), at_columns(z / length, pattern, -2)
        cosine = (here * there).sum(-1, keepdim=True)
        weight = weight.unsqueeze(-1) * (attract * cosine.relu() - repel * (-cosine).relu())
        messages = sum_at_nodes(weight * at_columns(length, pattern, -2) * there, pattern, -2)
        return functional.softplus(self.gain) * (messages + own * z)
