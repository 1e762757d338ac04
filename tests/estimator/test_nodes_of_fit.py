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
from polynsd.estimator.features import FeatureTreatments
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


def known_of(graph) -> NodesOfFit:
    return NodesOfFit.of(graph, FeatureTreatments.learn(graph.x).apply(graph.x))


def find(known, graph, fitted=None):
    """The nodes of fit in a graph, whose features are treated as those of `fitted`, itself by default."""
    return known.find(graph, FeatureTreatments.learn((fitted or graph).x).apply(graph.x))


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
    np.testing.assert_array_equal(find(known_of(graph), permute(graph, order), graph), order)
    restored = NodesOfFit.restore(known_of(graph).state())
    np.testing.assert_array_equal(find(restored, graph), np.arange(60))


@pytest.mark.parametrize("dense", [True, False])
def test_nodes_of_a_later_day_are_known_by_their_ids(dense):
    graph = named(random_graph(60, 4, dense=dense))
    known, x = known_of(graph), graph.x.toarray() if sparse.issparse(graph.x) else graph.x.copy()
    news = x + 0.01 * (x != 0 if not dense else 1)  # of all of them, a little
    np.testing.assert_array_equal(find(known, replace(graph, x=news), graph), np.arange(60))
    some = np.where(RNG.random(x.shape) < 0.3, RNG.permutation(x), x)  # a third of all numbers are others
    np.testing.assert_array_equal(find(known, replace(graph, x=some), graph), np.arange(60))
    other = replace(graph, x=RNG.permutation(x))  # the ids are those of other things
    assert (find(known, other, graph) == -1).all()


def test_equal_features_tell_nothing_unless_the_whole_graph_is_equal():
    graph = replace(random_graph(60, 4, dense=True), x=np.ones((60, 1)))
    known, ones = NodesOfFit.of(graph, graph.x), graph.x
    np.testing.assert_array_equal(known.find(graph, ones), np.arange(60))
    assert (known.find(replace(graph, edge_index=graph.edge_index[:, 1:]), ones) == -1).all()


def test_features_that_match_by_chance_are_no_nodes_of_fit():
    graph = replace(random_graph(60), x=(RNG.random((60, 6)) < 0.5).astype(float))
    other = replace(graph, x=(RNG.random((60, 6)) < 0.5).astype(float))
    assert np.isin(hash_rows(other.x), hash_rows(graph.x)).any()
    assert (find(known_of(graph), other, graph) == -1).all()


def test_a_part_of_the_graph_is_known_by_its_features():
    graph = random_graph(60, 4, dense=True)
    part = Graph("part", np.array([[0], [1]]), 20, x=graph.x[40:])
    np.testing.assert_array_equal(find(known_of(graph), part, graph), np.arange(40, 60))


def test_a_damaged_state_is_refused():
    state = known_of(named(random_graph(60))).state()
    with pytest.raises(DataError, match="an id, or none"):
        NodesOfFit.restore({**state, "ids": state["ids"][1:]})


def test_another_board_on_the_same_grid_is_not_answered_by_the_labels_of_fit(caplog):
    side = np.arange(400).reshape(20, 20)
    ends = np.hstack([[side[:, :-1].ravel(), side[:, 1:].ravel()], [side[:-1].ravel(), side[1:].ravel()]])
    y = (side // 7 % 2 + side.T // 100 % 2).ravel() % 2
    first = Graph("board", ends, 400, x=RNG.normal(size=(400, 2)), y=y)
    other = replace(first, x=RNG.normal(size=(400, 2)), y=1 - y)
    model = SheafClassifier(device="cpu", random_state=0).fit(first, candidates=[LabelTreesCandidate()])
    with caplog.at_level(logging.WARNING, "polynsd"):
        assert (model.predict(other) == y).mean() < 0.8
    assert "400 of 400 nodes are not those of fit" in caplog.text


def test_a_prediction_hangs_neither_on_the_order_of_nodes_nor_on_one_more(tmp_path, caplog):
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


def test_a_prediction_without_the_edges_of_fit_is_told(caplog):
    graph = random_graph(60, 4, dense=True)
    model = SheafClassifier(device="cpu", budget=0.1).fit(graph.x, graph.y, edges=graph.edge_index)
    model.predict(graph.x)
    assert "fitted with edges, and there are none here; give them with edges=" in caplog.text


@pytest.mark.parametrize("dtype", [object, "string"])
def test_a_gap_among_names_of_classes_is_told(dtype):
    y = pd.Series(["a", "b", None, "a"], dtype=dtype)
    with pytest.raises(DataError, match="every row needs a label"):
        SheafClassifier(device="cpu").fit(np.zeros((4, 1)), y)


def test_a_table_with_categories_is_scored():
    frame = pd.DataFrame({"a": RNG.normal(size=80), "c": RNG.choice(["u", "v", "w"], 80)})
    y, edges = np.where(frame["c"] == "u", "yes", "no"), RNG.integers(0, 80, (2, 160))
    model = SheafClassifier(device="cpu", budget=1).fit(frame, y, edges=edges)
    assert model.score(frame, y, edges=edges) == (model.predict(frame, edges=edges) == y).mean()
