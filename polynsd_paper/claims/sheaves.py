"""Small sheaves with random maps, and what dense linear algebra says about them. All in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.sheaf.families import append_channels, get_family
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.testing.samples import random_edges, random_tensor, random_weights
from polynsd.topology import Topology

FAMILIES = ("identity", "diagonal", "orthogonal", "general")
CHANNELS = ("laplacian", "signless")


def random_graph(seed: int, nodes: int = 10, edges: int = 18) -> Topology:
    """Uniform pairs: a few of them repeated, a few nodes perhaps without any."""
    return Topology.from_edge_index(random_edges(nodes, edges, seed), nodes)


def path(nodes: int) -> Topology:
    """0 – 1 – … – (N − 1)."""
    first = torch.arange(nodes - 1)
    return Topology.from_edge_index(torch.stack([first, first + 1]), nodes)


def random_laplacian(
    family: str,
    seed: int,
    normalization: str = "sheaf-augmented",
    *,
    graph: Topology | None = None,
    d: int = 3,
    weighted: bool = False,
    channels: tuple[str, ...] = (),
) -> SheafLaplacian:
    """Maps from standard normal numbers, which may stretch and may be nearly singular."""
    topology = random_graph(seed) if graph is None else graph
    kind = get_family(family)
    maps = kind.build(random_tensor(topology.num_half_edges, kind.num_params(d), seed=seed), d)
    maps = append_channels(maps, channels, topology, d)
    weight = random_weights(topology, seed=seed + 1) if weighted else None
    stalk_dim = d + len(channels)
    return SheafLaplacian(topology, maps, normalization, edge_weight=weight, stalk_dim=stalk_dim)


def spectrum(L: SheafLaplacian) -> Tensor:
    """All eigenvalues, ascending."""
    return torch.linalg.eigvalsh(L.to_dense())


def random_signal(L: SheafLaplacian, channels: int = 1, seed: int = 0) -> Tensor:
    """[N, d, C]."""
    return random_tensor(L.topology.num_nodes, L.stalk_dim, channels, seed=seed)


def matrix_of(apply: Callable[[Tensor], Tensor], L: SheafLaplacian) -> Tensor:
    """The matrix of a linear map of signals: what it does to every unit signal."""
    size = L.shape[0]
    units = torch.eye(size, dtype=L.dtype).reshape(L.topology.num_nodes, L.stalk_dim, size)
    return apply(units).reshape(size, size)


def operator_norm(matrix: Tensor) -> float:
    """The largest singular value."""
    return float(torch.linalg.matrix_norm(matrix, 2))


def hops(topology: Topology) -> NDArray[np.float64]:
    """[N, N] lengths of shortest paths, infinite where there is none."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import shortest_path

    ends = (topology.row.numpy(), topology.col.numpy())
    size = (topology.num_nodes, topology.num_nodes)
    ones = np.ones(topology.num_half_edges)
    return np.asarray(shortest_path(csr_matrix((ones, ends), size), unweighted=True))
