"""Ids are never changed silently, and every end of an edge finds its node."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from polynsd.data import Graph
from polynsd.data.tables import read_graph
from polynsd.errors import DataError, GraphError


def ids_of(tmp_path, edges, nodes=None):
    (tmp_path / "e.csv").write_text(edges, encoding="utf-8")
    if nodes is not None:
        (tmp_path / "n.csv").write_text(nodes, encoding="utf-8")
    graph, _ = read_graph(tmp_path / "e.csv", None if nodes is None else tmp_path / "n.csv")
    return graph.node_ids.tolist()


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ("s,t\n7,3\n3,-1\n0,7\n", [7, 3, -1, 0]),
        ("s,t\n007,3\n7,3\n", ["007", "3", "7"]),
        ("s,t\n1,2\n2,x\n", ["1", "2", "x"]),
        ("s,t\n1.0,2\n", ["1.0", "2"]),
        ("s,t\n+1,2\n", ["+1", "2"]),
        ("s,t\n-0,2\n", ["-0", "2"]),
        ("s,t\n9223372036854775808,1\n", ["9223372036854775808", "1"]),
        ("s,t\n9223372036854775807,1\n", [9223372036854775807, 1]),
        ("s,t\nNA,null\nnull,東京\n", ["NA", "null", "東京"]),
        ("s,t\nb,a\nc,b\n", ["b", "a", "c"]),
    ],
)
def test_ids_from_edges_in_order_of_appearance(tmp_path, edges, expected):
    assert ids_of(tmp_path, edges) == expected


def test_ids_from_the_node_table_in_its_order(tmp_path):
    assert ids_of(tmp_path, "s,t\n1,2\n", "id,v\n3,0\n2,0\n1,0\n") == [3, 2, 1]
    assert ids_of(tmp_path, "s,t\n1,2\n", "id,v\n03,0\n2,0\n1,0\n") == ["03", "2", "1"]


def test_an_unknown_id_is_named(tmp_path):
    with pytest.raises(
        GraphError, match=r"2 edges name an id that is missing there, the first '7' \(edge 2\)"
    ):
        ids_of(tmp_path, "s,t\n007,8\n7,8\n8,9\n", "id\n007\n8\n")


@pytest.mark.parametrize(
    ("edges", "nodes", "fragment"),
    [
        ("s,t\n1,2\n", "id\n1\n2\n1\n2\n1\n", "3 rows repeat one, the first 1 in row 3"),
        ("s,t\na,b\n", "id,x\na,1\nb,1\na,1\n", "1 row repeats one, the first 'a' in row 3"),
        ("s,t\n1,2\n,2\n2,\n", None, "column 's'.*1 have none, the first is row 2"),
        ("s,t\n1,2\n", "id,x\n1,2\n ,2\n", "column 'id'.*every row needs an id"),
        ("s,t\na\x00b,2\n", None, "control characters; row 1"),
        (f"s,t\n{'x' * 1001},2\n", None, "got one of 1001"),
    ],
)
def test_ids_that_cannot_be(tmp_path, edges, nodes, fragment):
    with pytest.raises(DataError, match=fragment):
        ids_of(tmp_path, edges, nodes)


def test_typed_ids_keep_their_type():
    edges = pd.DataFrame({"s": ["1", "2"], "t": ["2", "3"]})
    assert Graph.from_pandas(edges).node_ids.tolist() == ["1", "2", "3"]
    nodes = pd.DataFrame({"id": [3, 2, 1]})
    assert Graph.from_pandas(edges, nodes).node_ids.tolist() == ["3", "2", "1"]
    assert Graph.from_pandas(edges.astype(int), nodes).node_ids.tolist() == [3, 2, 1]
    assert Graph.from_pandas(edges.astype("category")).node_ids.tolist() == ["1", "2", "3"]
    short = pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string(), ordered=True))
    assert Graph.from_pandas(edges.astype(short)).node_ids.tolist() == ["1", "2", "3"]
    assert Graph.from_pandas(edges.astype("uint8")).node_ids.dtype == np.int64


@pytest.mark.parametrize(
    ("ids", "fragment"),
    [
        ([1.5, 2.5], "integers or strings; got float64"),
        ([True, False], "integers or strings; got bool"),
        (np.array([2**63, 1], dtype=np.uint64), "fit into 64 bits"),
        ([1, None], "every row needs an id; 1 have none"),
        ([1, "a"], "must have one type"),
    ],
)
def test_typed_ids_that_cannot_be(ids, fragment):
    with pytest.raises(DataError, match=fragment):
        Graph.from_pandas(pd.DataFrame({"s": ids, "t": ids}))
