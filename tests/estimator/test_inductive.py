"""`predict` on other graphs: what a node gets depends on its features and its component, nothing else."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse
from torch_geometric.data import Data
from toy import classifier, regressor, toy_graph

from polynsd import DataError, ShapeError
from polynsd.data import Graph


def permuted(graph, order):
    place = np.argsort(order)
    edges = np.sort(place[graph.edge_index], axis=0)
    return replace(graph, edge_index=edges, x=graph.x[order], y=graph.y[order])


def beside(first, second):
    edges = np.concatenate([first.edge_index, second.edge_index + first.num_nodes], 1)
    return Graph("both", edges, first.num_nodes + second.num_nodes, x=np.concatenate([first.x, second.x]))


@pytest.fixture(scope="module", params=["identity", "diagonal", "orthogonal", "general"])
def model(request):
    return classifier(maps=request.param, epochs=3).fit(toy_graph())


def test_permuting_the_nodes_permutes_the_predictions(model):
    graph = toy_graph(25, seed=5)
    order = np.random.default_rng(0).permutation(25)
    np.testing.assert_allclose(
        model.predict_proba(permuted(graph, order)), model.predict_proba(graph)[order], atol=1e-12
    )


def test_a_component_alone_is_predicted_as_in_the_whole_graph(model):
    parts = toy_graph(12, seed=1), toy_graph(30, seed=2)
    whole = model.predict_proba(beside(*parts))
    alone = np.concatenate([model.predict_proba(part) for part in parts])
    np.testing.assert_allclose(whole, alone, atol=1e-12)


def test_isolated_nodes_and_graphs_without_edges_are_predicted(model):
    graph = toy_graph(20, seed=3)
    bare = replace(graph, edge_index=np.empty((2, 0), dtype=np.int64))
    table = model.predict_proba(graph.x)
    np.testing.assert_allclose(model.predict_proba(bare), table, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(beside(graph, bare))[20:], table, atol=1e-12)
    assert model.predict(graph.x[:1]).shape == (1,)


def test_edges_change_predictions(model):
    graph = toy_graph(20, seed=3)
    assert np.abs(model.predict_proba(graph) - model.predict_proba(graph.x)).max() > 1e-6


def test_every_way_to_give_edges_means_the_same(model):
    graph = toy_graph(20, seed=3)
    u, v = graph.edge_index
    adjacency = sparse.coo_matrix((np.ones(u.size), (u, v)), shape=(20, 20))
    expected = model.predict_proba(graph)
    for edges in (graph.edge_index, torch.from_numpy(graph.edge_index), adjacency + adjacency.T):
        np.testing.assert_allclose(model.predict_proba((graph.x, edges)), expected, atol=1e-12)
        np.testing.assert_allclose(model.predict_proba(graph.x, edges=edges), expected, atol=1e-12)


def test_features_are_found_by_name():
    graph = replace(toy_graph(), feature_names=("a", "b", "c"))
    model = classifier(epochs=2).fit(graph)
    mixed = replace(graph, x=graph.x[:, [2, 0, 1]], feature_names=("c", "a", "b"))
    np.testing.assert_allclose(model.predict_proba(mixed), model.predict_proba(graph), atol=1e-12)
    with pytest.raises(DataError, match="missing: c; unknown: d"):
        model.predict(replace(graph, feature_names=("a", "b", "d")))
    with pytest.raises(ShapeError, match="expecting 3 features"):
        model.predict(replace(graph, x=graph.x[:, :2], feature_names=None))


def test_edge_weights_and_edge_features_are_learned_from_and_asked_for():
    graph = toy_graph()
    rng = np.random.default_rng(0)
    weight = rng.random(graph.num_edges).astype(np.float32)
    attr = rng.normal(size=(graph.num_edges, 2)).astype(np.float32)
    rich = replace(graph, edge_weight=weight, edge_attr=attr)
    model = classifier(epochs=3).fit(rich)
    same = model.predict_proba(rich)
    for other in (replace(rich, edge_weight=weight / 2), replace(rich, edge_attr=-attr)):
        assert np.abs(model.predict_proba(other) - same).max() > 1e-7
    with pytest.raises(DataError, match="fitted with edge weights"):
        model.predict(graph)
    with pytest.raises(DataError, match="2 edge features; this graph has 0"):
        model.predict(replace(rich, edge_attr=None))
    assert len(model.predict(graph.x)) == 40  # without edges there is nothing to ask for


def test_data_of_pyg_is_predicted_too():
    graph = toy_graph(regression=True)
    model = regressor(epochs=3).fit(graph)
    data = graph.to_pyg()
    other = Data(x=data.x, edge_index=data.edge_index[:, :10])
    assert np.isfinite(model.predict(other)).all()
    np.testing.assert_allclose(model.predict(data), model.predict(), atol=1e-12)
