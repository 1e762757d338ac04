"""Sums and softmax over the neighbours of every node, with a value per edge and head.

    α_ij = exp(s_ij) / Σ_{j ∈ N(i)} exp(s_ij),        y_i = Σ_{j ∈ N(i)} α_ij v_j

Node i receives from its neighbours j. Values travel between nodes and edges by the kernels' `at_rows` (value
of i), `at_columns` (value of j) and `sum_at_nodes` (Σ_j). These need no scatter with atomics, neither forward
nor backward, so the same seed gives the same bits on a GPU too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from polynsd.errors import ConfigError, require_at_least
from polynsd.kernels.gpu.schedule import schedule
from polynsd.kernels.ops.edges import at_columns, at_rows, max_at_nodes, sum_at_nodes
from polynsd.kernels.ops.operator import Pattern
from polynsd.topology import Topology, as_topology
from polynsd.zoo.matrices import once_per_graph

TINY = 1e-16  # too small to change a sum of exponentials, which is at least 1


class Neighbourhood(NamedTuple):
    """All pairs (i, j) where j is a neighbour of i, sorted."""

    pattern: Pattern
    row: Tensor  # int64, the i of every pair


def neighbours(edge_index: Any, x: Tensor) -> Neighbourhood:
    """The pairs of nodes that an edge joins."""
    topology = as_topology(edge_index, x.size(0))
    return Neighbourhood(topology.pattern, topology.row)


@once_per_graph
def neighbours_and_self(topology: Topology, x: Tensor) -> Neighbourhood:
    """The pairs that an edge joins, and every node with itself."""
    N, node = topology.num_nodes, torch.arange(topology.num_nodes, device=topology.row.device)
    row, col = torch.cat([topology.row, node]), torch.cat([topology.col, node])
    order = (row * N + col).argsort()
    row, col = row[order], col[order]
    twin = (col * N + row).argsort()
    rowptr = functional.pad((topology.degree + 1).cumsum(0), (1, 0))
    tasks, splits = schedule(rowptr, row.numel())
    return Neighbourhood(Pattern(rowptr.int(), row.int(), col.int(), twin.int(), tasks, splits), row)


def softmax(scores: Tensor, near: Neighbourhood, weights: Tensor | None = None) -> Tensor:
    """α_ij = w_ij exp(s_ij) / Σ_j w_ij exp(s_ij) for scores `[H, heads]`; w `[H]` is 1 unless given."""
    pattern = near.pattern
    shares = (scores - at_rows(max_at_nodes(scores, pattern, near.row, -2), pattern, -2)).exp()
    shares = shares if weights is None else weights.unsqueeze(-1) * shares
    return shares / (at_rows(sum_at_nodes(shares, pattern, -2), pattern, -2) + TINY)


def softmax_with_self(
    scores: Tensor, own: Tensor, near: Neighbourhood, weights: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The same over neighbours and the node itself, whose score is `own` `[N, heads]` and whose weight is 1.

    Returns:
        α_ij `[H, heads]` and α_ii `[N, heads]`.
    """
    pattern = near.pattern
    maximum = torch.maximum(max_at_nodes(scores, pattern, near.row, -2), own.detach())
    shares, own = (scores - at_rows(maximum, pattern, -2)).exp(), (own - maximum).exp()
    shares = shares if weights is None else weights.unsqueeze(-1) * shares
    total = sum_at_nodes(shares, pattern, -2) + own
    return shares / at_rows(total, pattern, -2), own / total


def attend(scores: Tensor, v: Tensor, near: Neighbourhood) -> Tensor:
    """Σ_j softmax_j(s_ij) v_j for scores `[H, heads]` and v `[N, C]`; 0 for nodes without neighbours.

    Every head has its own part of the C channels.
    """
    parts = at_columns(v.unflatten(-1, (scores.size(-1), -1)), near.pattern)
    return sum_at_nodes(softmax(scores, near).unsqueeze(-1) * parts, near.pattern).flatten(-2)


def require_heads(channels: int, heads: int) -> None:
    """Raises unless the heads share the channels evenly."""
    require_at_least("heads", heads, 1)
    if channels % heads:
        raise ConfigError(f"hidden_channels={channels} must be a multiple of heads={heads}.")
