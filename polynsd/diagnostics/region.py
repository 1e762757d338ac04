"""A part of a graph that is too large to look at as a whole."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polynsd.errors import require_at_least
from polynsd.sparse import is_sparse
from polynsd.topology import Topology, as_topology

STARTS = 32  # random nodes whose surroundings make a region


def sample_region(data: Any, max_nodes: int, seed: int = 0) -> tuple[Any, Tensor]:
    """The surroundings of some random nodes: PyG's `Data` of the subgraph, and the numbers of its nodes.

    Inside a region a graph is as it was; at its border edges are missing. A graph of at most `max_nodes`
    nodes is returned as it is.
    """
    require_at_least("max_nodes", max_nodes, 1)
    N = data.num_nodes
    if max_nodes >= N:
        return data, torch.arange(N)
    topology = as_topology(data.edge_index, N)
    nodes = draw_surroundings(topology, max_nodes, seed).to(data.edge_index.device)
    number = torch.full((N,), -1, dtype=torch.long, device=nodes.device)
    number[nodes] = torch.arange(len(nodes), device=nodes.device)
    ends = number[data.edge_index]
    kept = (ends >= 0).all(0)
    region = copy.copy(data)
    region.edge_index = ends[:, kept]
    for name, value in data.to_dict().items():
        if name in ("edge_weight", "edge_attr"):
            region[name] = value[kept]
        elif name != "edge_index" and isinstance(value, Tensor) and value.dim() and value.size(0) == N:
            region[name] = value.index_select(0, nodes) if is_sparse(value) else value[nodes]
    region.num_nodes = len(nodes)
    return region, nodes.cpu()


def draw_surroundings(topology: Topology, max_nodes: int, seed: int = 0) -> Tensor:
    """`[max_nodes]` the nodes that are reached first from random starts, ascending."""
    rowptr, col = topology.rowptr.cpu().numpy(), topology.col.cpu().numpy()
    generator = np.random.default_rng(seed)
    is_in = np.zeros(topology.num_nodes, dtype=bool)
    frontier = generator.choice(topology.num_nodes, min(STARTS, max_nodes), replace=False)
    count = 0
    while count < max_nodes:
        if not len(frontier):  # a component has ended
            frontier = generator.choice(np.flatnonzero(~is_in), 1)
        frontier = frontier[: max_nodes - count]
        is_in[frontier] = True
        count += len(frontier)
        around = np.concatenate([col[rowptr[v] : rowptr[v + 1]] for v in frontier])
        frontier = generator.permutation(np.unique(around[~is_in[around]]))
    return torch.from_numpy(np.flatnonzero(is_in))
