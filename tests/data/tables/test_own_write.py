"""What is written is read back, whatever the format."""

import networkx as nx
import numpy as np
import pytest

from polynsd.data.graph import Graph, Masks
from polynsd.data.tables import read_graph, write_graph
from polynsd.errors import ConfigError, DataError


@pytest.fixture
def graph():
    original = nx.relabel_nodes(nx.karate_club_graph(), lambda node: f"{node:03d}")
    for node, data in original.nodes(data=True):
        data["degree"] = original.degree(node)
    del original.nodes["007"]["club"]
    return Graph.from_networkx(original, "club", weight="weight")


@pytest.mark.parametrize("name", ["k.csv", "k.tsv", "k.csv.gz", "k.parquet", "k.graphml", "k.npz"])
def test_round_trip(tmp_path, graph, name):
    files = write_graph(graph, tmp_path / name)
    assert all(file.is_file() for file in files)
    if name == "k.npz":
        from polynsd.data.datasets.archive import load_graph

        back = load_graph(files[0])
    else:
        back, _ = read_graph(*files, label="label", weight="weight")
    assert back.name == "k"
    assert back.class_names == graph.class_names
    assert back.feature_names == graph.feature_names
    for array in ("node_ids", "edge_index", "edge_weight", "x", "y"):
        np.testing.assert_array_equal(getattr(back, array), getattr(graph, array))


@pytest.mark.parametrize("name", ["k.csv", "k.parquet", "k.graphml", "k.npz"])
def test_a_folder_that_does_not_exist(tmp_path, graph, name):
    with pytest.raises(DataError, match="folder"):
        write_graph(graph, tmp_path / "none" / name)


def test_files_of_a_table(tmp_path, graph):
    files = write_graph(graph, tmp_path / "my.club.csv.gz")
    assert [file.name for file in files] == ["my.club.csv.gz", "my.club_nodes.csv.gz"]


def test_splits_are_left_out_aloud(tmp_path, caplog):
    masks = Masks(*np.eye(3, dtype=bool)[:, None])
    graph = Graph("g", np.array([[0], [1]]), 3, masks={"default": masks})
    write_graph(graph, tmp_path / "g.csv")
    assert "g.csv holds no splits" in caplog.text


def test_unknown_extension(tmp_path, graph):
    with pytest.raises(ConfigError, match=r"unknown file extension '.gml'"):
        write_graph(graph, tmp_path / "k.gml")
