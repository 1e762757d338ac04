"""Graph attention networks, the first and the second version.

PyG's layers say what a score and a message are; between nodes and edges the library's kernels go, which
need no scatter with atomics, neither forward nor backward.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import models

from polynsd.errors import ConfigError, require_at_least
from polynsd.kernels.edges import at_columns, at_rows, sum_at_nodes
from polynsd.kernels.operator import Pattern
from polynsd.kernels.schedule import schedule
from polynsd.nn.zoo.operators import no_weights, remembered
from polynsd.topology import Topology


class GAT(nn.Module):
    """Veličković et al., "Graph attention networks" (2018); Brody, Alon and Yahav's GATv2 (2022).

    h_i⁺ = ‖_heads Σ_{j∈N(i)∪{i}} softmax_j(e_ij) W h_j + b, then ELU and dropout,
    e_ij = LeakyReLU_{0.2}(aᵀ[W h_i ‖ W h_j]), or aᵀ LeakyReLU_{0.2}(W' h_i + W h_j) for v2. The last
    layer takes the mean of the heads.

    Args:
        in_channels: number of features.
        hidden_channels: width of all heads together.
        num_layers: number of attention layers.
        out_channels: number of classes or targets.
        dropout: rate, of the attention and after every hidden layer.
        heads: number of heads.
        v2: whether the attention is that of GATv2.
    """

    space: ClassVar[dict[str, Any]] = {"heads": [1, 4, 8]}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        heads: int = 8,
        v2: bool = False,
    ) -> None:
        super().__init__()
        require_at_least("heads", heads, 1)
        if num_layers > 1 and hidden_channels % heads:
            raise ConfigError(f"hidden_channels={hidden_channels} must be a multiple of heads={heads}.")
        self.gnn = models.GAT(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            dropout=dropout,
            act="elu",
            heads=heads,
            v2=v2,
            add_self_loops=False,  # they are in the edges already
        )
        for conv in self.gnn.convs:
            by_kernels(conv)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        no_weights("gat", edge_weight)
        return self.gnn(x, edges_with_loops(edge_index, x.size(0), x))

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        self.gnn.reset_parameters()


class Edges(NamedTuple):
    """Pairs (i, j) of nodes, sorted."""

    pattern: Pattern
    row: Tensor  # int64


@remembered
def edges_with_loops(topology: Topology, like: Tensor) -> Edges:
    """The half-edges of a graph, every node its own neighbour too."""
    N, node = topology.num_nodes, torch.arange(topology.num_nodes, device=topology.row.device)
    row, col = torch.cat([topology.row, node]), torch.cat([topology.col, node])
    order = (row * N + col).argsort()
    row, col = row[order], col[order]
    twin = (col * N + row).argsort()
    rowptr = functional.pad((topology.degree + 1).cumsum(0), (1, 0))
    tasks, splits = schedule(rowptr, row.numel())
    return Edges(Pattern(rowptr.int(), row.int(), col.int(), twin.int(), tasks, splits), row)


def by_kernels(conv: Any) -> Any:
    """PyG's GATConv or GATv2Conv, which then takes `Edges` for `edge_index`."""
    conv.edge_updater, conv.propagate = partial(_coefficients, conv), partial(_sums, conv)
    return conv


def _coefficients(
    conv: Any, edges: Edges, *, size: Any = None, edge_attr: None = None, **ends: Any
) -> Tensor:
    """α_ij of the layer, `[H, heads]`; the ends are `alpha` of GAT or `x` of GATv2."""
    ((source, target),) = ends.values()
    source_j = at_columns(source, edges.pattern, -source.dim())
    target_i = at_rows(target, edges.pattern, -target.dim())
    return conv.edge_update(source_j, target_i, None, edges.row, None, len(source))


def _sums(conv: Any, edges: Edges, *, size: Any = None, x: tuple[Tensor, Tensor], alpha: Tensor) -> Tensor:
    """Σ_j of the layer's messages, `[N, heads, C]`."""
    return sum_at_nodes(conv.message(at_columns(x[0], edges.pattern), alpha), edges.pattern)
