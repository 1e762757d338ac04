"""FAGCN: attention that may be negative."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional

from polynsd.errors import require_at_least
from polynsd.kernels.ops.edges import at_columns, at_rows, sum_at_nodes
from polynsd.nn.features import encode_features
from polynsd.nn.inputs import check_features, linear
from polynsd.topology import Topology
from polynsd.zoo.attention import Edges, edges_without_loops
from polynsd.zoo.operators import balanced, no_weights, remembered
from polynsd.zoo.ranges import CONVOLUTIONS


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

    space: ClassVar[dict[str, Any]] = {"num_layers": CONVOLUTIONS, "eps": {"low": 0.1, "high": 1.0}}
    published: ClassVar[dict[str, Any]] = {"num_layers": 2, "hidden_channels": 32, "eps": 0.3}

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
            by_signs(FAConv(hidden_channels, eps, dropout, normalize=False)) for _ in range(num_layers)
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
        edges = edges_without_loops(edge_index, x.size(0))
        weight = edge_factors(edge_index, x.size(0), x)
        start = encode_features(self.encoder, x, self.dropout, self.training).relu()
        h = start = functional.dropout(start, self.dropout, self.training)
        for conv in self.convs:
            h = conv(h, start, edges, weight)
        return self.decoder(h)


@remembered
def edge_factors(topology: Topology, like: Tensor) -> Tensor:
    """`[H, 1]` 1 / √(d_i d_j)."""
    return balanced(topology.row, topology.col, topology.degree)[:, None].to(like.device, like.dtype)


def by_signs(conv: Any) -> Any:
    """PyG's FAConv, which then takes `Edges` for `edge_index` and sums without atomics."""
    conv.propagate = partial(_sums, conv)
    return conv


def _sums(
    conv: Any, edges: Edges, *, x: Tensor, alpha: tuple[Tensor, Tensor], edge_weight: Tensor, size: Any = None
) -> Tensor:
    """Σ_j α_ij x_j / √(d_i d_j), with dropout of the coefficients."""
    there, here = alpha  # g · [h_i ‖ h_j] in two parts
    coefficient = (at_rows(here, edges.pattern, -2) + at_columns(there, edges.pattern, -2)).tanh()
    coefficient = functional.dropout(coefficient, conv.dropout, conv.training)
    return sum_at_nodes(coefficient * edge_weight * at_columns(x, edges.pattern, -2), edges.pattern, -2)
