"""FAGCN: attention that may be negative."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from polynsd.errors import require_at_least
from polynsd.nn.features import encode_features
from polynsd.nn.inputs import check_features, linear
from polynsd.nn.zoo.operators import balanced, no_weights, remembered
from polynsd.topology import Topology


class FAGCN(nn.Module):
    """Frequency adaptation (Bo et al., 2021); PyG's `FAConv` on the graph without self-loops.

        h⁰ = ReLU(W₁ x),   h_i^ℓ = ε h_i⁰ + Σ_j α_ij h_j^{ℓ−1} / √(d_i d_j),   out = W₂ h^L,

    with α_ij = tanh(g · [h_i ‖ h_j]) between −1 (differences) and 1 (sums).

    Args:
        in_channels: features per node, or -1 to infer them at the first call.
        hidden_channels: width.
        num_layers: L ≥ 1; published are 2.
        out_channels: classes.
        dropout: of the features, of h⁰ and of the coefficients α.
        eps: ε, how much of h⁰ every layer adds.
    """

    space: ClassVar[dict[str, Any]] = {"eps": {"low": 0.1, "high": 1.0}}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        eps: float = 0.3,
    ) -> None:
        super().__init__()
        from torch_geometric.nn import FAConv

        require_at_least("num_layers", num_layers, 1)
        self.in_channels, self.dropout = in_channels, dropout
        self.encoder = linear(in_channels, hidden_channels)
        self.convs = nn.ModuleList(
            FAConv(hidden_channels, eps, dropout, normalize=False) for _ in range(num_layers)
        )
        self.decoder = linear(hidden_channels, out_channels)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for layer in (self.encoder, *self.convs, self.decoder):
            layer.reset_parameters()

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        no_weights("FAGCN", edge_weight)
        check_features(x, self.in_channels)
        edges, weight = normalised_edges(edge_index, x.size(0), x)
        start = encode_features(self.encoder, x, self.dropout, self.training).relu()
        h = start = functional.dropout(start, self.dropout, self.training)
        for conv in self.convs:
            h = conv(h, start, edges, weight)
        return self.decoder(h)


@remembered
def normalised_edges(topology: Topology, like: Tensor) -> tuple[Tensor, Tensor]:
    """PyG's edge_index of a graph and 1 / √(d_i d_j) on its columns."""
    weight = balanced(topology.row, topology.col, topology.degree)
    return torch.stack([topology.col, topology.row]), weight.to(like.device, like.dtype)
