"""Attention along edges: scores, their softmax at every node, and the sums of what is sent.

Between nodes and edges the library's kernels go, which need no scatter with atomics, neither forward nor
backward, so that the same seed gives the same bits on a GPU too.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from polynsd.errors import ConfigError, require_at_least
from polynsd.kernels.gpu.schedule import schedule
from polynsd.kernels.ops.edges import at_columns, at_rows, sum_at_nodes
from polynsd.kernels.ops.operator import Pattern
from polynsd.topology import Topology, as_topology
from polynsd.zoo.operators import remembered

TINY = 1e-16  # that a sum of exponentials, at least 1, does not notice


class Edges(NamedTuple):
    """Pairs (i, j) of nodes, sorted: i listens to j."""

    pattern: Pattern
    row: Tensor  # int64


def edges_without_loops(edge_index: Any, num_nodes: int) -> Edges:
    """The half-edges of a graph."""
    topology = as_topology(edge_index, num_nodes)
    return Edges(topology.pattern, topology.row)


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


def softmax(scores: Tensor, edges: Edges) -> Tensor:
    """α_ij = exp(s_ij) / Σ_j exp(s_ij) for scores `[H, heads]`."""
    pattern = edges.pattern
    shares = (scores - at_rows(largest(scores, edges), pattern, -2)).exp()
    return shares / (at_rows(sum_at_nodes(shares, pattern, -2), pattern, -2) + TINY)


def softmax_with_self(scores: Tensor, own: Tensor, edges: Edges) -> tuple[Tensor, Tensor]:
    """The same, where every node has a score `[N, heads]` for itself besides."""
    pattern = edges.pattern
    most = torch.maximum(largest(scores, edges), own.detach())
    shares, own = (scores - at_rows(most, pattern, -2)).exp(), (own - most).exp()
    total = sum_at_nodes(shares, pattern, -2) + own
    return shares / at_rows(total, pattern, -2), own / total


def largest(scores: Tensor, edges: Edges) -> Tensor:
    """`[N, heads]` the highest score at every node, −∞ where there is none; a constant for gradients.

    PyTorch takes it with atomics, but a maximum does not depend on the order.
    """
    lowest = scores.new_full((edges.pattern.num_nodes, scores.size(-1)), -torch.inf)
    return lowest.scatter_reduce(0, edges.row[:, None].expand_as(scores), scores.detach(), "amax")


def attended(scores: Tensor, v: Tensor, edges: Edges) -> Tensor:
    """Σ_j softmax_j(s_ij) v_j, for scores `[H, heads]` and v `[N, C]`, 0 for who has no neighbours."""
    parts = at_columns(v.unflatten(-1, (scores.size(-1), -1)), edges.pattern)
    return sum_at_nodes(softmax(scores, edges).unsqueeze(-1) * parts, edges.pattern).flatten(-2)


def require_heads(channels: int, heads: int) -> None:
    """Raises unless the heads share the channels evenly."""
    require_at_least("heads", heads, 1)
    if channels % heads:
        raise ConfigError(f"hidden_channels={channels} must be a multiple of heads={heads}.")


def by_kernels(conv: Any) -> Any:
    """PyG's GATConv or GATv2Conv, which then takes `Edges` for `edge_index`."""
    conv.edge_updater, conv.propagate = partial(_coefficients, conv), partial(_sums, conv)
    return conv


def _coefficients(
    conv: Any, edges: Edges, *, size: Any = None, edge_attr: None = None, **ends: Any
) -> Tensor:
    """α_ij of the layer, `[H, heads]`, after dropout; the ends are `alpha` of GAT or `x` of GATv2."""
    ((source, target),) = ends.values()
    there = at_columns(source, edges.pattern, -source.dim())
    here = at_rows(target, edges.pattern, -target.dim())
    scores = functional.leaky_relu(here + there, conv.negative_slope)
    scores = (scores * conv.att).sum(-1) if "x" in ends else scores
    return functional.dropout(softmax(scores, edges), conv.dropout, conv.training)


def _sums(conv: Any, edges: Edges, *, size: Any = None, x: tuple[Tensor, Tensor], alpha: Tensor) -> Tensor:
    """Σ_j of the layer's messages, `[N, heads, C]`."""
    return sum_at_nodes(conv.message(at_columns(x[0], edges.pattern), alpha), edges.pattern)
