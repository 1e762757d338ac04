"""Halos: a set of core nodes with everything within so many hops, as a graph of its own.

A model that reads r hops gives the core nodes of a halo of depth r exactly what it gives them in the
whole graph (`polynsd.scale.receptive_field` knows r). Rows outside the core are wrong, because
neighbours are missing there.

`Halos` cuts halos out of a graph, `PartHalos` does it for the parts of a partition, and `neighbor_batches`
samples neighbours at random, which bounds the number of nodes and is approximate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from polynsd.errors import ConfigError, GraphError, require_at_least
from polynsd.scale.partition import members, partition
from polynsd.topology import Topology, as_topology

if TYPE_CHECKING:
    from torch_geometric.data import Data


CACHED = 4  # times the nodes of the graph: so many may be in halos that are kept for the next epoch


@dataclass(frozen=True, eq=False)
class Halo:
    """The subgraph on all nodes within `depth` hops of the core, core nodes first."""

    data: Data
    """Node and edge values of the whole graph, for these nodes and edges."""
    nodes: Tensor
    """[n] their numbers in the whole graph."""
    num_core: int
    """The first so many nodes are the core, in the order in which they were given."""
    depth: int

    @property
    def core(self) -> Tensor:
        """[num_core] the numbers of the core nodes in the whole graph."""
        return self.nodes[: self.num_core]

    def to(self, device: torch.device | str) -> Halo:
        """The same halo, its graph on another device."""
        if self.data.edge_index.device == torch.device(device):
            return self
        return Halo(copy(self.data).to(device), self.nodes, self.num_core, self.depth)


class Halos:
    """Cuts halos out of a graph; what is needed for that is prepared once, in O(E log E).

    A halo costs what its own nodes and edges cost, and a mark per node of the graph. All columns of
    `edge_index` are kept as they are, in their order: one-way edges, parallel edges and self-loops too.
    """

    def __init__(self, data: Data) -> None:
        if data.edge_index is None:
            raise GraphError(
                "the data has no edge_index; for a graph without edges give an empty [2, 0] one."
            )
        self.data = data
        self.num_nodes = int(data.num_nodes)
        keys = sorted(data.keys())
        self._node_keys = [key for key in keys if data.is_node_attr(key)]
        self._edge_keys = [key for key in keys if key != "edge_index" and data.is_edge_attr(key)]

    @cached_property
    def topology(self) -> Topology:
        """The undirected graph, along which hops are counted."""
        return as_topology(self.data.edge_index, self.num_nodes)

    @cached_property
    def _columns(self) -> tuple[Tensor, Tensor]:
        """Columns of edge_index by target: (pointers [N + 1], columns [E])."""
        target = self.data.edge_index[1].long()
        counts = torch.bincount(target, minlength=self.num_nodes)
        return torch.cat([counts.new_zeros(1), counts.cumsum(0)]), torch.sort(target, stable=True).indices

    def nodes_within(self, core: Tensor, depth: int) -> Tensor:
        """The core, then the nodes one hop away in ascending order, then those two hops away, …"""
        require_at_least("depth", depth, 0)
        core = core.to(self.data.edge_index.device)
        is_inside = torch.zeros(self.num_nodes, dtype=torch.bool, device=core.device)
        is_inside[core] = True
        rings = [core]
        for _ in range(depth):
            near = self.topology.col[_ranges(self.topology.rowptr, rings[-1])]
            near = torch.unique(near[~is_inside[near]])
            if not near.numel():
                break
            is_inside[near] = True
            rings.append(near)
        return torch.cat(rings)

    def around(self, core: Tensor, depth: int) -> Halo:
        """The halo of distinct core nodes."""
        from torch_geometric.data import Data

        nodes = self.nodes_within(core, depth)
        position = torch.full((self.num_nodes,), -1, device=nodes.device)
        position[nodes] = torch.arange(nodes.numel(), device=nodes.device)
        pointers, columns = self._columns
        chosen = columns[_ranges(pointers, nodes)]
        chosen = chosen[position[self.data.edge_index[0, chosen]] >= 0].sort().values
        values = {key: _select(self.data, key, nodes) for key in self._node_keys}
        values |= {key: _select(self.data, key, chosen) for key in self._edge_keys}
        data = Data(edge_index=position[self.data.edge_index[:, chosen]], **values)
        data.num_nodes = nodes.numel()
        return Halo(data, nodes, core.numel(), depth)

    def assemble(self, cores: Sequence[Tensor], compute: Callable[[Tensor], Tensor]) -> Tensor:
        """[N, …] from rows that are computed part by part."""
        result: Tensor | None = None
        for core in cores:
            rows = compute(core)
            if result is None:
                result = self.data.edge_index.new_empty(self.num_nodes, *rows.shape[1:], dtype=rows.dtype)
            result[core] = rows.to(result.device)
        if result is None:
            raise GraphError("the graph has no nodes; there is nothing to compute.")
        return result


class PartHalos:
    """Halos of the parts of a graph; those of single parts are kept while there is room."""

    def __init__(self, data: Data, num_parts: int, method: str, seed: int) -> None:
        self.graph = Halos(data)
        self.cores = members(partition(self.graph.topology, num_parts, method, seed))
        self._cache: dict[tuple[int, int], Halo] = {}
        self._room = CACHED * self.graph.num_nodes

    def around(self, parts: Sequence[int], depth: int) -> Halo:
        """The halo of some parts, given by their numbers."""
        key = parts[0], depth
        if len(parts) == 1 and key in self._cache:
            return self._cache[key]
        halo = self.graph.around(torch.cat([self.cores[part] for part in parts]), depth)
        if len(parts) == 1 and halo.nodes.numel() <= self._room:
            self._room -= halo.nodes.numel()
            self._cache[key] = halo
        return halo


def neighbor_batches(
    data: Data, nodes: Tensor, num_neighbors: Sequence[int], batch_size: int, *, shuffle: bool = True
) -> Iterator[Halo]:
    """Batches of core nodes with sampled halos; degrees, and so the normaliser, are those of the sample.

    Args:
        data: a PyG graph.
        nodes: mask or numbers of the core nodes.
        num_neighbors: how many neighbours are drawn at every hop, −1 for all.
        batch_size: core nodes per batch.
        shuffle: draws the batches by the global random state.

    Needs pyg-lib or torch-sparse, which are not on the package index; `Halos` and `partition` need neither.
    """
    require_at_least("batch_size", batch_size, 1)
    if not _sampler_is_installed():
        raise ConfigError(
            "neighbor_batches needs pyg-lib, which is not on the package index; see "
            "https://github.com/pyg-team/pyg-lib for how to install it, or use fit_in_parts."
        )
    from torch_geometric.loader import NeighborLoader

    loader = NeighborLoader(
        data, num_neighbors=list(num_neighbors), input_nodes=nodes, batch_size=batch_size, shuffle=shuffle
    )
    return (Halo(batch, batch.n_id, int(batch.batch_size), len(num_neighbors)) for batch in loader)


def _sampler_is_installed() -> bool:
    from torch_geometric import typing

    return bool(typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE)


def _select(data: Data, key: str, index: Tensor) -> Any:
    value = data[key]
    if not isinstance(value, Tensor):
        return [value[i] for i in index.tolist()]
    return value.index_select(data.__cat_dim__(key, value), index)


def _ranges(pointers: Tensor, nodes: Tensor) -> Tensor:
    """The numbers from pointers[v] up to pointers[v + 1] of all the nodes, one after another."""
    first, counts = pointers[nodes], pointers[nodes + 1] - pointers[nodes]
    before = counts.cumsum(0) - counts
    return torch.arange(int(counts.sum()), device=nodes.device) + (first - before).repeat_interleave(counts)
