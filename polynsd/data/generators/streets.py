"""Planar street networks of any size, labelled by how far a node sees within 16 hops.

Junctions lie on a jittered grid; of their Delaunay triangulation a random spanning tree is kept and
then the cheapest other edges, up to the requested mean degree. Stretching the plane along both axes
makes quarters of wide and of narrow blocks. The classes are deciles of `hop_eccentricity`: features
describe a node and its own streets, the class depends on hundreds of nodes around it. These streets
are straight and meet no rivers or walls: do not set numbers on them beside published ones, use the
public networks for that.

Lengths are in metres; the columns of `x` are scaled to order one.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, sparse, spatial
from scipy.sparse import csgraph

from polynsd.data.generators.eccentricity import eccentricity_labels, hop_eccentricity
from polynsd.data.generators.synthetic import FloatArray, IntArray, named_streams, undirected_edge_index
from polynsd.data.graph import Graph, Masks
from polynsd.errors import ConfigError, require_at_least

SPACING = 100.0  # metres, the geometric mean of the widths of all blocks
QUARTER = 4.0  # blocks over which these widths are alike
CONTRAST = 0.5  # standard deviation of their logarithm
MARGIN = 0.1  # blocks between a junction and the border of its cell, so that junctions stay apart
LUCK = 3.0  # a street costs its length times a random factor between 1 and this
DISTRICT = 50  # nodes per district; the streets of a district are of one kind
KINDS = (*map(str, range(8)), "other")
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
    _require_arguments(num_nodes, mean_degree, bends, seed)
    streams = named_streams(Streams, seed)
    num_bends = int(bends * num_nodes)
    num_streets = round(num_nodes * mean_degree / 2) - num_bends  # a bend makes one street into two
    junctions = jittered_grid(num_nodes - num_bends, streams.places)
    network = thinned(triangulated(junctions), junctions, num_streets, streams.edges)
    places, streets = with_bends(junctions, network, num_bends, streams.bends)
    points = stretched(places, streams.widths)
    length = lengths(points, streets).astype(np.float32)
    extras: dict[str, NDArray[Any]] = {"position": points.astype(np.float32), "edge_length": length}
    if labels:
        extras["ecc16"] = hop_eccentricity(streets, length, num_nodes)
    return Graph(
        name="streets",
        edge_index=streets,
        num_nodes=num_nodes,
        x=street_features(points, streets, length, street_kinds(points, streets, streams.kinds)),
        y=eccentricity_labels(extras["ecc16"]) if labels else None,
        masks={"default": city_masks(num_nodes)},
        edge_attr=length[:, None].copy(),
        feature_names=FEATURES,
        extras=extras,
    )


class Streams(NamedTuple):
    """One independent random generator per component of the graph."""

    places: np.random.Generator
    edges: np.random.Generator
    bends: np.random.Generator
    widths: np.random.Generator
    kinds: np.random.Generator


def city_masks(num_nodes: int, num_splits: int = 10) -> Masks:
    """The split rule of the public street networks: ⌊N/10⌋ train, ⌊N/10⌋ validation, rest test.

    Split i cuts the permutation of NumPy's legacy generator with seed i; the public one has i = 0.
    """
    require_at_least("num_nodes", num_nodes, 10)
    tenth = num_nodes // 10
    part_of = np.full((num_splits, num_nodes), 2, dtype=np.int8)
    for i, row in enumerate(part_of):
        order = np.random.RandomState(i).permutation(num_nodes)
        row[order[:tenth]] = 0
        row[order[tenth : 2 * tenth]] = 1
    return Masks(*(part_of == part for part in range(3)))


def jittered_grid(num_points: int, rng: np.random.Generator) -> FloatArray:
    """Places [M, 2] in blocks: a random one in each of the first M cells of a square grid."""
    side = int(np.ceil(np.sqrt(num_points)))
    cells = np.stack(np.divmod(np.arange(num_points), side), axis=1)
    return cells + rng.uniform(MARGIN, 1.0 - MARGIN, size=cells.shape)


def triangulated(points: FloatArray) -> IntArray:
    """The edges [2, E] of the Delaunay triangulation, each once with u < v, sorted."""
    corners = spatial.Delaunay(points).simplices.astype(np.int64)
    both = undirected_edge_index(corners.ravel(), np.roll(corners, 1, axis=1).ravel(), len(points))
    return both[:, both[0] < both[1]]


def thinned(edges: IntArray, points: FloatArray, num_kept: int, rng: np.random.Generator) -> IntArray:
    """The minimum spanning tree and then the cheapest other edges, `num_kept` in all."""
    if num_kept > edges.shape[1]:
        raise ConfigError(
            f"the triangulation of {len(points)} junctions has {edges.shape[1]} streets; the arguments "
            f"ask for {num_kept}. Lower mean_degree or bends."
        )
    order = np.argsort(lengths(points, edges) * rng.uniform(1.0, LUCK, size=edges.shape[1]))
    rank = np.empty(order.size)
    rank[order] = np.arange(1, order.size + 1)  # a zero would be no edge
    tree = csgraph.minimum_spanning_tree(sparse.csr_matrix((rank, edges), shape=(len(points),) * 2))
    rank[order[tree.data.astype(np.int64) - 1]] = 0.0
    return edges[:, np.sort(np.argsort(rank, kind="stable")[:num_kept])]


def with_bends(
    points: FloatArray, streets: IntArray, num_bends: int, rng: np.random.Generator
) -> tuple[FloatArray, IntArray]:
    """Points and streets after cutting `num_bends` random streets in the middle."""
    cut = rng.permutation(streets.shape[1])[:num_bends]
    source, target = streets[:, cut]
    bend = len(points) + np.arange(num_bends)
    halves = [np.delete(streets, cut, axis=1), np.stack([source, bend]), np.stack([target, bend])]
    return np.concatenate([points, (points[source] + points[target]) / 2]), np.concatenate(halves, axis=1)


def stretched(places: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Points [N, 2] in metres from places in blocks, whose widths vary smoothly along both axes."""
    side = int(np.ceil(places.max()))
    noise = ndimage.gaussian_filter1d(rng.standard_normal((2, side)), QUARTER)
    noise = (noise - noise.mean(axis=1, keepdims=True)) / noise.std(axis=1, keepdims=True)
    borders = np.cumsum(SPACING * np.exp(CONTRAST * noise), axis=1)
    grid = np.arange(side + 1)
    axes = zip(places.T, np.pad(borders, ((0, 0), (1, 0))), strict=True)
    return np.column_stack([np.interp(place, grid, border) for place, border in axes])


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
    """Features [N, 13]: place, number of streets, and their mean length and kinds."""
    count = np.bincount(streets.ravel(), minlength=len(points))
    edge = np.tile(np.arange(length.size), 2)
    incidence = sparse.csr_matrix((np.ones(edge.size, np.float32), (streets.ravel(), edge)))
    described = np.column_stack([length / SPACING, np.eye(len(KINDS), dtype=np.float32)[kinds]])
    middle = (points.max(axis=0) + points.min(axis=0)) / 2
    place = (points - middle) / np.ptp(points, axis=0).max() * 2  # in [-1, 1], both axes alike
    return np.column_stack([place, count, incidence @ described / count[:, None]]).astype(np.float32)


def _require_arguments(num_nodes: int, mean_degree: float, bends: float, seed: int) -> None:
    require_at_least("num_nodes", num_nodes, 20)
    require_at_least("seed", seed, 0)
    if not 2.0 <= mean_degree < 6.0:
        raise ConfigError(
            f"a connected planar graph has a mean degree in [2, 6); got mean_degree={mean_degree!r}."
        )
    if not 0.0 <= bends <= 0.5:
        raise ConfigError(f"every street bends at most once: bends must lie in [0, 0.5]; got {bends!r}.")
