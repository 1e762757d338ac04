"""Holonomy: what transport around a short cycle does to a vector.

Along a cycle v_1, …, v_n with the orthogonal parts O of the transports F_vᵀF_u,

    H = O_{v_1 v_2} O_{v_2 v_3} … O_{v_n v_1},        distance = ‖H − I‖_F / √(2d) ∈ [0, √2]

A sheaf is flat, the plain graph in other coordinates, if and only if H = I for all cycles; √2 is a turn by π
in all directions, 1 what random rotations have on average.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.sheaf.alignment import polar
from polynsd.topology import Topology

LENGTHS = (3, 4)
TRIES = 8  # neighbours from which a cycle of four is looked for

Nodes = NDArray[np.int64]


def find_cycles(topology: Topology, count: int, seed: int = 0) -> list[Nodes]:
    """At most `count` cycles of three nodes, or four where an edge is in none of three: arrays `[n, length]`.

    Cycles are found through randomly drawn edges; where there is none of length up to four the list is empty.
    """
    rowptr, row, col = (t.cpu().numpy() for t in (topology.rowptr, topology.row, topology.col))
    generator = np.random.default_rng(seed)
    edges = topology.first_half.cpu().numpy()
    edges = generator.permutation(edges)[:count]
    found: dict[int, list[Nodes]] = {length: [] for length in LENGTHS}
    for half in edges:
        cycle = _close(rowptr, col, int(row[half]), int(col[half]), generator)
        if cycle is not None:
            found[len(cycle)].append(cycle)
    return [np.stack(cycles) for cycles in found.values() if cycles]


def _close(rowptr: Nodes, col: Nodes, v: int, u: int, generator: np.random.Generator) -> Nodes | None:
    """A cycle through the edge {v, u}: v, u, w, or v, u, w, z."""

    def around(node: int) -> Nodes:
        return col[rowptr[node] : rowptr[node + 1]]

    shared = np.intersect1d(around(v), around(u), assume_unique=True)
    if len(shared):
        return np.array([v, u, generator.choice(shared)])
    for w in generator.permutation(around(u))[:TRIES]:
        if w == v:
            continue
        shared = np.intersect1d(around(v), around(int(w)), assume_unique=True)
        shared = shared[shared != u]
        if len(shared):
            return np.array([v, u, w, generator.choice(shared)])
    return None


def measure_holonomy(topology: Topology, maps: Tensor, cycles: list[Nodes]) -> NDArray[np.float64]:
    """‖H − I‖_F / √(2d) of every cycle, for maps `[H, d, d]` on half-edges."""
    if not cycles:
        return np.zeros(0)
    d = maps.size(-1)
    eye = torch.eye(d, dtype=maps.dtype, device=maps.device)
    distances = []
    for each in cycles:
        nodes = torch.from_numpy(each).to(topology.row.device)
        half = find_half_edges(topology, nodes, nodes.roll(-1, 1))
        steps = polar(maps[half].mT @ maps[topology.twin[half]])  # [n, length, d, d]
        around = eye
        for step in steps.unbind(1):
            around = around @ step
        distances.append((around - eye).flatten(1).norm(dim=1) / (2 * d) ** 0.5)
    return torch.cat(distances).cpu().double().numpy()


def find_half_edges(topology: Topology, v: Tensor, u: Tensor) -> Tensor:
    """The half-edges (v, u), which must exist."""
    keys = topology.row * topology.num_nodes + topology.col  # ascending
    return torch.searchsorted(keys, v * topology.num_nodes + u)
