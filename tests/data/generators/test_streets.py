"""Laws of the street networks: planar, connected, exact counts, labels by eccentricity."""

import os
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from polynsd.data import eccentricity_labels, get_splits, hop_eccentricity, street_graph
from polynsd.data.generators.streets import FEATURES, jittered_grid, triangulate
from polynsd.errors import ConfigError, GraphError


@pytest.fixture(scope="module")
def town():
    return street_graph(2000, bends=0.1)


def as_networkx(graph):
    network = nx.Graph(graph.edge_index.T.tolist())
    network.add_nodes_from(range(graph.num_nodes))
    return network


@settings(max_examples=30, deadline=None)
@example(20, 2.8, 0.0, 0)
@example(20, 2.0, 0.5, 0)
@given(st.integers(40, 200), st.floats(2.0, 3.2), st.floats(0.0, 0.3), st.integers(0, 100))
def test_streets_are_planar_connected_and_counted(num_nodes, mean_degree, bends, seed):
    graph = street_graph(num_nodes, mean_degree, bends, labels=False, seed=seed)
    network = as_networkx(graph)
    assert network.number_of_nodes() == num_nodes
    assert network.number_of_edges() == graph.num_edges == round(num_nodes * mean_degree / 2)
    assert (graph.edge_index[0] < graph.edge_index[1]).all()
    assert nx.is_connected(network)
    assert nx.is_planar(network)


def test_a_triangulation_is_maximal():
    points = jittered_grid(300, np.random.default_rng(0))
    edges = triangulate(points)
    hull = 3 * 300 - 3 - edges.shape[1]  # Euler: E = 3N - 3 - hull
    assert 3 <= hull <= 300
    assert nx.is_planar(nx.Graph(edges.T.tolist()))


def test_degrees_are_those_of_streets(town):
    degree = np.bincount(town.edge_index.ravel())
    assert degree.mean() == 2.8
    assert degree.min() == 1
    assert degree.max() <= 9
    assert np.isin(degree, [1, 2, 3, 4]).mean() > 0.9


def test_lengths_are_distances_and_bends_join_two_streets(town):
    position, (source, target) = town.extras["position"], town.edge_index
    distance = np.linalg.norm(position[source] - position[target], axis=1)
    np.testing.assert_allclose(town.extras["edge_length"], distance, rtol=1e-3)
    assert town.edge_attr.dtype == np.float32
    assert town.edge_attr.tolist() == town.extras["edge_length"][:, None].tolist()
    assert town.edge_weight is None
    bends = np.bincount(town.edge_index.ravel())[-200:]
    np.testing.assert_array_equal(bends, 2)


def test_labels_are_deciles_of_the_eccentricity(town):
    ecc = hop_eccentricity(town.edge_index, town.extras["edge_length"], town.num_nodes)
    np.testing.assert_array_equal(town.extras["ecc16"], ecc)
    np.testing.assert_array_equal(town.y, eccentricity_labels(ecc))
    np.testing.assert_array_equal(np.bincount(town.y), [201] * 9 + [191])


def test_features_describe_a_node_and_its_streets(town):
    assert town.feature_names == FEATURES
    assert town.x.shape == (2000, len(FEATURES))
    assert town.x.dtype == np.float32
    assert np.abs(town.x[:, :2]).max() <= 1.0
    network = as_networkx(town)
    for node in range(0, 2000, 97):
        assert town.x[node, 2] == network.degree[node]
        incident = town.extras["edge_length"][(town.edge_index == node).any(axis=0)]
        assert town.x[node, 3] == pytest.approx(incident.mean() / 100.0, rel=1e-5)
    np.testing.assert_allclose(town.x[:, 4:].sum(axis=1), 1.0, rtol=1e-5)


def test_kinds_of_streets_are_coherent(town):
    """Most nodes lie inside a district, all streets of which are of one kind."""
    assert (town.x[:, 4:].max(axis=1) == 1.0).mean() > 0.5
    assert (town.x[:, 4:].max(axis=0) > 0.0).sum() >= 6


def test_splits_follow_the_city_rule(town):
    masks = town.masks["default"]
    order = np.random.RandomState(7).permutation(2000)
    np.testing.assert_array_equal(np.flatnonzero(masks.train[7]), np.sort(order[:200]))
    np.testing.assert_array_equal(np.flatnonzero(masks.val[7]), np.sort(order[200:400]))
    np.testing.assert_array_equal(np.flatnonzero(masks.test[7]), np.sort(order[400:]))
    assert len(masks) == 10


def test_the_splits_are_those_of_the_protocol(town):
    masks = town.masks["default"]
    assert get_splits(town, "city-10-10-80") == [masks.split(index) for index in range(10)]


def test_split_sizes_are_rounded_down():
    masks = street_graph(109, labels=False).masks["default"]
    assert [set(part.sum(axis=1)) for part in (masks.train, masks.val, masks.test)] == [{10}, {10}, {89}]


def test_graphs_are_determined_by_their_arguments(town):
    again, other = (street_graph(2000, bends=0.1, labels=False, seed=seed) for seed in (0, 1))
    np.testing.assert_array_equal(town.edge_index, again.edge_index)
    np.testing.assert_array_equal(town.x, again.x)
    assert not np.array_equal(town.x, other.x)


def test_without_labels_only_they_are_missing(town):
    bare = street_graph(200, labels=False)
    assert bare.y is None
    assert set(bare.extras) == set(town.extras) - {"ecc16"}
    assert len(bare.masks["default"]) == 10


def test_more_streets_are_added_to_fewer():
    few, many = (
        set(map(tuple, street_graph(500, degree, labels=False).edge_index.T.tolist()))
        for degree in (2.4, 3.2)
    )
    assert few < many


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        ({"num_nodes": 19}, "num_nodes must be an integer of at least 20"),
        ({"mean_degree": 1.5}, r"mean degree in \[2, 6\); got mean_degree=1.5"),
        ({"mean_degree": 6.0}, "mean_degree=6.0"),
        ({"num_nodes": 20, "mean_degree": 5.9}, "Lower mean_degree"),
        ({"bends": 0.6}, r"bends must lie in \[0, 0.5\]; got 0.6"),
        ({"seed": -1}, "seed must be an integer"),
    ],
)
def test_bad_arguments_raise_one_clear_error(arguments, fragment):
    with pytest.raises(ConfigError, match=fragment):
        street_graph(**{"num_nodes": 100, **arguments})


def by_brute_force(edges, length, num_nodes, hops):
    graph = nx.Graph()
    graph.add_nodes_from(range(num_nodes))
    for (u, v), meters in zip(edges, length, strict=True):
        shorter = min(meters, graph.edges[u, v]["length"]) if graph.has_edge(u, v) else meters
        graph.add_edge(u, v, length=shorter)
    balls = [graph.subgraph(nx.single_source_shortest_path_length(graph, v, hops)) for v in range(num_nodes)]
    return [
        max(nx.single_source_dijkstra_path_length(ball, v, weight="length").values())
        for v, ball in enumerate(balls)
    ]


@st.composite
def roads(draw):
    """Sparse graphs, with isolated nodes, loops, parallel edges and roads of length zero."""
    num_nodes = draw(st.integers(1, 14))
    node = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=2 * num_nodes))
    length = draw(st.lists(st.integers(0, 9), min_size=len(edges), max_size=len(edges)))
    return num_nodes, edges, length


@settings(max_examples=60, deadline=None)
@given(roads(), st.integers(1, 5))
def test_equals_dijkstra_inside_the_induced_subgraph(graph, hops):
    num_nodes, edges, length = graph
    ours = hop_eccentricity(np.array(edges, dtype=int).reshape(-1, 2).T, length, num_nodes, hops)
    np.testing.assert_array_equal(ours, by_brute_force(edges, length, num_nodes, hops))


def test_a_shortcut_outside_the_neighbourhood_does_not_count():
    # 0 and 1 are joined by a road of 10 and by a way round of 4 short roads.
    edges = np.array([[0, 1], [0, 2], [2, 3], [3, 4], [4, 1]]).T
    length = [10.0, 1.0, 1.0, 1.0, 1.0]
    assert hop_eccentricity(edges, length, 5, hops=1)[0] == 10.0
    assert hop_eccentricity(edges, length, 5, hops=2)[0] == 4.0


def test_a_path_sees_hops_edges_to_its_longer_side():
    length = np.arange(1.0, 200.0)
    path = np.stack([np.arange(199), np.arange(1, 200)])
    ecc = hop_eccentricity(path, length, 200, hops=3)
    assert ecc[100] == length[100] + length[101] + length[102]
    assert ecc[199] == length[-3:].sum()


@pytest.mark.parametrize(("num_nodes", "classes"), [(1, 1), (7, 3), (30, 10), (103, 10), (5, 10)])
def test_labels_are_chunks_of_the_ranking(num_nodes, classes):
    ecc = np.random.default_rng(0).permutation(num_nodes).astype(float)
    labels = eccentricity_labels(ecc, classes)
    chunk = num_nodes // classes + 1
    np.testing.assert_array_equal(labels[np.argsort(ecc)], np.arange(num_nodes) // chunk)
    assert labels.max() < classes
    assert (np.bincount(labels)[:-1] == chunk).all()


def test_ties_are_broken_by_node_number():
    np.testing.assert_array_equal(eccentricity_labels(np.zeros(9), 3), [0, 0, 0, 0, 1, 1, 1, 1, 2])


@pytest.mark.parametrize(
    ("edges", "length", "fragment"),
    [
        ([[0, 1], [1, 2]], [1.0], "one length per edge"),
        ([0, 1], [1.0], "one length per edge"),
        ([[0], [3]], [1.0], r"must lie in 0\.\.2; got 0\.\.3"),
        ([[0], [1]], [-1.0], "not negative"),
        ([[0], [1]], [np.nan], "finite"),
    ],
)
def test_bad_roads_raise_one_clear_error(edges, length, fragment):
    with pytest.raises(GraphError, match=fragment):
        hop_eccentricity(edges, length, 3)


def test_bad_counts_of_hops_and_classes():
    with pytest.raises(ConfigError, match="hops must be an integer of at least 1"):
        hop_eccentricity([[0], [1]], [1.0], 2, hops=0)
    with pytest.raises(ConfigError, match="classes must be an integer of at least 1"):
        eccentricity_labels([1.0], 0)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif("POLYNSD_DATA" not in os.environ, reason="POLYNSD_DATA is not set")
def test_public_street_network_has_these_labels():
    city = np.load(Path(os.environ["POLYNSD_DATA"]) / "huangpu.npz", allow_pickle=False)
    ecc = hop_eccentricity(city["edge_index"], city["edge_length"], city["y"].size)
    np.testing.assert_array_equal(ecc.astype(np.float32), city["ecc16_undirected"])
    np.testing.assert_array_equal(eccentricity_labels(ecc), city["y"])
