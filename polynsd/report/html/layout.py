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


def place_nodes(num_nodes: int, edges: NDArray[np.int64], seed: int = 0) -> Numbers:
    """`[N, 2]` in the square [−1, 1]², of edges `[E, 2]`; components stand beside each other."""
    if num_nodes == 0:
        return np.zeros((0, 2))
    rng = np.random.default_rng(seed)
    ones = np.ones(len(edges))
    adjacency = sparse.csr_array((ones, (edges[:, 0], edges[:, 1])), shape=(num_nodes, num_nodes))
    adjacency = adjacency + adjacency.T
    place = _pivot_mds(adjacency, rng)
    if len(edges):
        place = _relax(place, edges, np.asarray(adjacency.sum(1)).ravel(), rng)
    place = _pack_components(place, adjacency)
    place -= (place.max(0) + place.min(0)) / 2
    return place / max(float(np.abs(place).max()), 1e-9)


def _pivot_mds(adjacency: sparse.csr_array, rng: np.random.Generator) -> Numbers:
    N = adjacency.shape[0]
    pivots = rng.choice(N, min(PIVOTS, N), replace=False)
    hops = dijkstra(adjacency, unweighted=True, indices=pivots).T
    finite = np.isfinite(hops)
    hops = np.where(finite, hops, hops[finite].max(initial=0.0) + 2.0)
    squares = hops**2
    centred = -0.5 * (squares - squares.mean(0) - squares.mean(1, keepdims=True) + squares.mean())
    _, vectors = np.linalg.eigh(centred.T @ centred)
    place = centred @ vectors[:, ::-1][:, :2]
    place = np.pad(place, ((0, 0), (0, 2 - place.shape[1])))
    size = np.abs(place).max(0)
    place = place / np.where(size > 0, size, 1.0)
    return place + rng.normal(scale=0.02, size=place.shape)  # nodes of equal hops fall on one point


def _relax(place: Numbers, edges: NDArray[np.int64], degree: Numbers, rng: np.random.Generator) -> Numbers:
    """Steps of at most a shrinking length along the forces; the ideal length of an edge is 1/√N."""
    N = len(place)
    ideal = 1.0 / np.sqrt(N)
    strength = ideal**2 * N / SAMPLES  # of one sampled pair, which stands for N / SAMPLES
    reach = np.linspace(0.12, 0.005, STEPS)
    for longest in reach:
        apart = place[edges[:, 0]] - place[edges[:, 1]]
        pull = apart * (np.linalg.norm(apart, axis=1, keepdims=True) / ideal)
        force = np.zeros_like(place)
        for axis in (0, 1):
            force[:, axis] -= np.bincount(edges[:, 0], pull[:, axis], N)
            force[:, axis] += np.bincount(edges[:, 1], pull[:, axis], N)
        force /= np.maximum(degree, 1.0)[:, None] ** 0.5
        others = place[rng.integers(0, N, size=(SAMPLES, N))]
        away = place - others
        force += strength * (away / ((away**2).sum(-1, keepdims=True) + ideal**2)).sum(0)
        force -= 0.5 * place  # what is not connected stays near
        size = np.linalg.norm(force, axis=1, keepdims=True)
        place = place + force / np.maximum(size, 1e-12) * np.minimum(size, longest)
    return place


def _pack_components(place: Numbers, adjacency: sparse.csr_array) -> Numbers:
    """Nodes without neighbours in rows below the rest."""
    alone = np.diff(adjacency.indptr) == 0
    count, total = int(alone.sum()), len(place)
    if not count or count == total:
        if count:
            place = _grid(count, np.array([-1.0, -1.0]), 2.0)
        return place
    place = place.copy()
    rest = place[~alone]
    low, high = rest.min(0), rest.max(0)
    width = max(float(high[0] - low[0]), 1e-6)
    place[alone] = _grid(count, np.array([low[0], low[1]]), width, below=True)
    return place


def _grid(count: int, corner: Numbers, width: float, below: bool = False) -> Numbers:
    columns = int(np.ceil(np.sqrt(count * (4 if below else 1))))
    step = width / max(columns, 8)
    rows, column = np.divmod(np.arange(count), columns)
    height = -(rows + 2) * step if below else rows * step
    return np.stack([corner[0] + column * step, corner[1] + height], 1)
