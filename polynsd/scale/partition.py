"""Partitions: every node into one of P parts of equal size, with few edges between parts.

`metis` is the usual choice and needs the `partition` extra. `bfs` needs nothing: it halves the graph
again and again. A half grows breadth first from a node at the rim of its component, so a part is a ball
or a slice between two balls; component after component, so that a cut goes through one of them at most.
Every halving is O(E) in compiled code, whatever the diameter.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.errors import ConfigError, require_at_least, require_choice
from polynsd.topology import Topology, as_topology

METHODS = ("auto", "metis", "bfs")

Nodes = NDArray[np.int64]


def partition(graph: Any, num_parts: int, method: str = "auto", seed: int = 0) -> Tensor:
    """The part of every node, `[N]` from 0 to P − 1.

    Args:
        graph: a Topology, or anything that `as_topology` takes.
        num_parts: P ≤ N.
        method: `metis` (few cut edges; parts within about 3 % of equal, and some may be empty where a
            part has only a few nodes), `bfs` (sizes differ by one at most) or `auto` (metis where it is
            installed).
        seed: of the random choices; the same seed gives the same parts.
    """
    topology = as_topology(graph)
    require_choice("partition method", method, METHODS)
    require_at_least("num_parts", num_parts, 1)
    if num_parts > topology.num_nodes:
        raise ConfigError(
            f"a graph of {topology.num_nodes} nodes cannot be cut into {num_parts} parts; ask for fewer."
        )
    if method == "auto":
        method = "bfs" if find_spec("pymetis") is None else "metis"
    labels = (_metis if method == "metis" else _breadth_first)(topology, num_parts, seed)
    return torch.as_tensor(labels, dtype=torch.long)


def members(labels: Tensor) -> list[Tensor]:
    """The nodes of every part that has any, in ascending order."""
    order = torch.sort(labels, stable=True).indices
    parts: list[Tensor] = list(order.split(torch.bincount(labels).tolist()))
    return [nodes for nodes in parts if nodes.numel()]


def cut_share(graph: Any, labels: Tensor) -> float:
    """The share of edges between different parts."""
    topology = as_topology(graph)
    labels = labels.to(topology.row.device)
    crossing = labels[topology.row] != labels[topology.col]
    return float(crossing.double().mean()) if topology.num_edges else 0.0


def _metis(topology: Topology, num_parts: int, seed: int) -> Any:
    try:
        pymetis = import_module("pymetis")
    except ImportError as error:
        raise ConfigError(
            "method='metis' needs the package 'pymetis', which is not installed; install it with: "
            "pip install 'polynsd[partition]', or use method='bfs'."
        ) from error
    if num_parts == 1 or not topology.num_edges:
        return _breadth_first(topology, num_parts, seed)
    rowptr, col = topology.rowptr.cpu().int().numpy(), topology.col.cpu().int().numpy()
    if hasattr(pymetis, "CSRAdjacency"):  # since 2025.1
        graph = {"adjacency": pymetis.CSRAdjacency(rowptr, col)}
    else:
        graph = {"xadj": rowptr, "adjncy": col}
    return pymetis.part_graph(num_parts, **graph, options=pymetis.Options(seed=seed))[1]


def _breadth_first(topology: Topology, num_parts: int, seed: int) -> Nodes:
    """Halves until one part is left; part p gets ⌊N (p + 1)/P⌋ − ⌊N p/P⌋ nodes."""
    N, rng = topology.num_nodes, np.random.default_rng(seed)
    labels = np.zeros(N, dtype=np.int64)
    waiting = [(_adjacency(topology), np.arange(N), 0, num_parts)]
    while waiting:
        adjacency, nodes, first, last = waiting.pop()
        if last - first == 1:
            labels[nodes] = first
            continue
        middle = (first + last) // 2
        size = N * middle // num_parts - N * first // num_parts
        order = _order(adjacency, rng)
        for half, low, high in ((order[:size], first, middle), (order[size:], middle, last)):
            half = np.sort(half)
            waiting.append((adjacency[half][:, half], nodes[half], low, high))
    return labels


def _adjacency(topology: Topology) -> Any:
    from scipy.sparse import csr_array

    rowptr, col = topology.rowptr.cpu().int().numpy(), topology.col.cpu().int().numpy()
    return csr_array((np.ones(len(col), dtype=np.int8), col, rowptr), shape=(topology.num_nodes,) * 2)


def _order(adjacency: Any, rng: np.random.Generator) -> Nodes:
    """All nodes, component after component, each breadth first from a node at its rim."""
    from scipy.sparse.csgraph import connected_components

    _, component = connected_components(adjacency, directed=False)
    shuffled = rng.permutation(len(component))
    _, first = np.unique(component[shuffled], return_index=True)
    order = _breadth_first_order(adjacency, component, shuffled[first])
    ends = np.flatnonzero(np.diff(component[order], append=-1))
    return _breadth_first_order(adjacency, component, order[ends])  # from the nodes reached last


def _breadth_first_order(adjacency: Any, component: Nodes, starts: Nodes) -> Nodes:
    """One search from a node beside the graph that points to all starts, then sorted by component."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    n = len(component)
    indices = np.concatenate([adjacency.indices, starts.astype(adjacency.indices.dtype)])
    rowptr = np.append(adjacency.indptr, np.int32(len(indices)))
    rooted = csr_array((np.ones(len(indices), dtype=np.int8), indices, rowptr), shape=(n + 1, n + 1))
    order: Nodes = breadth_first_order(rooted, n, return_predecessors=False)[1:]
    return order[np.argsort(component[order], kind="stable")]
