"""Hop eccentricity against brute force, and its classes against the public street networks."""

import os
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polynsd.data.generators.eccentricity import eccentricity_labels, hop_eccentricity
from polynsd.errors import ConfigError, GraphError


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


def test_bad_counts_raise_one_clear_error():
    with pytest.raises(ConfigError, match="hops must be an integer of at least 1"):
        hop_eccentricity([[0], [1]], [1.0], 2, hops=0)
    with pytest.raises(ConfigError, match="classes must be an integer of at least 1"):
        eccentricity_labels([1.0], 0)


@pytest.mark.data
@pytest.mark.skipif("POLYNSD_DATA" not in os.environ, reason="POLYNSD_DATA is not set")
def test_public_street_network_has_these_labels():
    city = np.load(Path(os.environ["POLYNSD_DATA"]) / "huangpu.npz", allow_pickle=False)
    ecc = hop_eccentricity(city["edge_index"], city["edge_length"], city["y"].size)
    np.testing.assert_array_equal(ecc.astype(np.float32), city["ecc16_undirected"])
    np.testing.assert_array_equal(eccentricity_labels(ecc), city["y"])
