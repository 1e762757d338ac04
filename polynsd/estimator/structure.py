"""What the graph looks like around a node, as four numbers: for trees, and for graphs without features.

    log(1 + d)     its degree
    log r          its PageRank, r_v = 0.15 + 0.85 Σ_u r_u / d_u over its neighbours, which is 1 on average
    log(1 + h)     its h-index: h neighbours have degree h at least, and no h + 1 have degree h + 1
    t / (d choose 2)   its clustering coefficient: the share of pairs of neighbours that are linked

Other components of a graph change none of them, and edges count alike whatever their weights. They do not
tell who the neighbours are; `links.py` does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

COLUMNS = ("log degree", "log PageRank", "log h-index", "clustering")
DAMPING, STEPS = 0.85, 30  # 0.85³⁰ = 0.008 is what is left of the beginning
BLOCK = 2**24  # products of entries that are computed in one go

Numbers = NDArray[np.float64]


def describe_structure(adjacency: Any) -> Numbers:
    """`[N, 4]` the numbers above, of a symmetric `csr_array` `[N, N]` without loops; weights do not count."""
    A = sparse.csr_array(adjacency, copy=True)
    A.data = np.ones(A.nnz)
    degree = np.diff(A.indptr).astype(np.float64)
    pairs = np.maximum(degree * (degree - 1) / 2, 1)
    columns = (
        np.log1p(degree),
        np.log(_rank_pages(A, degree)),
        np.log1p(_find_h_indices(A, degree)),
        _count_triangles(A, degree) / pairs,
    )
    return np.stack(columns, 1)


def _rank_pages(A: Any, degree: Numbers) -> Numbers:
    """PageRank times N by power iteration; an isolated node gives nothing and has 0.15."""
    rank, share = np.ones(len(degree)), 1 / np.maximum(degree, 1)
    for _ in range(STEPS):
        rank = 1 - DAMPING + DAMPING * (A @ (share * rank))
    return rank


def _find_h_indices(A: Any, degree: Numbers) -> Numbers:
    """The number of neighbours, the one of highest degree first, whose degree is not below their place."""
    row = np.repeat(np.arange(len(degree)), np.diff(A.indptr))
    order = np.lexsort((-degree[A.indices], row))
    place = np.arange(A.nnz) - A.indptr[row] + 1
    is_above = degree[A.indices[order]] >= place
    return np.bincount(row[is_above], minlength=len(degree)).astype(np.float64)


def _count_triangles(A: Any, degree: Numbers) -> Numbers:
    """The number of triangles of every node.

    Edges point to the end of higher degree, which keeps out-degrees small. A triangle i → k → j, i → j is
    then found once in (U U)∘U, at (i, j), and once in (Uᵀ U)∘U, at (k, j).
    """
    rank = np.empty(len(degree), dtype=np.int64)
    rank[np.argsort(degree, kind="stable")] = np.arange(len(degree))
    row = np.repeat(np.arange(len(degree)), np.diff(A.indptr))
    goes_up = rank[row] < rank[A.indices]
    U = sparse.csr_array((np.ones(int(goes_up.sum())), (row[goes_up], A.indices[goes_up])), shape=A.shape)
    lowest, _ = _sum_products(U, U, U)
    middle, highest = _sum_products(sparse.csr_array(U.T), U, U)
    return lowest + middle + highest


def _sum_products(left: Any, right: Any, mask: Any) -> tuple[Numbers, Numbers]:
    """The sums of the rows and of the columns of (left right) ∘ mask, a block of rows at a time."""
    work = np.concatenate([[0], np.cumsum(left @ np.diff(right.indptr))])
    rows, columns = np.zeros(left.shape[0]), np.zeros(right.shape[1])
    start = 0
    while start < len(rows):
        end = max(int(np.searchsorted(work, work[start] + BLOCK, side="right")) - 1, start + 1)
        part = (left[start:end] @ right).multiply(mask[start:end])
        rows[start:end], columns = part.sum(1), columns + part.sum(0)
        start = end
    return rows, columns
