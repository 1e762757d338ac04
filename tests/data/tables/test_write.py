"""What is written is read back, whatever the format; predictions under the user's ids and class names."""

import networkx as nx
import numpy as np
import pytest
import torch

from polynsd.data import Graph, Masks
from polynsd.data.tables import predictions_table, read_graph, write_graph
from polynsd.errors import ConfigError, DataError, ShapeError


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


def bare_graph(**parts):
    return Graph("g", np.zeros((2, 0), dtype=np.int64), 2, node_ids=np.array(["a", "007"]), **parts)


def test_classes():
    known = bare_graph(y=np.array([0, 1]), class_names=("cat", "dog"))
    table = predictions_table(known, torch.tensor([[0.25, 0.75], [0.5, 0.5]], requires_grad=True))
    assert table.to_dict("list") == {
        "id": ["a", "007"],
        "prediction": ["dog", "cat"],
        "cat": [0.25, 0.5],
        "dog": [0.75, 0.5],
    }


def test_class_names_that_are_taken_or_missing():
    named = bare_graph(y=np.array([0, 1]), class_names=("id", "prediction"))
    expected = ["id", "prediction", "class id", "class prediction"]
    assert list(predictions_table(named, np.eye(2))) == expected
    assert list(predictions_table(bare_graph(), np.eye(2))) == ["id", "prediction", "0", "1"]


def test_values():
    targets = bare_graph(y=np.array([0.5, np.nan], dtype=np.float32))
    expected = {"id": ["a", "007"], "prediction": [1.5, 2.5]}
    for values in ([1.5, 2.5], [[1.5], [2.5]]):
        assert predictions_table(targets, values).to_dict("list") == expected
    assert predictions_table(bare_graph(), [1.5, 2.5]).to_dict("list") == expected


@pytest.mark.parametrize(
    "values", [np.ones((3, 2)), np.ones((2, 1)), np.ones((2, 3)), np.ones(2), np.ones((2, 0))]
)
def test_wrong_shapes(values):
    with pytest.raises(ShapeError, match=r"must have shape \[2, 2\]"):
        predictions_table(bare_graph(y=np.array([0, 1]), class_names=("a", "b")), values)


def test_numbers_must_be_finite():
    with pytest.raises(DataError, match="must be finite"):
        predictions_table(bare_graph(), [[np.nan, 1], [0, 1]])
