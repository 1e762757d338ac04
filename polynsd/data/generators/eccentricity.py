r"""How far a node sees within a number of hops: the target of the city street networks.

    ecc(v) = max { d_v(v, u) : u at most `hops` edges away from v },

where d_v is the shortest-path distance by edge length *inside* the subgraph induced by these nodes:
a detour that leaves the neighbourhood does not count. The classes are equal chunks of the ranking.

Cost grows with the size of the neighbourhoods, a few hundred nodes on streets. Do not use it where
`hops` steps reach most of a large graph (social networks, web pages).
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph

from polynsd.data.generators.synthetic import FloatArray, IntArray
from polynsd.errors import GraphError, require_at_least

CHUNK = 64  # nodes whose neighbourhoods are held at once


def hop_eccentricity(edge_index: ArrayLike, length: ArrayLike, num_nodes: int, hops: int = 16) -> FloatArray:
    """Eccentricity [N] of every node inside the subgraph induced by its `hops`-hop neighbourhood.

    Args:
        edge_index: [2, E], every undirected edge once.
        length: [E], finite and not negative.
        num_nodes: N.
        hops: Radius of the neighbourhood in edges, at least 1.
    """
    require_at_least("num_nodes", num_nodes, 1)
    require_at_least("hops", hops, 1)
    roads = _symmetric_lengths(*_checked(np.asarray(edge_index), np.asarray(length), num_nodes), num_nodes)
    step = roads.astype(np.bool_)
    step.data[:] = True  # a road of length zero is a step too
    step = step + sparse.eye(num_nodes, dtype=np.bool_, format="csr")
    eccentricity = np.empty(num_nodes)
    for first in range(0, num_nodes, CHUNK):
        nodes = np.arange(first, min(first + CHUNK, num_nodes))
        for node, ball in zip(nodes, _balls(step, nodes, hops), strict=True):
            start = int(np.searchsorted(ball, node))
            eccentricity[node] = csgraph.dijkstra(roads[ball][:, ball], indices=start).max()
    return eccentricity


def eccentricity_labels(eccentricity: ArrayLike, classes: int = 10) -> IntArray:
    """Class of every node: chunks of ⌊N/classes⌋ + 1 nodes in ascending order, ties by node number.

    The last class is smaller than the others; with few nodes the last classes are empty.
    """
    require_at_least("classes", classes, 1)
    order = np.argsort(eccentricity, kind="stable")
    labels = np.empty(order.size, dtype=np.int64)
    labels[order] = np.arange(order.size) // (order.size // classes + 1)
    return labels


def _balls(step: Any, nodes: IntArray, hops: int) -> list[NDArray[np.int32]]:
    """For each node the sorted numbers of all nodes within `hops` edges; `step` is A + I."""
    reach = step[nodes]
    for _ in range(hops - 1):
        reach = reach @ step
    reach.sort_indices()
    balls: list[NDArray[np.int32]] = np.split(reach.indices, reach.indptr[1:-1])
    return balls


def _symmetric_lengths(edge_index: IntArray, length: FloatArray, num_nodes: int) -> Any:
    """Lengths of both directions as a CSR matrix; zero lengths stay, parallel edges stay apart."""
    source, target = np.concatenate([edge_index, edge_index[::-1]], axis=1)
    order = np.argsort(source, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=num_nodes))])
    return sparse.csr_matrix((np.tile(length, 2)[order], target[order], start), shape=(num_nodes,) * 2)


def _checked(edge_index: NDArray[Any], length: NDArray[Any], num_nodes: int) -> tuple[IntArray, FloatArray]:
    """Both arrays as int64 and float64, once they describe the roads of a graph."""
    if edge_index.ndim != 2 or len(edge_index) != 2 or length.shape != edge_index.shape[1:]:
        raise GraphError(
            "expected edge_index of shape [2, E] and one length per edge; got shapes "
            f"{list(edge_index.shape)} and {list(length.shape)}. Give every undirected edge once."
        )
    if edge_index.size and not 0 <= edge_index.min() <= edge_index.max() < num_nodes:
        raise GraphError(
            f"node numbers must lie in 0..{num_nodes - 1}; got {edge_index.min()}..{edge_index.max()}. "
            "Raise num_nodes or renumber the nodes."
        )
    if not np.all(np.isfinite(length) & (length >= 0)):
        raise GraphError("lengths must be finite and not negative. Remove or repair such edges.")
    return edge_index.astype(np.int64), length.astype(np.float64)
