"""Numbers of the structure: what NetworkX computes, the same in any order and beside any other component."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from toy import QUICK

from polynsd import DataError
from polynsd.cli import main
from polynsd.data import Graph
from polynsd.estimator import SheafClassifier, load_estimator, structure
from polynsd.estimator.structure import COLUMNS, describe_structure
from polynsd.estimator.trees import TreesCandidate


def adjacency(graph: nx.Graph) -> sparse.csr_array:
    return sparse.csr_array(nx.to_scipy_sparse_array(graph, format="csr", dtype=float))


@given(st.integers(1, 40), st.floats(0, 0.6), st.integers(0, 9), st.sampled_from([20, 2**24]))
def test_the_numbers_are_those_of_networkx(num_nodes, density, seed, block):
    graph = nx.gnp_random_graph(num_nodes, density, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structure, "BLOCK", block)  # triangles in many blocks of rows and in one
        degree, rank, h_index, clustering = describe_structure(7.0 * adjacency(graph)).T
    np.testing.assert_allclose(np.expm1(degree), [d for _, d in graph.degree()])
    np.testing.assert_allclose(clustering, list(nx.clustering(graph).values()), atol=1e-12)
    around = [sorted((graph.degree(u) for u in graph[v]), reverse=True) for v in graph]
    h = [sum(d >= place for place, d in enumerate(degrees, 1)) for degrees in around]
    np.testing.assert_allclose(np.expm1(h_index), h)
    if min(d for _, d in graph.degree()):  # NetworkX lets isolated nodes jump anywhere
        expected = np.array(list(nx.pagerank(graph, tol=1e-9, max_iter=1000).values()))
        np.testing.assert_allclose(np.exp(rank), num_nodes * expected, rtol=0.02)


@given(st.integers(0, 99))
def test_they_depend_on_the_component_alone(seed):
    first, second = nx.gnp_random_graph(20, 0.2, seed=seed), nx.gnp_random_graph(9, 0.4, seed=seed)
    order = np.random.default_rng(seed).permutation(29)
    both = adjacency(nx.disjoint_union(first, second))[order][:, order]
    alone = np.concatenate([describe_structure(adjacency(graph)) for graph in (first, second)])
    np.testing.assert_allclose(describe_structure(both), alone[order], atol=1e-12)


def test_a_graph_without_features_is_learned_from_its_edges(tmp_path, caplog):
    """Hubs of stars against nodes of triangles: their places tell them apart, on another graph too."""

    def make(count):
        parts = [nx.star_graph(5) if i % 2 else nx.complete_graph(3) for i in range(count)]
        graph = nx.disjoint_union_all(parts)
        edges = np.array(graph.edges).T
        label = np.array([nx.clustering(graph, v) > 0 for v in graph], dtype=np.int64)
        return Graph("bare", edges, len(graph), y=label)

    trees = [TreesCandidate("trees", "trees", 2)]
    model = SheafClassifier(**QUICK).fit(make(40), candidates=trees)
    assert "bare has no features of nodes; log degree, log PageRank" in caplog.text
    assert tuple(model.feature_names_in_) == COLUMNS
    other = make(12)
    assert (model.predict(other) == other.y).all()
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        load_estimator(tmp_path / "model").predict_proba(other), model.predict_proba(other)
    )
    named = nx.disjoint_union(nx.star_graph(9), nx.complete_graph(9))
    kinds = {v: "hub" if v < 10 else "clique" for v in named}
    nx.set_node_attributes(named, kinds, "kind")
    found = SheafClassifier(**QUICK).fit(named, "kind", candidates=trees)
    assert found.predict(named).tolist() == list(kinds.values())
    with pytest.raises(DataError, match="features or edges; 'empty' has neither"):
        SheafClassifier(**QUICK).fit(Graph("empty", np.empty((2, 0), int), 9, y=np.arange(9) % 2))


def test_tables_of_ids_and_labels_are_enough(tmp_path, monkeypatch, caplog):
    """`polynsd fit` and `predict` where nodes have nothing but an id and perhaps a label."""
    monkeypatch.chdir(tmp_path)
    graph = nx.disjoint_union_all([nx.star_graph(4) if i % 2 else nx.complete_graph(4) for i in range(20)])
    kinds = ["" if v % 3 == 0 else "clique" if nx.clustering(graph, v) else "star" for v in graph]
    pd.DataFrame(list(graph.edges), columns=["a", "b"]).to_csv("edges.csv", index=False)
    pd.DataFrame({"id": list(graph), "kind": kinds}).to_csv("nodes.csv", index=False)
    main(["fit", "edges.csv", "nodes.csv", "--label", "kind", "--out", "run", "--budget", "0.01", "--quiet"])
    assert caplog.text.count("edges has no features of nodes; log degree") == 1
    main(["predict", "run", "--out", "predictions.csv"])
    found = pd.read_csv("predictions.csv")["prediction"]
    assert ((found == "clique") == [nx.clustering(graph, v) > 0 for v in graph]).all()
