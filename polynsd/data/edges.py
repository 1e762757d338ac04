"""Edge lists of any kind brought into one form: every undirected edge once, sorted.

    merged = merge_edges(pairs, num_nodes, weight=weight)
    merged.edge_index  # [2, E] with u < v, sorted
    merged.report      # "5 edges given, 2 kept: 1 self-loops dropped, …"

Self-loops are dropped (a loop contributes nothing to a coboundary). All copies of an edge are merged, in
whichever direction they were given; their weights and features are averaged, as `polynsd.topology`
averages parallel edges, or added: then the weight of an edge without weights is the number of its copies.
`EdgeReport` counts all of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polynsd.errors import require_choice

AGGREGATES = ("mean", "sum")


@dataclass(frozen=True)
class EdgeReport:
    """What became of the edges that were given: given = kept + self_loops + duplicates + reverses."""

    given: int
    kept: int
    self_loops: int = 0  # dropped
    duplicates: int = 0  # repeated in the same direction, merged
    reverses: int = 0  # also given in the other direction, merged
    averaged: int = 0  # kept edges whose copies had different weights or features
    summed: int = 0  # kept edges whose copies were added

    def __str__(self) -> str:
        text = f"{self.given} edges given, {self.kept} kept: {self.self_loops} self-loops dropped, "
        text += f"{self.duplicates} duplicates and {self.reverses} reverses merged"
        text += f", unequal values of {self.averaged} averaged" if self.averaged else ""
        return text + (f", values of {self.summed} added" if self.summed else "")


@dataclass(frozen=True, eq=False)
class MergedEdges:
    """E undirected edges sorted by (u, v), each once with u < v.

    Args:
        edge_index: `[2, E]` int64.
        weight: `[E]` float32; None if no weights were given.
        attr: `[E, k]` float32; None if no features were given.
        report: what became of the given edges.
    """

    edge_index: NDArray[np.int64]
    weight: NDArray[np.float32] | None
    attr: NDArray[np.float32] | None
    report: EdgeReport


def merge_edges(
    pairs: NDArray[Any],
    num_nodes: int,
    weight: NDArray[np.float32] | None = None,
    attr: NDArray[np.float32] | None = None,
    aggregate: str = "mean",
) -> MergedEdges:
    """Every undirected edge of the list once, in O(M log M).

    Args:
        pairs: `[2, M]` node numbers from 0 to num_nodes − 1, in any direction and order.
        num_nodes: N, at most 2·10⁹.
        weight: `[M]`, a weight per given edge.
        attr: `[M, k]`, k features per given edge.
        aggregate: `mean` or `sum` of the copies of an edge.
    """
    require_choice("way to aggregate edges", aggregate, AGGREGATES)
    low, high = np.minimum(*pairs), np.maximum(*pairs)
    is_edge = low != high
    # one sortable number for (low, high, direction)
    key = ((low.astype(np.int64) * num_nodes + high) * 2 + (pairs[0] > pairs[1]))[is_edge]
    order = None if weight is None and attr is None else np.argsort(key, kind="stable")
    key = np.sort(key) if order is None else key[order]
    starts, num_directed = _find_starts(key >> 1), _find_starts(key).size
    edge_index = np.stack(np.divmod(key[starts] >> 1, max(num_nodes, 1)))
    is_unequal, num_copied = np.zeros(starts.size, dtype=bool), 0
    if weight is not None:
        weight, is_unequal = _average(weight[is_edge][order], starts)
    if attr is not None:
        attr, differs = _average(attr[is_edge][order], starts)
        is_unequal |= differs
    if aggregate == "sum":
        copies = np.diff(starts, append=key.size)
        num_copied = int((copies > 1).sum())
        # copies of every edge, such as both directions, tell edges apart no more than none
        weight = (
            np.ones(starts.size, np.float32) if weight is None and copies.size and np.ptp(copies) else weight
        )
        weight = None if weight is None else (weight * copies).astype(np.float32)
        attr = None if attr is None else (attr * copies[:, None]).astype(np.float32)
    report = EdgeReport(
        given=pairs.shape[1],
        kept=starts.size,
        self_loops=pairs.shape[1] - key.size,
        duplicates=key.size - num_directed,
        reverses=num_directed - starts.size,
        averaged=int(is_unequal.sum()) if aggregate == "mean" else 0,
        summed=num_copied,
    )
    return MergedEdges(edge_index, weight, attr, report)


def _find_starts(sorted_keys: NDArray[np.int64]) -> NDArray[np.intp]:
    """The positions at which a new number begins."""
    changes = np.ones(sorted_keys.size, dtype=bool)
    np.not_equal(sorted_keys[1:], sorted_keys[:-1], out=changes[1:])
    return np.flatnonzero(changes)


def _average(
    values: NDArray[np.float32], starts: NDArray[np.intp]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The mean of each group of rows, and whether the rows of the group differ."""
    if not starts.size:
        return values, np.zeros(0, dtype=bool)
    rows = values.reshape(len(values), -1)
    counts = np.diff(starts, append=len(rows))
    sums = np.add.reduceat(rows, starts, axis=0, dtype=np.float64)
    is_unequal = np.maximum.reduceat(rows, starts, axis=0) != np.minimum.reduceat(rows, starts, axis=0)
    means = (sums / counts[:, None]).astype(np.float32)
    return means.reshape(starts.size, *values.shape[1:]), is_unequal.any(axis=1)
