"""Small graphs, maps, sheaves and signals to test with; everything is a function of its arguments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

import torch
from torch import Tensor

from polynsd.errors import ConfigError
from polynsd.sheaf.families import General, MapFamily, get_family
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.testing.dense import dense_laplacian
from polynsd.topology import Topology

FAMILIES = (
    "identity",
    "diagonal",
    "orthogonal(householder)",
    "orthogonal(cayley)",
    "orthogonal(matrix_exp)",
    "orthogonal(euler)",
    "general",
)

# name: (edges, number of nodes)
GRAPHS: dict[str, tuple[list[tuple[int, int]], int]] = {
    "one node": ([], 1),
    "no edges": ([], 3),
    "one edge": ([(0, 1)], 2),
    "path": ([(0, 1), (1, 2), (2, 3), (3, 4)], 5),
    "star": ([(2, 0), (2, 1), (2, 3), (2, 4), (2, 5)], 6),
    "complete": ([(i, j) for i in range(5) for j in range(i)], 5),
    "isolated nodes": ([(4, 1), (1, 2), (2, 4), (4, 5)], 8),
    "multigraph": ([(0, 1), (1, 0), (0, 1), (2, 2), (1, 3), (3, 0), (3, 0)], 4),
}


def stalk_dims(family: str | MapFamily, largest: int = 5) -> list[int]:
    """The d ≤ largest that a family admits."""
    admitted = []
    for d in range(1, largest + 1):
        try:
            get_family(family).num_params(d)
        except ConfigError:
            continue
        admitted.append(d)
    return admitted


def pairwise_cases(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Few cases of a product, in which every pair of values of two axes occurs; for `parametrize`."""
    values = [list(axis) for axis in axes]
    cases = list(product(*(range(len(axis)) for axis in values)))
    missing = {pair for case in cases for pair in _pairs(case)}
    chosen = []
    while missing:
        best = max(cases, key=lambda case: len(missing & _pairs(case)))
        missing -= _pairs(best)
        chosen.append(tuple(axis[i] for axis, i in zip(values, best, strict=True)))
    return chosen


def _pairs(case: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
    return set(combinations(enumerate(case), 2))


def example_graph(name: str) -> Topology:
    """One of the named graphs `GRAPHS` as a topology."""
    edges, num_nodes = GRAPHS[name]
    return Topology.from_edge_index(torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(), num_nodes)


def batch_of(*names: str) -> tuple[Topology, Tensor]:
    """Several of `GRAPHS` side by side, and the number of the graph of every node, as in a PyG batch.

    Nodes and half-edges of a graph stay contiguous and in their order.
    """
    sizes = [GRAPHS[name][1] for name in names]
    offsets = [sum(sizes[:i]) for i in range(len(sizes))]
    edges = [
        (a + offset, b + offset)
        for name, offset in zip(names, offsets, strict=True)
        for a, b in GRAPHS[name][0]
    ]
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    return Topology.from_edge_index(edge_index, sum(sizes)), batch


def random_edges(num_nodes: int, num_edges: int, seed: int = 0) -> Tensor:
    """[2, num_edges] uniform pairs: self-loops, parallel and one-way edges included."""
    return torch.randint(num_nodes, (2, num_edges), generator=torch.Generator().manual_seed(seed))


def random_tensor(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normal numbers, drawn in float64 so that every dtype sees the same ones."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def random_maps(
    family: str | MapFamily,
    topology: Topology,
    d: int,
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    lead: tuple[int, ...] = (),
) -> Tensor:
    """Maps of a family on every half-edge; general ones stay near I, so that D_v is well conditioned."""
    family = get_family(family)
    raw = random_tensor(*lead, topology.num_half_edges, family.num_params(d), seed=seed).tanh()
    if isinstance(family, General):
        raw = torch.eye(d, dtype=torch.float64).flatten() + 0.4 / d**0.5 * raw
    return family.build(raw.to(dtype), d)


def random_weights(
    topology: Topology, *, seed: int = 0, dtype: torch.dtype = torch.float64, lead: tuple[int, ...] = ()
) -> Tensor:
    """[..., H] weights in (0, 1), equal on twins."""
    per_edge = random_tensor(*lead, topology.num_edges, seed=seed).sigmoid()
    return per_edge.index_select(-1, topology.edge).to(dtype)


@dataclass(frozen=True)
class SampleSheaf:
    """Everything that determines a sheaf Laplacian, as the library's operator and as the dense matrix."""

    topology: Topology
    maps: Tensor
    stalk_dim: int
    normalization: str = "none"
    edge_weight: Tensor | None = None
    orthogonal_columns: bool = False

    def laplacian(self) -> SheafLaplacian:
        return SheafLaplacian(
            self.topology,
            self.maps,
            self.normalization,
            edge_weight=self.edge_weight,
            orthogonal_columns=self.orthogonal_columns,
            stalk_dim=self.stalk_dim,
        )

    def dense(self) -> Tensor:
        """The float64 matrix `[N d, N d]` it should be; needs maps without replicas."""
        return dense_laplacian(
            self.topology,
            self.maps,
            self.normalization,
            stalk_dim=self.stalk_dim,
            edge_weight=self.edge_weight,
        )

    def replica(self, index: int) -> SampleSheaf:
        """One sheaf of a stack `[R, ...]`; what has no replica dimension is shared."""
        maps = self.maps[index] if self.maps.dim() == 4 else self.maps
        weight = self.edge_weight
        weight = weight[index] if weight is not None and weight.dim() == 2 else weight
        return replace(self, maps=maps, edge_weight=weight)


def random_sheaf(
    graph: str | Topology,
    family: str | MapFamily,
    d: int,
    normalization: str = "none",
    *,
    weighted: bool = False,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    lead: tuple[int, ...] = (),
) -> SampleSheaf:
    """A sheaf on a graph (or on one of the named `GRAPHS`) with random maps of a family."""
    topology = example_graph(graph) if isinstance(graph, str) else graph
    family = get_family(family)
    return SampleSheaf(
        topology,
        random_maps(family, topology, d, seed=seed, dtype=dtype, lead=lead),
        d,
        normalization,
        random_weights(topology, seed=seed + 1, dtype=dtype) if weighted else None,
        family.orthogonal_columns,
    )
