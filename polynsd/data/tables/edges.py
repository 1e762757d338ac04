"""Any edge list as every undirected edge once.

Self-loops are dropped (a loop contributes nothing to a coboundary) and all copies of an edge are
merged, in whichever direction they were given. Weights and features of the copies are averaged, as
`polynsd.topology` averages parallel edges; `EdgeReport` says how many copies disagreed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.tables.columns import Column, finite_float32
from polynsd.errors import DataError, GraphError


@dataclass(frozen=True)
class EdgeReport:
    """What became of the edges that were given: given = kept + self_loops + duplicates + reverses."""

    given: int
    kept: int
    self_loops: int = 0  # dropped
    duplicates: int = 0  # repeated in the same direction, merged
    reverses: int = 0  # also given in the other direction, merged
    averaged: int = 0  # kept edges whose copies had different weights or features

    def __str__(self) -> str:
        text = f"{self.given} edges given, {self.kept} kept: {self.self_loops} self-loops dropped, "
        text += f"{self.duplicates} duplicates and {self.reverses} reverses merged"
        return text + (f", unequal values of {self.averaged} averaged" if self.averaged else "")


@dataclass(frozen=True, eq=False)
class Edges:
    """The merged edges, sorted: `edge_index` [2, E] with u < v, `values` [E, k] float32 if there were any."""

    edge_index: NDArray[np.int64]
    values: NDArray[np.float32] | None
    report: EdgeReport


def merge(pairs: NDArray[Any], num_nodes: int, values: NDArray[np.float32] | None = None) -> Edges:
    """Merges M given edges `[2, M]` with k values each `[M, k]`."""
    low, high = np.minimum(*pairs), np.maximum(*pairs)
    is_edge = low != high
    # one sortable number for (low, high, direction); an int64 up to two billion nodes
    key = ((low.astype(np.int64) * num_nodes + high) * 2 + (pairs[0] > pairs[1]))[is_edge]
    order = None if values is None else np.argsort(key, kind="stable")
    key = np.sort(key) if order is None else key[order]
    starts, num_directed = _starts(key >> 1), _starts(key).size
    means, averaged = None, 0
    if values is not None:
        means, averaged = _means(values[is_edge][order], starts)
    report = EdgeReport(
        given=pairs.shape[1],
        kept=starts.size,
        self_loops=pairs.shape[1] - key.size,
        duplicates=key.size - num_directed,
        reverses=num_directed - starts.size,
        averaged=averaged,
    )
    edge_index = np.stack(np.divmod(key[starts] >> 1, max(num_nodes, 1)))
    return Edges(edge_index, means, report)


def weights(column: Column) -> NDArray[np.float32]:
    """A column of edge weights: every one a finite number that is not negative."""
    numbers = column.numbers()
    if numbers is None:
        raise DataError(f"{column.place}: weights must be numbers. Correct them or choose another column.")
    missing = int(np.isnan(numbers).sum())
    if missing:
        raise DataError(f"{column.place}: every edge needs a weight; {missing} have none. Fill them in.")
    return non_negative(finite_float32(numbers, column.place), column.place)


def non_negative(weight: NDArray[np.float32], place: str) -> NDArray[np.float32]:
    """The weights, unless one is negative."""
    if (weight < 0).any():
        raise GraphError(
            f"{place}: weights must not be negative, because the Laplacian would not be positive "
            f"semidefinite; got {float(weight.min())}. Shift them, or keep the sign as an edge feature."
        )
    return weight


def _starts(sorted_keys: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where a new number begins."""
    changes = np.ones(sorted_keys.size, dtype=bool)
    np.not_equal(sorted_keys[1:], sorted_keys[:-1], out=changes[1:])
    return np.flatnonzero(changes)


def _means(values: NDArray[np.float32], starts: NDArray[np.intp]) -> tuple[NDArray[np.float32], int]:
    """The mean of every group of rows, and how many groups hold different rows."""
    if not starts.size:
        return values, 0
    counts = np.diff(starts, append=len(values))
    sums = np.add.reduceat(values, starts, axis=0, dtype=np.float64)
    differ = np.maximum.reduceat(values, starts, axis=0) != np.minimum.reduceat(values, starts, axis=0)
    return (sums / counts[:, None]).astype(np.float32), int(differ.any(axis=1).sum())
