"""Which nodes a client gets, and what it has of the graph then: four ways to divide one.

louvain      communities of greatest modularity, packed into clients of nearly equal size (FedATH, OpenFGL)
metis        parts of nearly equal size with few edges between them
labels       for every class, client k gets the share p_k ~ Dirichlet(α, …, α): the smaller α, the more skewed
overlapping  K/5 METIS parts; five clients of a part get a random half of its nodes each (FedPUB)

A seed gives the same nodes on every machine: modularity is compared in whole numbers, and ties go to the
community of the smallest number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polynsd.data.graph import Graph
from polynsd.data.splits import PARTS, ROUNDING
from polynsd.errors import ConfigError, DataError, require_at_least, require_choice
from polynsd.scale.partition import partition
from polynsd.topology import Topology

Nodes = NDArray[np.int64]
Neighbours = list[dict[int, int]]  # by node: the weight of the edge to each neighbour

METHODS = ("louvain", "metis", "labels", "overlapping")
SHARED_BY = 5  # clients that draw from one part
SHARE = 0.5  # of its nodes, each
REDRAWS = 1000  # of shares that leave a client with too few nodes
FEWEST = 10  # nodes of a client after a draw, where the graph has as many


# Louvain


def find_communities(edge_index: NDArray[np.integer], num_nodes: int, seed: int = 0) -> list[Nodes]:
    """Communities by Louvain's method at resolution 1, each with its nodes in ascending order.

    Q = Σ_c (e_c/2m − (Σ_c/2m)²) with e_c the weight inside community c and Σ_c the degrees of its nodes.
    Moving node i into c adds (2m·k_ic − k_i·Σ_c)/2m², k_ic being the weight between them. Nodes move to where
    this is greatest until none does; then communities are the nodes of a smaller graph, and all begins anew.
    """
    rng = np.random.default_rng(seed)
    members = [[node] for node in range(num_nodes)]
    neighbours, loops = _read_neighbours(edge_index, num_nodes), [0] * num_nodes
    while True:
        community = _move_nodes(neighbours, loops, rng)
        names = {name: number for number, name in enumerate(dict.fromkeys(community))}
        if len(names) == len(community):
            return [np.sort(np.array(nodes, dtype=np.int64)) for nodes in members]
        community = [names[name] for name in community]
        merged: list[list[int]] = [[] for _ in names]
        for number, nodes in zip(community, members, strict=True):
            merged[number] += nodes
        members = merged
        neighbours, loops = _merge_nodes(neighbours, loops, community, len(names))


def _read_neighbours(edge_index: NDArray[np.integer], num_nodes: int) -> Neighbours:
    neighbours: Neighbours = [{} for _ in range(num_nodes)]
    for u, v in edge_index.T.tolist():
        neighbours[u][v] = neighbours[v][u] = 1
    return neighbours


def _move_nodes(neighbours: Neighbours, loops: Sequence[int], rng: np.random.Generator) -> list[int]:
    """The community of every node once no move raises Q; `loops` holds twice the weight inside a node."""
    degree = [sum(weights.values()) + loop for weights, loop in zip(neighbours, loops, strict=True)]
    community, totals, both = list(range(len(neighbours))), list(degree), sum(degree)  # both = 2m
    order, has_moved = rng.permutation(len(neighbours)).tolist(), True
    while has_moved:
        has_moved = False
        for node in order:
            own, k = community[node], degree[node]
            totals[own] -= k
            weights: dict[int, int] = {own: 0}
            for other, weight in neighbours[node].items():
                weights[community[other]] = weights.get(community[other], 0) + weight
            best, most = own, both * weights[own] - k * totals[own]
            for name, weight in sorted(weights.items()):
                gain = both * weight - k * totals[name]
                if gain > most:
                    best, most = name, gain
            totals[best] += k
            community[node] = best
            has_moved |= best != own
    return community


def _merge_nodes(
    neighbours: Neighbours, loops: Sequence[int], community: Sequence[int], count: int
) -> tuple[Neighbours, list[int]]:
    """The graph whose nodes are the communities."""
    merged: Neighbours = [{} for _ in range(count)]
    inner = [0] * count
    for node, weights in enumerate(neighbours):
        own = community[node]
        inner[own] += loops[node]
        for other, weight in weights.items():
            if community[other] == own:
                inner[own] += weight
            else:
                merged[own][community[other]] = merged[own].get(community[other], 0) + weight
    return merged, inner


def pack_communities(communities: Sequence[Nodes], clients: int, delta: int = 20) -> list[Nodes]:
    """Communities put into K clients of about ⌊N/K⌋ nodes each, after FedATH.

    1. A community of more than ⌊N/K⌋ − δ nodes is cut into pieces of that size and a rest.
    2. Largest first, a community goes to the client at the pointer; the pointer passes over clients that
       would reach ⌊N/K⌋ + δ nodes with it, and clients that have ⌊N/K⌋ are full. A community that fits
       nowhere goes to the smallest client.
    """
    target = sum(map(len, communities)) // clients
    cap = target - delta
    if cap < 1:
        raise ConfigError(
            f"delta must be smaller than the {target} nodes that each of {clients} clients gets; got "
            f"{delta}. Ask for fewer clients, or for a smaller delta: polynsd federated partition --delta "
            f"{target // 2}, and train on its folder with --partition."
        )
    pieces = [nodes[i : i + cap] for nodes in communities for i in range(0, len(nodes), cap)]
    pieces.sort(key=len, reverse=True)  # stable
    packed: list[list[Nodes]] = [[] for _ in range(clients)]
    sizes, opened, pointer = [0] * clients, list(range(clients)), 0
    for piece in pieces:
        while len(opened) > 1 and sizes[opened[pointer]] >= target:
            opened.pop(pointer)
            pointer %= len(opened)
        ahead = [(pointer + step) % len(opened) for step in range(len(opened))]
        fitting = (p for p in ahead if sizes[opened[p]] + len(piece) < target + delta)
        pointer = next(fitting, min(ahead, key=lambda p: sizes[opened[p]]))
        packed[opened[pointer]].append(piece)
        sizes[opened[pointer]] += len(piece)
    return [np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64) for parts in packed]


# The methods


def divide_nodes(
    graph: Graph, clients: int, method: str = "louvain", seed: int = 0, delta: int = 20, alpha: float = 0.5
) -> list[Nodes]:
    """The nodes of every client, in ascending order; see the module for the methods.

    Args:
        graph: what is divided.
        clients: K.
        method: `louvain`, `metis`, `labels` or `overlapping`.
        seed: of the random choices.
        delta: of `louvain`, how far sizes may be from ⌊N/K⌋.
        alpha: of `labels`, the concentration.
    """
    require_choice("way to divide a graph", method, METHODS)
    require_at_least("clients", clients, 1)
    require_at_least("seed", seed, 0)
    require_at_least("delta", delta, 0)
    if clients > graph.num_nodes:
        raise ConfigError(
            f"a graph of {graph.num_nodes} nodes cannot have {clients} clients; ask for fewer clients."
        )
    if method == "louvain":
        nodes = pack_communities(find_communities(graph.edge_index, graph.num_nodes, seed), clients, delta)
    elif method == "metis":
        nodes = _divide_by_metis(graph, clients, seed)
    elif method == "labels":
        nodes = _divide_by_labels(graph, clients, seed, alpha)
    else:
        nodes = _divide_overlapping(graph, clients, seed)
    empty = [client for client, some in enumerate(nodes) if not len(some)]
    if empty:
        raise ConfigError(f"client {empty[0]} of {clients} would get no node; ask for fewer clients.")
    return nodes


def _divide_by_metis(graph: Graph, clients: int, seed: int) -> list[Nodes]:
    edge_index = torch.from_numpy(graph.edge_index.astype(np.int64))
    labels = partition(Topology.from_edge_index(edge_index, graph.num_nodes), clients, "metis", seed).numpy()
    return [np.flatnonzero(labels == client) for client in range(clients)]


def _divide_by_labels(graph: Graph, clients: int, seed: int, alpha: float) -> list[Nodes]:
    if not alpha > 0:
        raise ConfigError(f"alpha, of the Dirichlet distribution, must be greater than 0; got {alpha!r}.")
    if graph.y is None or not graph.num_classes:
        raise DataError(f"method='labels' needs classes; '{graph.name}' has none. Use louvain or metis.")
    rng, fewest = np.random.default_rng(seed), min(FEWEST, graph.num_nodes // (2 * clients))
    classes = [np.flatnonzero(graph.y == label) for label in np.unique(graph.y)]  # unlabelled nodes are one
    for _ in range(REDRAWS):
        parts: list[list[Nodes]] = [[] for _ in range(clients)]
        for nodes in classes:
            ends = np.floor(rng.dirichlet(np.full(clients, alpha)).cumsum()[:-1] * len(nodes)).astype(int)
            for part, some in zip(parts, np.split(rng.permutation(nodes), ends), strict=True):
                part.append(some)
        divided = [np.sort(np.concatenate(part)) for part in parts]
        if min(map(len, divided)) >= max(fewest, 1):
            return divided
    raise ConfigError(
        f"alpha={alpha} leaves some of {clients} clients without nodes in each of {REDRAWS} draws; choose a "
        "larger alpha or fewer clients."
    )


def _divide_overlapping(graph: Graph, clients: int, seed: int) -> list[Nodes]:
    if clients % SHARED_BY:
        raise ConfigError(
            f"method='overlapping' has {SHARED_BY} clients to a part, so their number must be a multiple of "
            f"{SHARED_BY}; got {clients}."
        )
    rng = np.random.default_rng(seed)
    return [
        np.sort(rng.permutation(part)[: max(int(SHARE * len(part)), 1)])
        for part in _divide_by_metis(graph, clients // SHARED_BY, seed)
        for _ in range(SHARED_BY)
    ]


# What a client has of the graph


def induced_subgraph(graph: Graph, nodes: Nodes) -> tuple[Graph, int]:
    """The graph on these nodes in their order, without masks, and how many edges lead out of it."""
    position = np.full(graph.num_nodes, -1)
    position[nodes] = np.arange(len(nodes))
    ends = position[graph.edge_index]
    inside, touched = (ends >= 0).all(axis=0), (ends >= 0).any(axis=0)

    def rows(values: Any, chosen: NDArray[Any]) -> Any:
        return None if values is None else values[chosen]

    subgraph = replace(
        graph,
        edge_index=ends[:, inside].astype(np.int64),
        num_nodes=len(nodes),
        x=rows(graph.x, nodes),
        y=rows(graph.y, nodes),
        masks={},
        edge_weight=rows(graph.edge_weight, inside),
        edge_attr=rows(graph.edge_attr, inside),
        node_ids=graph.ids[nodes],
        class_names=graph.class_names,
        extras={},
    )
    return subgraph, int(touched.sum() - inside.sum())


def split_by_class(
    graph: Graph, fractions: Sequence[float], rng: np.random.Generator
) -> list[NDArray[np.bool_]]:
    """Masks [n] of train, val, test; what rounding leaves goes to the test part."""
    masks = [np.zeros(graph.num_nodes, dtype=bool) for _ in PARTS]
    assert graph.y is not None
    for label in range(graph.num_classes):
        nodes = rng.permutation(np.flatnonzero(graph.y == label))
        counts = [int(share * len(nodes) * (1 + ROUNDING)) for share in fractions[:2]]
        for mask, some in zip(masks, np.split(nodes, np.cumsum(counts)), strict=True):
            mask[some] = True
    return masks
