"""Splits of trees on a CPU: `polynsd/kernels/ops/splits.py` says what they are.

One pass over the rows adds up a column for all nodes of a tree, in an array that fits into a cache, and one
over its bins looks at every split.
"""

# mypy: disable-error-code="misc, untyped-decorator"

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from polynsd.kernels.cpu.compile import cached
from polynsd.kernels.ops.splits import BINS, NO_SPLIT, Level, Rule


def best_splits(level: Level, rule: Rule) -> tuple[Tensor, Tensor]:
    """The same as `polynsd.kernels.ops.splits.best_splits`, bit for bit."""
    arrays = (t.contiguous().numpy() for t in level[:-1])
    column, bins = _search(*arrays, level.nodes, rule.leaf, float(rule.penalty), float(rule.least))
    return torch.from_numpy(column), torch.from_numpy(bins)


@cached(numba.njit, error_model="numpy")
def _search(
    codes: Any, columns: Any, place: Any, g: Any, h: Any, nodes: int, leaf: int, penalty: float, least: float
) -> Any:
    K, n = place.shape
    column, bins = np.zeros((K, nodes), dtype=np.int64), np.full((K, nodes), NO_SPLIT, dtype=np.int64)
    sums = np.zeros((nodes, BINS, 3), dtype=np.int64)
    for k in range(K):
        top = np.zeros(nodes)
        for c in columns:
            sums[:] = 0
            for r in range(n):
                cell = sums[place[k, r], codes[c, r]]
                cell[0] += g[k, r]
                cell[1] += h[k, r]
                cell[2] += 1
            for node in range(nodes):
                gain, b = _best_bin(sums[node], leaf, penalty, least)
                if gain > top[node]:
                    top[node], column[k, node], bins[k, node] = gain, c, b
    return column, bins


@numba.njit(error_model="numpy")
def _best_bin(sums: Any, leaf: int, penalty: float, least: float) -> Any:
    """The largest gain of a node by a column, and the last bin that goes to the left."""
    G, H, count = 0, 0, 0
    for b in range(BINS):
        G += sums[b, 0]
        H += sums[b, 1]
        count += sums[b, 2]
    top, best = 0.0, NO_SPLIT
    if count < 2 * leaf:
        return top, best
    whole = np.float64(G) * np.float64(G) / (np.float64(H) + penalty)
    G_l, H_l, n_l = 0, 0, 0
    for b in range(BINS - 1):
        if sums[b, 2] == 0:  # the same split as before
            continue
        G_l += sums[b, 0]
        H_l += sums[b, 1]
        n_l += sums[b, 2]
        G_r, H_r = G - G_l, H - H_l
        if n_l < leaf or count - n_l < leaf or H_l < least or H_r < least:
            continue
        left = np.float64(G_l) * np.float64(G_l) / (np.float64(H_l) + penalty)
        right = np.float64(G_r) * np.float64(G_r) / (np.float64(H_r) + penalty)
        gain = left + right - whole
        if gain > top:
            top, best = gain, b
    return top, best
