"""A sheaf to test with, seen twice: as the library's operator and as the dense truth."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from polynsd.sheaf.families import MapFamily, get_family
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.testing.dense import dense_laplacian
from polynsd.testing.samples import example_graph, random_maps, random_weights
from polynsd.topology import Topology


@dataclass(frozen=True)
class SampleSheaf:
    """Everything that determines a sheaf Laplacian."""

    topology: Topology
    maps: Tensor
    stalk_dim: int
    normalization: str = "none"
    edge_weight: Tensor | None = None
    orthogonal_columns: bool = False

    def laplacian(self) -> SheafLaplacian:
        """The operator."""
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
