"""The parts of a graph and their halos, cut out when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from polynsd.scale.halo import Halo, Halos
from polynsd.scale.partition import members, partition

if TYPE_CHECKING:
    from torch_geometric.data import Data

KEPT = 4  # times the nodes of the graph: so many may be in halos that are kept for the next epoch


class PartHalos:
    """Halos of the parts of a graph; those of single parts are kept while there is room."""

    def __init__(self, data: Data, num_parts: int, method: str, seed: int) -> None:
        self.graph = Halos(data)
        self.cores = members(partition(self.graph.topology, num_parts, method, seed))
        self._kept: dict[tuple[int, int], Halo] = {}
        self._room = KEPT * self.graph.num_nodes

    def around(self, parts: Sequence[int], depth: int) -> Halo:
        """The halo of some parts, given by their numbers."""
        key = parts[0], depth
        if len(parts) == 1 and key in self._kept:
            return self._kept[key]
        halo = self.graph.around(torch.cat([self.cores[part] for part in parts]), depth)
        if len(parts) == 1 and halo.nodes.numel() <= self._room:
            self._room -= halo.nodes.numel()
            self._kept[key] = halo
        return halo
