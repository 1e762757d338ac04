r"""Planar street networks of any size, labelled by how far a node sees within 16 hops.

Junctions lie on a jittered grid; of their Delaunay triangulation a random spanning tree is kept and
then the cheapest other edges, up to the requested mean degree. Stretching the plane along both axes
makes quarters of wide and of narrow blocks. The classes are deciles of `hop_eccentricity`: features
describe a node and its own streets, the class depends on hundreds of nodes around it. These streets
are straight and meet no rivers or walls: do not set numbers on them beside published ones, use the
public networks for that.

Lengths are in metres; the columns of `x` are scaled to order one. The target is

    ecc(v) = max { d_v(v, u) : u at most `hops` edges away from v },

where d_v is the shortest-path distance by edge length *inside* the subgraph induced by these nodes:
a detour that leaves the neighbourhood does not count. The classes are equal chunks of the ranking. The cost
of `hop_eccentricity` grows with the size of the neighbourhoods, a few hundred nodes on streets. Do not use it
where `hops` steps reach most of a large graph (social networks, web pages).
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage, sparse, spatial
from scipy.sparse import csgraph

from polynsd.data.edges import merge_edges
from polynsd.data.generators.common import FloatArray, IntArray, random_streams
from polynsd.data.graph import Graph
from polynsd.data.splits import Masks, permuted_split
from polynsd.errors import ConfigError, GraphError, require_at_least

SPACING = 100.0  # metres, the geometric mean of the widths of all blocks
QUARTER = 4.0  # blocks over which these widths are alike
CONTRAST = 0.5  # standard deviation of their logarithm
MARGIN = 0.1  # blocks between a junction and the border of its cell, so that junctions stay apart
COST_SPREAD = 3.0  # a street costs its length times a random factor between 1 and this
DISTRICT = 50  # nodes per district; the streets of a district are of one kind
KINDS = (*map(str, range(8)), "other")
CHUNK = 64  # nodes whose neighbourhoods are held at once
NUM_SPLITS = 10
FEATURES = ("x", "y", "street_count", "length", *(f"highway_{kind}" for kind in KINDS))


def street_graph(
    num_nodes: int = 10_000,
    mean_degree: float = 2.8,
    bends: float = 0.0,
    labels: bool = True,
    seed: int = 0,
) -> Graph:
    """A connected planar graph of exactly round(N·mean_degree/2) streets.

    Args:
        num_nodes: N, at least 20.
        mean_degree: At least 2 and less than 6; cities have 2.2 to 3.2.
        bends: Share of nodes, at most half, in the middle of a street instead of at a junction.
        labels: Whether to compute the classes, by far the slowest part; without them y is None.
        seed: The same arguments and seed give the same graph.

    Returns:
        A graph with 13 features, ten classes, ten splits 10/10/80, lengths in metres as `edge_attr` [E, 1],
        and as extras `position` [N, 2] and `edge_length` [E] in metres and the eccentricity `ecc16` [N].
    """
    require_at_least("num_nodes", num_nodes, 20)
    if not 2.0 <= mean_degree < 6.0:
        raise ConfigError(
            f"a connected planar graph has a mean degree in [2, 6); got mean_degree={mean_degree!r}."
        )
    if not 0.0 <= bends <= 0.5:
        raise ConfigError(f"every street bends at most once: bends must lie in [0, 0.5]; got {bends!r}.")
    place_rng, edge_rng, bend_rng, width_rng, kind_rng = random_streams(seed, 5)
    num_bends = int(bends * num_nodes)
    num_streets = round(num_nodes * mean_degree / 2) - num_bends  # a bend makes one street into two
    junctions = jittered_grid(num_nodes - num_bends, place_rng)
    network = thin_out(triangulate(junctions), junctions, num_streets, edge_rng)
    cells, streets = add_bends(junctions, network, num_bends, bend_rng)
    points = stretch(cells, width_rng)
    length = lengths(points, streets).astype(np.float32)
    extras: dict[str, NDArray[Any]] = {"position": points.astype(np.float32), "edge_length": length}
    if labels:
        extras["ecc16"] = hop_eccentricity(streets, length, num_nodes)
    # the split rule of the public street networks, whose only split is the one of seed 0
    splits = [permuted_split(np.arange(num_nodes), num_nodes, (10, 10), i) for i in range(NUM_SPLITS)]
    return Graph(
        name="streets",
        edge_index=streets,
        num_nodes=num_nodes,
        x=street_features(points, streets, length, street_kinds(points, streets, kind_rng)),
        y=eccentricity_labels(extras["ecc16"]) if labels else None,
        masks={"default": Masks.from_splits(splits)},
        edge_attr=length[:, None].copy(),
        feature_names=FEATURES,
        extras=extras,
    )


def jittered_grid(num_points: int, rng: np.random.Generator) -> FloatArray:
    """Points [M, 2] in units of blocks: a random one in each of the first M cells of a square grid."""
    side = int(np.ceil(np.sqrt(num_points)))
    cells = np.stack(np.divmod(np.arange(num_points), side), axis=1)
    return cells + rng.uniform(MARGIN, 1.0 - MARGIN, size=cells.shape)


def triangulate(points: FloatArray) -> IntArray:
    """The edges [2, E] of the Delaunay triangulation, each once with u < v, sorted."""
    corners = spatial.Delaunay(points).simplices.astype(np.int64)
    pairs = np.stack([corners.ravel(), np.roll(corners, 1, axis=1).ravel()])
    return merge_edges(pairs, len(points)).edge_index


def thin_out(edges: IntArray, points: FloatArray, num_kept: int, rng: np.random.Generator) -> IntArray:
    """The minimum spanning tree and then the cheapest other edges, `num_kept` in all."""
    if num_kept > edges.shape[1]:
        raise ConfigError(
            f"the triangulation of {len(points)} junctions has {edges.shape[1]} streets; the arguments "
            f"ask for {num_kept}. Lower mean_degree or bends."
        )
    order = np.argsort(lengths(points, edges) * rng.uniform(1.0, COST_SPREAD, size=edges.shape[1]))
    rank = np.empty(order.size)
    rank[order] = np.arange(1, order.size + 1)  # a zero would be no edge
    tree = csgraph.minimum_spanning_tree(sparse.csr_matrix((rank, edges), shape=(len(points),) * 2))
    rank[order[tree.data.astype(np.int64) - 1]] = 0.0
    return edges[:, np.sort(np.argsort(rank, kind="stable")[:num_kept])]


def add_bends(
    points: FloatArray, streets: IntArray, num_bends: int, rng: np.random.Generator
) -> tuple[FloatArray, IntArray]:
    """Points and streets after cutting `num_bends` random streets in the middle."""
    cut = rng.permutation(streets.shape[1])[:num_bends]
    source, target = streets[:, cut]
    bend = len(points) + np.arange(num_bends)
    halves = [np.delete(streets, cut, axis=1), np.stack([source, bend]), np.stack([target, bend])]
    return np.concatenate([points, (points[source] + points[target]) / 2]), np.concatenate(halves, axis=1)


def stretch(cells: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Points [N, 2] in metres from points in blocks, whose widths vary smoothly along both axes."""
    side = int(np.ceil(cells.max()))
    noise = ndimage.gaussian_filter1d(rng.standard_normal((2, side)), QUARTER)
    noise = (noise - noise.mean(axis=1, keepdims=True)) / noise.std(axis=1, keepdims=True)
    borders = np.cumsum(SPACING * np.exp(CONTRAST * noise), axis=1)
    grid = np.arange(side + 1)
    axes = zip(cells.T, np.pad(borders, ((0, 0), (1, 0))), strict=True)
    return np.column_stack([np.interp(coordinate, grid, border) for coordinate, border in axes])


def lengths(points: FloatArray, streets: IntArray) -> FloatArray:
    """Euclidean length [E] of every street."""
    distance: FloatArray = np.linalg.norm(points[streets[0]] - points[streets[1]], axis=1)
    return distance


def street_kinds(points: FloatArray, streets: IntArray, rng: np.random.Generator) -> IntArray:
    """Kind [E] of every street: that of the district whose centre is nearest to its middle."""
    num_districts = max(1, len(points) // DISTRICT)
    centres = rng.uniform(points.min(axis=0), points.max(axis=0), size=(num_districts, 2))
    _, district = spatial.cKDTree(centres).query(points[streets].mean(axis=0))
    return rng.integers(len(KINDS), size=num_districts)[district]


def street_features(
    points: FloatArray, streets: IntArray, length: NDArray[np.float32], kinds: IntArray
) -> NDArray[np.float32]:
    """Features [N, 13]: position, number of streets, and their mean length and kinds."""
    count = np.bincount(streets.ravel(), minlength=len(points))
    edge = np.tile(np.arange(length.size), 2)
    incidence = sparse.csr_matrix((np.ones(edge.size, np.float32), (streets.ravel(), edge)))
    street_columns = np.column_stack([length / SPACING, np.eye(len(KINDS), dtype=np.float32)[kinds]])
    middle = (points.max(axis=0) + points.min(axis=0)) / 2
    position = (points - middle) / np.ptp(points, axis=0).max() * 2  # in [-1, 1], both axes alike
    return np.column_stack([position, count, incidence @ street_columns / count[:, None]]).astype(np.float32)


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
    edges, metres = np.asarray(edge_index), np.asarray(length)
    _check_roads(edges, metres, num_nodes)
    roads = _symmetric_lengths(edges.astype(np.int64), metres.astype(np.float64), num_nodes)
    step = roads.astype(np.bool_)
    step.data[:] = True  # a road of length zero is a step too
    step = step + sparse.eye(num_nodes, dtype=np.bool_, format="csr")
    eccentricity = np.empty(num_nodes)
    for first in range(0, num_nodes, CHUNK):
        nodes = np.arange(first, min(first + CHUNK, num_nodes))
        reach = step[nodes]
        for _ in range(hops - 1):
            reach = reach @ step
        reach.sort_indices()
        balls = np.split(reach.indices, reach.indptr[1:-1])  # per node, all nodes within `hops` edges
        for node, ball in zip(nodes, balls, strict=True):
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


def _symmetric_lengths(edge_index: IntArray, length: FloatArray, num_nodes: int) -> Any:
    """Lengths of both directions as a CSR matrix; zero lengths stay, parallel edges stay apart."""
    source, target = np.concatenate([edge_index, edge_index[::-1]], axis=1)
    order = np.argsort(source, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=num_nodes))])
    return sparse.csr_matrix((np.tile(length, 2)[order], target[order], start), shape=(num_nodes,) * 2)


def _check_roads(edge_index: NDArray[Any], length: NDArray[Any], num_nodes: int) -> None:
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
