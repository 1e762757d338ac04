"""From other libraries and back: ids, labels, features and weights survive."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch_geometric.data import Data

from polynsd.data import Graph, Masks
from polynsd.errors import ConfigError, DataError, GraphError, ShapeError

NAMES = st.text(st.characters(min_codepoint=32, exclude_categories=("Cs",)), min_size=1, max_size=6)


@st.composite
def graphs(draw):
    ids = draw(
        st.lists(NAMES, min_size=2, max_size=6, unique=True)
        | st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=6, unique=True)
    )
    n = len(ids)
    pairs = [(u, v) for u in range(n) for v in range(u + 1, n)]
    chosen = sorted(draw(st.sets(st.sampled_from(pairs)))) if pairs else []
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return Graph(
        "drawn",
        np.array(chosen, dtype=np.int64).reshape(-1, 2).T,
        n,
        x=rng.normal(size=(n, 2)).astype(np.float32),
        y=np.arange(n) % 2 - (np.arange(n) == n - 1),
        edge_weight=rng.random(len(chosen)).astype(np.float32),
        node_ids=np.array(ids),
        class_names=("red", "shy blue"),
        feature_names=("größe", "b"),
    )


def assert_same(left, right):
    assert left.node_ids.tolist() == right.node_ids.tolist()
    assert names_of(left) == names_of(right)
    assert left.feature_names == right.feature_names
    for name in ("edge_index", "x", "edge_weight"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))


def names_of(graph):
    return [None if label == -1 else graph.class_names[label] for label in graph.y]


@settings(deadline=None, max_examples=60)
@given(graphs())
def test_through_pandas(graph):
    if np.unique(graph.node_ids).size < graph.num_nodes:  # numpy drops NULs at the end
        return
    edges, nodes = graph.to_pandas()
    weight = "weight" if "weight" in edges else None
    assert_same(graph, Graph.from_pandas(edges, nodes, label="label", weight=weight))


@settings(deadline=None, max_examples=60)
@given(graphs())
def test_through_networkx(graph):
    back = Graph.from_networkx(graph.to_networkx(), "label", weight="weight" if graph.num_edges else None)
    if not graph.num_edges:
        back = Graph(**{**vars(back), "edge_weight": graph.edge_weight})
    assert_same(graph, back)


def test_through_pyg():
    graph = Graph.from_networkx(nx.karate_club_graph(), "club", weight="weight")
    back = Graph.from_pyg(graph.to_pyg(), node_ids=graph.node_ids)
    for name in ("node_ids", "edge_index", "edge_weight", "y"):
        np.testing.assert_array_equal(getattr(graph, name), getattr(back, name))


def test_labels_in_pandas():
    graph = Graph("g", np.zeros((2, 0), dtype=np.int64), 2, y=np.array([3, -1]))
    label = graph.to_pandas()[1]["label"]
    assert label[0] == 3
    assert label.isna().tolist() == [False, True]
    assert graph.to_networkx().nodes(data=True)[0] == {"label": 3}
    target = Graph("g", graph.edge_index, 2, y=np.array([0.5, np.nan], dtype=np.float32))
    assert target.to_pandas()[1]["label"].tolist()[0] == 0.5
    assert dict(target.to_networkx().nodes(data=True)) == {0: {"label": 0.5}, 1: {}}


def test_names_that_are_taken():
    graph = Graph(
        "g", np.zeros((2, 0), dtype=np.int64), 1, x=np.ones((1, 1), np.float32), feature_names=("id",)
    )
    with pytest.raises(ConfigError, match="already called 'id'"):
        graph.to_pandas()
    assert list(graph.to_pandas(id_column="node")[1]) == ["node", "id"]


def test_sparse_features_and_edge_features_are_exported():
    x = sparse.csr_matrix(np.eye(2, dtype=np.float32))
    attr = np.array([[0.5, 2.0]], dtype=np.float32)
    graph = Graph("g", np.array([[0], [1]]), 2, x=x, edge_attr=attr)
    edges, nodes = graph.to_pandas()
    assert edges.to_dict("list") == {"source": [0], "target": [1], "edge_attr0": [0.5], "edge_attr1": [2.0]}
    assert nodes.to_dict("list") == {"id": [0, 1], "x0": [1, 0], "x1": [0, 1]}
    assert graph.to_networkx().edges[0, 1] == {"edge_attr0": 0.5, "edge_attr1": 2.0}


def test_pandas_with_ids_in_the_index():
    edges = pd.DataFrame({"s": [1], "t": [2]})
    nodes = pd.DataFrame({"id": [1, 2], "v": [3, 4]})
    with pytest.raises(DataError, match=r"the index of the DataFrame holds id.*reset_index"):
        Graph.from_pandas(edges, nodes.set_index("id"))
    with pytest.raises(DataError, match="must be a pandas DataFrame; got a dict"):
        Graph.from_pandas({"s": [1]})
    assert Graph.from_pandas(edges, nodes[::-1]).node_ids.tolist() == [2, 1]


def test_networkx_of_any_kind():
    multi = nx.MultiDiGraph()
    multi.add_edge("b", "a", w=1)
    multi.add_edge("b", "a", w=3)
    multi.add_edge("a", "b", w=5)
    graph = Graph.from_networkx(multi, weight="w")
    assert (graph.node_ids.tolist(), graph.edge_weight.tolist()) == (["b", "a"], [3])
    with pytest.raises(DataError, match=r"must be integers or strings.*got \(0, 1\)"):
        Graph.from_networkx(nx.empty_graph([(0, 1), (0, 2)]))
    with pytest.raises(DataError, match="must have one type"):
        Graph.from_networkx(nx.empty_graph([1, "a"]))
    sparse_attributes = nx.Graph([(1, 2)])
    sparse_attributes.nodes[1]["v"] = 1.0
    with pytest.raises(DataError, match="1 of 2 values are missing"):
        Graph.from_networkx(sparse_attributes, missing="error")
    assert Graph.from_networkx(sparse_attributes).feature_names == ("v", "v is missing")


def test_scipy_weights_and_pattern():
    ones = sparse.csr_array(np.array([[1, 1, 0], [0, 0, 1], [0, 1, 0]]))
    graph = Graph.from_scipy(ones, x=np.ones((3, 1)), y=[0, 1, -1])
    assert graph.edge_index.tolist() == [[0, 1], [1, 2]]
    assert graph.edge_weight is None
    assert graph.y.tolist() == [0, 1, -1]
    weighted = Graph.from_scipy(np.array([[0, 2.0], [4.0, 0]]), x=sparse.eye(2), y=[0.5, np.nan])
    assert weighted.edge_weight.tolist() == [3]
    assert weighted.x.format == "csr"
    assert weighted.is_regression


@pytest.mark.parametrize(
    ("arguments", "error", "fragment"),
    [
        ((np.ones((2, 3)),), ShapeError, "must be square"),
        ((np.eye(2) * 1j,), DataError, "real numbers"),
        ((-np.ones((2, 2)),), GraphError, "must not be negative"),
        ((np.ones((2, 2)), np.ones((3, 1))), DataError, r"x must be float32 of shape \[2, F\]"),
        ((np.ones((2, 2)), np.full((2, 1), np.nan)), DataError, "must be finite"),
        ((np.ones((2, 2)), None, [1, 2, 3]), DataError, r"y must be int64 or float32 of shape \[2\]"),
        ((np.ones((2, 2)), None, [0, -2]), DataError, r"at least -1.*the first at 1 \(-2\)"),
        ((np.ones((2, 2)), None, ["a", "b"]), DataError, "y must be int64 or float32"),
    ],
)
def test_scipy_matrices_that_cannot_be(arguments, error, fragment):
    with pytest.raises(error, match=fragment):
        Graph.from_scipy(*arguments)


def directed_data(**changes):
    parts = {
        "edge_index": torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 2, 1]]),
        "x": torch.ones(3, 2),
        "y": torch.tensor([[0], [1], [-1]]),
    }
    return Data(**(parts | changes))


def test_pyg_edges_weights_and_masks():
    masks = torch.eye(3, dtype=torch.bool)
    data = directed_data(
        edge_weight=torch.tensor([1.0, 3.0, 1.0, 9.0, 1.0]),
        edge_attr=torch.arange(5.0),
        train_mask=masks[:, :1].repeat(1, 2),
        val_mask=masks[:, 1:2].repeat(1, 2),
        test_mask=masks[2],
    )
    graph = Graph.from_pyg(data, name="mine")
    assert graph.edge_index.tolist() == [[0, 1], [1, 2]]
    assert graph.edge_weight.tolist() == [2, 1]
    assert graph.edge_attr.tolist() == [[0.5], [3]]
    assert graph.y.tolist() == [0, 1, -1]
    assert graph.masks["default"].test.tolist() == [[False, False, True]] * 2
    assert Graph.from_pyg(directed_data()).masks == {}
    graph = Graph.from_pyg(directed_data(x=torch.eye(3).to_sparse()))
    assert sparse.issparse(graph.x)
    assert graph.to_pyg().x.tolist() == np.eye(3).tolist()
    assert torch.equal(graph.to_pyg(keep_sparse=True).x.to_dense(), torch.eye(3))


@pytest.mark.parametrize(
    ("changes", "error", "fragment"),
    [
        ({"edge_index": None}, GraphError, "edge_index was expected"),
        ({"edge_index": torch.ones(2, 3)}, GraphError, "must be integers"),
        ({"edge_index": torch.tensor([[0], [3]])}, GraphError, "from 0 to 2; got 0 to 3"),
        ({"edge_weight": -torch.ones(5)}, GraphError, "must not be negative"),
        ({"edge_weight": torch.ones(4)}, ShapeError, "one row per column of edge_index"),
        ({"edge_weight": torch.ones(5, 2)}, ShapeError, "one row per column of edge_index"),
        ({"edge_attr": torch.full((5, 1), torch.inf)}, DataError, "must be finite"),
        ({"train_mask": torch.ones(4, dtype=torch.bool)}, DataError, r"train_mask must have shape \[3\]"),
    ],
)
def test_pyg_data_that_cannot_be(changes, error, fragment):
    with pytest.raises(error, match=fragment):
        Graph.from_pyg(directed_data(**changes))


def test_pyg_ids_must_fit():
    assert Graph.from_pyg(directed_data(), node_ids=["a", "b", "c"]).node_ids.tolist() == ["a", "b", "c"]
    with pytest.raises(DataError, match="node_ids must differ from each other"):
        Graph.from_pyg(directed_data(), node_ids=["a", "b", "b"])


def split_graph():
    masks = Masks(*np.eye(3, dtype=bool)[:, None])
    return Graph(
        "g",
        np.array([[0], [1]]),
        3,
        x=np.ones((3, 2), dtype=np.float32),
        y=np.array([0, 1, -1]),
        masks={"default": masks, "public": masks},
        edge_attr=np.ones((1, 1), dtype=np.float32),
        node_ids=np.array([7, 8, 9]),
        class_names=("a", "b", "unused"),
        feature_names=("f", "g"),
    )


def test_names_and_all_masks_go_through_pyg():
    graph = split_graph()
    data = graph.to_pyg()
    assert data.public_val_mask.shape == (3, 1)
    back = Graph.from_pyg(data)
    assert (back.class_names, back.feature_names) == (graph.class_names, graph.feature_names)
    assert back.masks.keys() == {"default", "public"}
    np.testing.assert_array_equal(back.masks["public"].val, graph.masks["public"].val)


def test_pyg_data_shares_nothing_with_the_graph():
    graph = split_graph()
    data, split = graph.to_pyg(), graph.masks["default"].split(0)
    for tensor in (data.x, data.y, data.edge_index, data.edge_attr, data.public_train_mask, split.train):
        tensor.zero_()
    data.node_ids[:] = 0
    assert (graph.x.all(), graph.edge_attr.all()) == (True, True)
    assert (graph.y[1], graph.edge_index[1, 0]) == (1, 1)
    assert all(masks.train[0, 0] for masks in graph.masks.values())
    assert graph.node_ids.tolist() == [7, 8, 9]


def test_incomplete_masks_and_names_are_left_out_aloud(caplog):
    mask = torch.tensor([True, False, False])
    data = directed_data(train_mask=mask, test_mask=~mask, feature_names=["too", "many", "names", "here"])
    graph = Graph.from_pyg(data)
    assert (dict(graph.masks), graph.feature_names) == ({}, None)
    assert "masks 'default' are left out: there is one for train, test but none for val" in caplog.text
    assert "feature_names are left out" in caplog.text


def test_empty_parts_raise_only_when_asked_for():
    mask = torch.tensor([True, False, False])
    masks = Graph.from_pyg(directed_data(train_mask=mask, val_mask=mask & False, test_mask=~mask)).masks
    with pytest.raises(DataError, match="val is empty"):
        masks["default"].split(0)


def test_several_targets_are_several_columns():
    targets = np.array([[1, 2], [np.nan, 4]], dtype=np.float32)
    graph = Graph("g", np.array([[0], [1]]), 2, y=targets)
    nodes = graph.to_pandas()[1]
    assert list(nodes.columns) == ["id", "label_0", "label_1"]
    np.testing.assert_array_equal(nodes[["label_0", "label_1"]].to_numpy(), targets)
    assert dict(graph.to_networkx("t").nodes(data=True)) == {0: {"t_0": 1, "t_1": 2}, 1: {"t_1": 4}}
