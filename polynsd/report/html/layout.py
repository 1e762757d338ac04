"""Where the nodes of a drawing stand.

Pivot MDS (Brandes and Pich, 2006) places nodes so that straight distances are like hops from a few pivots:
the two leading singular vectors of the doubly centred squared hops. Then neighbours attract each other, and
random pairs repel: the forces of Fruchterman and Reingold with sampled repulsion.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

Numbers = NDArray[np.float64]

PIVOTS = 40
STEPS = 120
SAMPLES = 24  # random nodes that repel a node in a step


def place_nodes(num_nodes: int, edges: NDArray[np.int64]) -> Numbers:
    """`[N, 2]` in the square [−1, 1]², of edges `[E, 2]`; nodes without one stand below the rest."""
    if num_nodes == 0:
        return np.zeros((0, 2))
    rng = np.random.default_rng(0)
    ones = np.ones(len(edges))
    adjacency = sparse.csr_array((ones, (edges[:, 0], edges[:, 1])), shape=(num_nodes, num_nodes))
    adjacency = adjacency + adjacency.T
    positions = _pivot_mds(adjacency, rng)
    if len(edges):
        positions = _relax(positions, edges, np.asarray(adjacency.sum(1)).ravel(), rng)
    positions = _place_isolated(positions, adjacency)
    positions -= (positions.max(0) + positions.min(0)) / 2
    return positions / max(float(np.abs(positions).max()), 1e-9)


def _pivot_mds(adjacency: sparse.csr_array, rng: np.random.Generator) -> Numbers:
    N = adjacency.shape[0]
    pivots = rng.choice(N, min(PIVOTS, N), replace=False)
    hops = dijkstra(adjacency, unweighted=True, indices=pivots).T
    finite = np.isfinite(hops)
    hops = np.where(finite, hops, hops[finite].max(initial=0.0) + 2.0)
    squares = hops**2
    centred = -0.5 * (squares - squares.mean(0) - squares.mean(1, keepdims=True) + squares.mean())
    _, vectors = np.linalg.eigh(centred.T @ centred)
    positions = centred @ vectors[:, ::-1][:, :2]
    positions = np.pad(positions, ((0, 0), (0, 2 - positions.shape[1])))
    size = np.abs(positions).max(0)
    positions = positions / np.where(size > 0, size, 1.0)
    return positions + rng.normal(scale=0.02, size=positions.shape)  # nodes of equal hops fall on one point


def _relax(
    positions: Numbers, edges: NDArray[np.int64], degree: Numbers, rng: np.random.Generator
) -> Numbers:
    """Steps of at most a shrinking length along the forces; the ideal length of an edge is 1/√N."""
    N = len(positions)
    ideal = 1.0 / np.sqrt(N)
    strength = ideal**2 * N / SAMPLES  # of one sampled pair, which stands for N / SAMPLES
    reach = np.linspace(0.12, 0.005, STEPS)
    for longest in reach:
        apart = positions[edges[:, 0]] - positions[edges[:, 1]]
        pull = apart * (np.linalg.norm(apart, axis=1, keepdims=True) / ideal)
        force = np.zeros_like(positions)
        for axis in (0, 1):
            force[:, axis] -= np.bincount(edges[:, 0], pull[:, axis], N)
            force[:, axis] += np.bincount(edges[:, 1], pull[:, axis], N)
        force /= np.maximum(degree, 1.0)[:, None] ** 0.5
        others = positions[rng.integers(0, N, size=(SAMPLES, N))]
        away = positions - others
        force += strength * (away / ((away**2).sum(-1, keepdims=True) + ideal**2)).sum(0)
        force -= 0.5 * positions  # what is not connected stays near
        size = np.linalg.norm(force, axis=1, keepdims=True)
        positions = positions + force / np.maximum(size, 1e-12) * np.minimum(size, longest)
    return positions


def _place_isolated(positions: Numbers, adjacency: sparse.csr_array) -> Numbers:
    """Nodes without neighbours in wide rows below the rest; in a square where no node has any."""
    is_isolated = np.diff(adjacency.indptr) == 0
    count, rest = int(is_isolated.sum()), positions[~is_isolated]
    if not count:
        return positions
    columns = int(np.ceil(np.sqrt(count * (4 if len(rest) else 1))))
    row, column = np.divmod(np.arange(count), columns)
    if not len(rest):
        return np.stack([column, row], 1).astype(np.float64)
    step = max(float(np.ptp(rest[:, 0])), 1e-6) / max(columns, 8)
    positions = positions.copy()
    positions[is_isolated] = rest.min(0) + step * np.stack([column, -(row + 2)], 1)
    return positions
