"""Files to graphs: which column means what, and what the report says."""

import logging

import pandas as pd
import pytest

from polynsd.data.graph import Graph
from polynsd.data.tables import EdgeReport, ReadOptions, ReadReport, read_graph, read_tables, read_tables_like
from polynsd.errors import ConfigError, DataError, GraphError

EDGES = "from,to,since,strength\nann,bob,1999,2\nbob,ann,2001,4\nbob,cy,2010,1\ncy,cy,2011,1\nbob,cy,2012,1\n"
NODES = "name,age,role,team\nann,31,dev,red\nbob,40,ops,blue\ncy,25,dev,\ndee,60,dev,red\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "people.csv").write_text(EDGES)
    (tmp_path / "nodes.csv").write_text(NODES)
    return tmp_path / "people.csv", tmp_path / "nodes.csv"


def test_a_graph_and_its_report(files):
    graph, report = read_graph(*files, label="team", weight="strength")
    assert repr(graph) == "Graph('people', nodes=4, edges=2, features=3, classes=2)"
    assert graph.node_ids.tolist() == ["ann", "bob", "cy", "dee"]
    assert graph.edge_index.tolist() == [[0, 1], [1, 2]]
    assert graph.edge_weight.tolist() == [3, 1]
    assert graph.y.tolist() == [1, 0, -1, 1]
    assert graph.class_names == ("blue", "red")
    assert report == ReadReport(
        edges=EdgeReport(given=5, kept=2, self_loops=1, duplicates=1, reverses=1, averaged=1),
        num_nodes=4,
        isolated=1,
        task="classification",
        unlabelled=1,
        numbers=("age",),
        one_hot={"role": 2},
        unused=("since",),
    )
    assert str(report) == (
        "4 nodes, 1 without an edge; 5 edges given, 2 kept: 1 self-loops dropped, 1 duplicates and 1 "
        "reverses merged, unequal values of 1 averaged; classification with 1 unlabelled nodes; "
        "numbers: age; one-hot: role (2); columns not used: since"
    )


def test_from_files_logs_the_report(files, caplog):
    with caplog.at_level(logging.INFO, logger="polynsd"):
        graph = Graph.from_files(*files, label="team", name="office")
    assert graph.name == "office"
    assert "office: 4 nodes, 1 without an edge; 5 edges given" in caplog.text


def test_columns_by_name(files):
    graph, _ = read_graph(*files, source="to", target="from", id_column="name", features=())
    assert graph.edge_index.tolist() == [[0, 1], [1, 2]]
    with pytest.raises(ConfigError, match=r"both are 'to'. Name both"):
        read_graph(*files, source="to")
    with pytest.raises(ConfigError, match=r"unknown column of people.csv 'form'.*Did you mean 'from'"):
        read_graph(*files, source="form")
    with pytest.raises(ConfigError, match=r"unknown column of nodes.csv 'teem'.*Did you mean 'team'"):
        read_graph(*files, label="teem")
    with pytest.raises(ConfigError, match=r"unknown option 'labels'.*Did you mean 'label'"):
        read_graph(*files, labels="team")


def test_edges_alone(files):
    graph, report = read_graph(files[0])
    assert graph.node_ids.tolist() == ["ann", "bob", "cy"]
    assert graph.x is graph.y is graph.edge_weight is None
    assert report.unused == ("since", "strength")
    with pytest.raises(ConfigError, match="label, features needs a node table"):
        read_graph(files[0], label="team", features=["age"])


@pytest.mark.parametrize(
    ("edges", "fragment"),
    [
        ("0,1\n1,2\n", "must name the columns, but '0' looks like an id"),
        ("ann,bob\nbob,ann\nann,cy\n", "must name the columns, but 'ann' looks like an id"),
        ("a,b\nb,c\nc,d\n", "must name the columns, but 'b' looks like an id"),
        ("# made by hand\nsource,target\na,b\n", "comment lines are not read"),
        ("edge\na-b\n", "at least two columns"),
        ("source,target\n", "at least one node"),
    ],
)
def test_edge_files_that_cannot_be(tmp_path, edges, fragment):
    (tmp_path / "e.csv").write_text(edges)
    with pytest.raises(DataError, match=fragment):
        read_graph(tmp_path / "e.csv")


def test_a_node_table_of_a_header_alone(tmp_path):
    (tmp_path / "e.csv").write_text(EDGES)
    (tmp_path / "n.csv").write_text(NODES.splitlines()[0] + "\n")
    with pytest.raises(GraphError, match=r"n\.csv has a header and no rows"):
        read_graph(tmp_path / "e.csv", tmp_path / "n.csv")


def test_a_first_edge_among_the_nodes_is_no_header(tmp_path):
    (tmp_path / "e.csv").write_text("a,b\nc,d\n")
    (tmp_path / "n.csv").write_text("id\na\nb\nc\nd\n")
    with pytest.raises(DataError, match=r"e.csv: the first line.*'a' looks like an id"):
        read_graph(tmp_path / "e.csv", tmp_path / "n.csv")
    (tmp_path / "e.csv").write_text("source,target\n1,2\n")
    (tmp_path / "n.csv").write_text("id\n1.0\n2.0\n")
    with pytest.raises(GraphError, match=r"compared as they are written.*'7\.0'"):
        read_graph(tmp_path / "e.csv", tmp_path / "n.csv")


def test_columns_that_go_unused_are_a_warning(files, caplog):
    with caplog.at_level(logging.WARNING, logger="polynsd"):
        read_graph(*files, label="team")
    assert "people: columns not used: since, strength. Name those" in caplog.text


def test_a_column_may_be_called_like_an_id_if_named(tmp_path):
    (tmp_path / "e.csv").write_text("0,1\n1,2\n")
    assert read_graph(tmp_path / "e.csv", source="0", target="1")[0].node_ids.tolist() == [1, 2]


def test_nodes_without_edges(tmp_path):
    (tmp_path / "e.csv").write_text("source,target\n")
    (tmp_path / "n.csv").write_text("id,v\n7,1\n8,2\n")
    graph, report = read_graph(tmp_path / "e.csv", tmp_path / "n.csv")
    assert (graph.num_nodes, graph.num_edges, report.isolated) == (2, 0, 2)
    (tmp_path / "n.csv").write_text("id,v\n")
    with pytest.raises(DataError, match="at least one node"):
        read_graph(tmp_path / "e.csv", tmp_path / "n.csv")


@pytest.mark.parametrize("ids", [int, str])
def test_parquet(tmp_path, ids):
    edges = pd.DataFrame({"s": [5, 6, 7], "t": [6, 7, 5]}).astype(ids)
    edges.to_parquet(tmp_path / "e.parquet")
    nodes = pd.DataFrame({"id": [7, 6, 5], "ok": [True, False, True], "y": [0.5, None, 2.0]})
    nodes.astype({"id": ids}).to_parquet(tmp_path / "n.parquet")
    graph, report = read_graph(tmp_path / "e.parquet", tmp_path / "n.parquet", label="y")
    assert graph.node_ids.tolist() == [ids(7), ids(6), ids(5)]
    assert graph.edge_index.tolist() == [[0, 0, 1], [1, 2, 2]]
    assert graph.feature_names == ("ok=False", "ok=True")
    assert (report.task, report.unlabelled) == ("regression", 1)


def test_unknown_extension():
    with pytest.raises(ConfigError, match=r"unknown file extension '.grapml'.*Did you mean '.graphml'"):
        read_graph("g.grapml")


def test_tables_in_the_wrong_order(files):
    with pytest.raises(DataError, match=r"people.csv like that of edges; give the edges first"):
        read_graph(*reversed(files))


def test_an_id_twice_and_an_unknown_one_are_told_together(files):
    edges, nodes = files
    edges.write_text(EDGES + "ann,zoe,2013,1\n")
    nodes.write_text(NODES + "ann,32,ops,\n")
    with pytest.raises(DataError, match="problems") as error:
        read_graph(edges, nodes)
    assert "1. nodes.csv must name every id once; 1 row repeats one, the first 'ann' in row 5" in str(
        error.value
    )
    assert "2. every edge must join ids of nodes.csv; 1 edges name an id" in str(error.value)
    assert "'zoe'" in str(error.value)


def test_ids_in_another_column_are_found(files):
    edges, nodes = files
    nodes.write_text("".join(",".join(line.split(",")[::-1]) + "\n" for line in NODES.splitlines()))
    with pytest.raises(DataError, match=r"are in column 'name', but the first.*id_column='name'"):
        read_graph(edges, nodes)
    assert read_graph(edges, nodes, id_column="name")[0].node_ids.tolist() == ["ann", "bob", "cy", "dee"]


def test_rows_without_an_id_hide_no_other_problem(files):
    edges, nodes = files
    edges.write_text(EDGES + ",zoe,2013,1\nann,zoe,2013,1\n")
    nodes.write_text(NODES + ",32,ops,\nann,32,ops,\n")
    with pytest.raises(DataError, match="4 problems") as error:
        read_graph(edges, nodes)
    fragments = (
        "'name': every row needs an id; 1",
        "'from': every row needs an id; 1",
        "'ann' in row 6",
        "'zoe'",
    )
    for line, fragment in zip(str(error.value).splitlines()[1:], fragments, strict=True):
        assert fragment in line


def test_a_later_table_may_lack_what_was_excluded(files):
    edges, nodes = files
    first = read_tables(edges, nodes, ReadOptions(label="team", exclude=["role"]))
    nodes.write_text("name,age\nann,31\nbob,40\ncy,25\n")
    later = read_tables_like(first.schema, edges, nodes)
    assert later.graph.x[:, 0].tolist() == [31, 40, 25]


def test_missing_categories_are_not_said_to_have_a_mean(files):
    _, report = read_graph(*files)
    assert "missing categories marked: team (1)" in str(report)
    assert "mean" not in str(report)
