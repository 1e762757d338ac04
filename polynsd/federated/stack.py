"""Graphs of several clients as one: block-diagonal for sparse operations, padded to one size for dense ones.

A graph with fewer nodes than the largest gets rows of zeros, one with fewer edges gets parallel edges between
two nodes that belong to nobody. Nothing joins them to the client's nodes, and no loss counts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from polynsd.federated.branches import LocalGraph
from polynsd.kernels.gpu.schedule import schedule
from polynsd.kernels.ops.operator import Pattern, StackedPattern
from polynsd.topology import Topology, TopologyReport


@dataclass(frozen=True, eq=False, kw_only=True)
class StackedTopology(Topology):
    """The block-diagonal graph of `count` graphs; sizes are those of one, padded.

    For networks under `torch.vmap`, whose replicas have a graph each.
    """

    count: int

    def __post_init__(self) -> None:
        rowptr, row, col, twin = (t.int() for t in (self.rowptr, self.row, self.col, self.twin))
        whole = Pattern(rowptr, row, col, twin, *schedule(self.rowptr, self.row.numel()))
        object.__setattr__(self, "pattern", StackedPattern.of(whole, self.count))

    @property
    def num_nodes(self) -> int:
        return (self.rowptr.numel() - 1) // self.count

    @property
    def num_half_edges(self) -> int:
        return self.row.numel() // self.count


def stack_graphs(graphs: Sequence[LocalGraph]) -> LocalGraph:
    """The graphs as one, whose tensors have a leading dimension of clients."""
    N = max(graph.topology.num_nodes for graph in graphs) + 2  # the two that belong to nobody
    H = max(graph.topology.num_half_edges for graph in graphs)
    topology = _stack_topologies([graph.topology for graph in graphs], N, H)

    def stack(name: str, size: int) -> Tensor:
        return torch.stack([pad_rows(getattr(graph, name), size) for graph in graphs])

    of_nodes = (stack(name, N) for name in ("x", "y", "train", "nodes"))
    return LocalGraph(topology, *of_nodes, *(stack(name, H) for name in ("halves", "first", "transports")))


def pad_rows(t: Tensor, size: int) -> Tensor:
    """`[n, …]` with rows of zeros (False) up to `[size, …]`."""
    return functional.pad(t, (0, 0) * (t.dim() - 1) + (0, size - len(t)))


def _stack_topologies(topologies: Sequence[Topology], N: int, H: int) -> StackedTopology:
    parts: dict[str, list[Tensor]] = {"degree": [], "row": [], "col": [], "twin": [], "edge": []}
    for number, topology in enumerate(topologies):
        h, missing = topology.num_half_edges, (H - topology.num_half_edges) // 2
        nobody = torch.arange(missing, device=topology.row.device)
        ends = torch.full_like(nobody, N - 2), torch.full_like(nobody, N - 1)
        degree = pad_rows(topology.degree, N)
        degree[-2:] = missing
        parts["degree"].append(degree)
        row, col = torch.cat([topology.row, *ends]), torch.cat([topology.col, *reversed(ends)])
        parts["row"].append(row + number * N)
        parts["col"].append(col + number * N)
        twin = torch.cat([topology.twin, h + missing + nobody, h + nobody])
        parts["twin"].append(twin + number * H)
        parts["edge"].append(torch.cat([topology.edge, h // 2 + nobody, h // 2 + nobody]) + number * H // 2)
    whole = {name: torch.cat(tensors) for name, tensors in parts.items()}
    rowptr = functional.pad(whole.pop("degree").cumsum(0), (1, 0))
    halves, report = torch.arange(len(whole["row"]), device=rowptr.device), TopologyReport(H, 0, 0, 0)
    return StackedTopology(rowptr, half_of_input=halves, report=report, count=len(topologies), **whole)
