"""Measures of agreement against hand-computed graphs and NetworkX."""

import csv
import math
import os
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polynsd.data import load_graph
from polynsd.data.describe import class_mixing, describe_graph
from polynsd.data.graph import Graph


def graph(edges, y, num_nodes=None):
    edge_index = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    return Graph("toy", edge_index, num_nodes or len(y), y=np.array(y))


def test_path_of_three_by_hand():
    # 0 - 1 - 2 with classes a, a, b: one of two edges joins equals
    facts = describe_graph(graph([(0, 1), (1, 2)], [0, 0, 1]))
    assert facts.edge_homophily == 0.5
    assert facts.node_homophily == pytest.approx((1 + 0.5 + 0) / 3)
    # degree shares: a 3/4, b 1/4
    expected = (3 / 4) ** 2 + (1 / 4) ** 2
    assert facts.adjusted_homophily == pytest.approx((0.5 - expected) / (1 - expected))
    joint = -(0.5 * math.log(0.5) + 2 * 0.25 * math.log(0.25))
    marginal = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert facts.label_informativeness == pytest.approx(2 - joint / marginal)


def test_perfect_agreement_and_perfect_disagreement():
    agree = describe_graph(graph([(0, 1), (2, 3)], [0, 0, 1, 1]))
    assert (agree.edge_homophily, agree.adjusted_homophily) == (1, 1)
    assert agree.label_informativeness == pytest.approx(1)
    differ = describe_graph(graph([(0, 2), (1, 3)], [0, 0, 1, 1]))
    assert (differ.edge_homophily, differ.node_homophily, differ.adjusted_homophily) == (0, 0, -1)
    assert differ.label_informativeness == pytest.approx(1)  # a neighbour tells the label exactly


def test_edges_that_ignore_the_classes():
    y = [0, 1] * 4
    complete_bipartite = [(i, j) for i in range(4) for j in range(4, 8)]
    facts = describe_graph(graph(complete_bipartite, y))
    assert facts.adjusted_homophily == pytest.approx(0)
    assert facts.label_informativeness == pytest.approx(0)


def test_unlabelled_nodes_do_not_count():
    with_gap = describe_graph(graph([(0, 1), (1, 2), (2, 3)], [0, 0, 1, -1]))
    without = describe_graph(graph([(0, 1), (1, 2)], [0, 0, 1]))
    assert with_gap.unlabelled == 1
    assert with_gap.edge_homophily == without.edge_homophily
    assert with_gap.node_homophily == without.node_homophily


def test_targets_that_are_missing():
    targets = np.array([[1, 2], [np.nan, 2], [np.nan, np.nan]], dtype=np.float32)
    assert describe_graph(graph([(0, 1)], targets)).unlabelled == 2
    assert describe_graph(graph([(0, 1)], targets[:, 1])).unlabelled == 1


def test_nothing_to_measure():
    facts = describe_graph(Graph("bare", np.empty((2, 0), dtype=np.int64), 3))
    assert (facts.isolated, facts.components, facts.largest_component, facts.max_degree) == (3, 3, 1, 0)
    assert all(
        math.isnan(v) for v in (facts.edge_homophily, facts.node_homophily, facts.label_informativeness)
    )
    assert math.isnan(describe_graph(graph([(0, 1)], [0, 0])).adjusted_homophily)


@given(st.integers(1, 25), st.integers(0, 60), st.integers(0, 1000))
def test_degrees_components_and_assortativity_agree_with_networkx(num_nodes, num_edges, seed):
    num_edges = min(num_edges, num_nodes * (num_nodes - 1) // 2)
    reference = nx.gnm_random_graph(num_nodes, num_edges, seed=seed)
    y = np.random.default_rng(seed).integers(0, 3, num_nodes)
    ours = graph([tuple(sorted(e)) for e in reference.edges], y, num_nodes)
    facts = describe_graph(ours)
    components = list(nx.connected_components(reference))
    assert (facts.components, facts.largest_component) == (len(components), max(map(len, components)))
    assert facts.max_degree == max(d for _, d in reference.degree)
    assert facts.isolated == nx.number_of_isolates(reference)
    if num_edges and len(set(y[ours.edge_index].ravel())) > 1:
        nx.set_node_attributes(reference, dict(enumerate(y.tolist())), "y")
        # NetworkX calls adjusted homophily the attribute assortativity coefficient
        assert facts.adjusted_homophily == pytest.approx(
            nx.attribute_assortativity_coefficient(reference, "y")
        )
        assert class_mixing(ours).sum() == pytest.approx(1)


@pytest.mark.data
@pytest.mark.skipif("POLYNSD_DATA" not in os.environ, reason="POLYNSD_DATA is not set")
def test_every_archive_has_the_facts_of_its_manifest():
    folder = Path(os.environ["POLYNSD_DATA"])
    with (folder / "MANIFEST.csv").open(encoding="utf-8") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    # the manifest counts citeseer's 15 unlabelled nodes as class 0
    homophily = {"citeseer": 0.7377}
    # ditto, and facebook's unlabelled nodes as a class of their own
    adjusted = {"citeseer": 0.6731, "fb100_cornell5": 0.0907}
    for name in rows:
        row, facts = rows[name], describe_graph(load_graph(folder / f"{name}.npz"))
        assert (facts.nodes, facts.edges) == (int(row["nodes"]), int(row["edges"])), name
        assert (len(facts.class_sizes), facts.components) == (int(row["classes"]), int(row["components"])), (
            name
        )
        assert facts.edge_homophily == pytest.approx(
            homophily.get(name, float(row["edge_homophily"])), abs=1e-4
        ), name
        assert facts.adjusted_homophily == pytest.approx(
            adjusted.get(name, float(row["adjusted_homophily"])), abs=1e-4
        ), name
