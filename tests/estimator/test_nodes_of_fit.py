"""Which nodes of a graph are those of fit: by ids in any order, by features that tell, not by mere place."""

import logging
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from test_linear_candidates import random_graph

from polynsd import DataError, SheafClassifier
from polynsd.data import Graph
from polynsd.estimator.label_trees import LabelTreesCandidate
from polynsd.estimator.nodes_of_fit import NodesOfFit, hash_rows

RNG = np.random.default_rng(0)


def named(graph) -> Graph:
    return replace(graph, node_ids=np.array([f"n{i}" for i in range(graph.num_nodes)]))


def permute(graph, order) -> Graph:
    """The graph whose node i is node order[i]."""
    ids = None if graph.node_ids is None else graph.node_ids[order]
    edges = np.sort(np.argsort(order)[graph.edge_index], 0)
    y = None if graph.y is None else graph.y[order]
    return replace(graph, edge_index=edges, x=graph.x[order], y=y, node_ids=ids)


def test_rows_have_equal_hashes_where_they_are_equal():
    x = RNG.normal(size=(50, 6)) * (RNG.random((50, 6)) < 0.5)
    x[7] = x[3]
    x[8, :2], x[9] = x[8, 1::-1], -x[8]
    hashes = hash_rows(x)
    np.testing.assert_array_equal(hashes, hash_rows(sparse.csr_array(x)))
    np.testing.assert_array_equal(hashes == hashes[:, None], (x[:, None] == x).all(2))


@pytest.mark.parametrize("with_ids", [True, False])
def test_nodes_are_found_in_another_order(with_ids):
    graph, order = random_graph(60, 4, dense=True), RNG.permutation(60)
    graph = named(graph) if with_ids else graph
    np.testing.assert_array_equal(NodesOfFit.of(graph).find(permute(graph, order)), order)
    restored = NodesOfFit.restore(NodesOfFit.of(graph).state())
    np.testing.assert_array_equal(restored.find(graph), np.arange(60))


def test_ids_of_other_things_are_no_nodes_of_fit():
    graph = named(random_graph(60, 4, dense=True))
    x = graph.x.copy()
    x[:20] += 1  # news of a third of the nodes
    known = NodesOfFit.of(graph)
    np.testing.assert_array_equal(known.find(replace(graph, x=x)), np.arange(60))
    assert (known.find(replace(graph, x=graph.x + 1)) == -1).all()


def test_equal_features_tell_nothing_unless_the_whole_graph_is_equal():
    graph = replace(random_graph(60, 4, dense=True), x=np.ones((60, 1)))
    known = NodesOfFit.of(graph)
    np.testing.assert_array_equal(known.find(graph), np.arange(60))
    assert (known.find(replace(graph, edge_index=graph.edge_index[:, 1:])) == -1).all()


def test_features_that_match_by_chance_are_no_nodes_of_fit():
    graph = replace(random_graph(60), x=(RNG.random((60, 6)) < 0.5).astype(float))
    other = replace(graph, x=(RNG.random((60, 6)) < 0.5).astype(float))
    assert np.isin(hash_rows(other.x), hash_rows(graph.x)).any()
    assert (NodesOfFit.of(graph).find(other) == -1).all()


def test_a_part_of_the_graph_is_known_by_its_features():
    graph = random_graph(60, 4, dense=True)
    part = Graph("part", np.array([[0], [1]]), 20, x=graph.x[40:])
    np.testing.assert_array_equal(NodesOfFit.of(graph).find(part), np.arange(40, 60))


def test_a_damaged_state_is_refused():
    state = NodesOfFit.of(named(random_graph(60))).state()
    with pytest.raises(DataError, match="an id, or none"):
        NodesOfFit.restore({**state, "ids": state["ids"][1:]})


def test_another_board_on_the_same_grid_is_not_answered_by_the_labels_of_fit(caplog):
    pytest.importorskip("sklearn")
    side = np.arange(400).reshape(20, 20)
    ends = np.hstack([[side[:, :-1].ravel(), side[:, 1:].ravel()], [side[:-1].ravel(), side[1:].ravel()]])
    y = (side // 7 % 2 + side.T // 100 % 2).ravel() % 2
    first = Graph("board", ends, 400, x=RNG.normal(size=(400, 2)), y=y)
    other = replace(first, x=RNG.normal(size=(400, 2)), y=1 - y)
    model = SheafClassifier(device="cpu", random_state=0).fit(first, candidates=[LabelTreesCandidate()])
    with caplog.at_level(logging.WARNING, "polynsd"):
        assert (model.predict(other) == y).mean() < 0.8
    assert "400 of 400 nodes are not those of fit, so 100% of the ensemble" in caplog.text


def test_a_prediction_hangs_neither_on_the_order_of_nodes_nor_on_one_more(tmp_path, caplog):
    pytest.importorskip("sklearn")
    graph = named(random_graph(200, 4, dense=True))
    model = SheafClassifier(device="cpu", random_state=0).fit(graph, candidates=[LabelTreesCandidate()])
    expected, order = model.predict_proba(), RNG.permutation(200)
    model = SheafClassifier.load(model.save(tmp_path / "model"))
    np.testing.assert_allclose(model.predict_proba(permute(graph, order)), expected[order], atol=1e-9)
    assert not caplog.text
    more = replace(
        graph, num_nodes=201, x=np.vstack([graph.x, graph.x[:1] + 1]), y=None, masks={},
        node_ids=np.append(graph.node_ids, "new"),
    )  # fmt: skip
    np.testing.assert_allclose(model.predict_proba(more)[:200], expected, atol=1e-9)
    assert "1 of 201 nodes are not those of fit" in caplog.text


def test_a_table_with_categories_is_scored():
    frame = pd.DataFrame({"a": RNG.normal(size=80), "c": RNG.choice(["u", "v", "w"], 80)})
    y, edges = np.where(frame["c"] == "u", "yes", "no"), RNG.integers(0, 80, (2, 160))
    model = SheafClassifier(device="cpu", budget=1).fit(frame, y, edges=edges)
    assert model.score(frame, y, edges=edges) == (model.predict(frame, edges=edges) == y).mean()
