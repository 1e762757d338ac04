"""A manifest describes a folder exactly, survives its CSV file, and tells every difference."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polynsd.data import Graph, Masks
from polynsd.data.datasets.archive import load_graph, save_graph
from polynsd.data.datasets.manifest import Manifest, ManifestRow, sha256_of
from polynsd.errors import DataError

DATA = os.environ.get("POLYNSD_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="POLYNSD_DATA names no folder")


def graph(name, num_nodes, num_splits=0):
    part = np.arange(num_splits * num_nodes).reshape(num_splits, num_nodes) % 3
    masks = {"default": Masks(part == 0, part == 1, part == 2)} if num_splits else {}
    edges = np.array([np.arange(num_nodes - 1), np.arange(1, num_nodes)])
    return Graph(name, edges, num_nodes, np.ones((num_nodes, 2), np.float32), np.arange(num_nodes), masks)


@pytest.fixture
def folder(tmp_path):
    for made in (graph("one", 3), graph("two", 5, num_splits=4)):
        save_graph(tmp_path / f"{made.name}.npz", made)
    return tmp_path


def test_a_folder_is_described_and_agrees_with_itself(folder):
    manifest = Manifest.of_folder(folder)
    size, digest = (folder / "two.npz").stat().st_size, sha256_of(folder / "two.npz")
    assert [row.name for row in manifest.rows] == ["one", "two"]
    assert manifest.rows[1] == ManifestRow("two", 5, 4, 2, 5, 4, size, digest)
    assert manifest.verify(folder) == []


def test_csv_round_trip_and_columns_of_others(folder):
    manifest = Manifest.of_folder(folder)
    path = folder / "MANIFEST.csv"
    manifest.write(path)
    assert Manifest.read(path) == manifest
    lines = path.read_text().splitlines()
    path.write_text(
        "\n".join(f"note,{line},7" if index else f"remark,{line},more" for index, line in enumerate(lines))
    )
    assert Manifest.read(path) == manifest
    Manifest(()).write(path)
    assert Manifest.read(path) == Manifest(())


def test_sha256_streams_files_of_any_size(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"")
    assert sha256_of(path) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    path.write_bytes(b"a" * 1_000_000)
    assert sha256_of(path) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
    path.write_bytes(b"abc" * 1_000_000)
    assert len(sha256_of(path)) == 64


def test_every_difference_is_told(folder):
    manifest = Manifest.of_folder(folder)
    save_graph(folder / "three.npz", graph("three", 2))
    save_graph(folder / "one.npz", graph("one", 4))
    (folder / "two.npz").write_bytes(b"damaged")
    missing = replace(manifest.rows[0], name="four")
    problems = Manifest((*manifest.rows, missing)).verify(folder)
    assert problems[0] == "three: not in the manifest"
    assert "one: nodes is 4, expected 3" in problems
    assert any(problem.startswith("one: sha256 is ") for problem in problems)
    assert any(problem.startswith("two: ") and "intact .npz" in problem for problem in problems)
    assert problems[-1] == "four: missing"


ROW = f"a,1,0,0,0,0,9,{'0' * 64}"


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        (ROW.replace("a,1", "a,-1"), r"row 1 needs whole numbers in nodes; got '-1'"),
        ("a,1", "in edges, features, classes, splits, bytes; got None"),
        (ROW.replace("a,", "../a,"), r"got '\.\./a' and"),
        (ROW[:-1], "64 lower-case hex digits"),
        (f"{ROW}\n{ROW}", "names must be unique; a occur again"),
        ("\0" * 200_000, "readable CSV file"),
        ("\xff", "readable CSV file"),
    ],
)
def test_rows_that_make_no_sense(text, fragment, tmp_path):
    header = "name,nodes,edges,features,classes,splits,bytes,sha256\n"
    (tmp_path / "M.csv").write_text(header + text, encoding="latin1")
    with pytest.raises(DataError, match=rf"M\.csv: .*{fragment}"):
        Manifest.read(tmp_path / "M.csv")


def test_missing_files_and_folders_are_errors(tmp_path):
    with pytest.raises(DataError, match="readable CSV file"):
        Manifest.read(tmp_path / "none.csv")
    for action in (Manifest.of_folder, Manifest(()).verify):
        with pytest.raises(DataError, match="expected a folder of archives"):
            action(tmp_path / "none")


@pytest.mark.data
@needs_data
def test_the_benchmark_graphs_are_those_of_their_manifest():
    assert Manifest.read(Path(DATA) / "MANIFEST.csv").verify(DATA) == []


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("name", ["texas", "citeseer", "huangpu", "roman_empire", "minesweeper", "twitch_de"])
def test_the_benchmark_graphs_survive_a_copy(name, tmp_path):
    path = Path(DATA) / f"{name}.npz"
    original = load_graph(path, extras=True)
    copy = load_graph(save_graph(tmp_path / path.name, original), extras=True)
    assert repr(copy) == repr(original)
    np.testing.assert_array_equal(copy.edge_index, original.edge_index)
    np.testing.assert_array_equal(copy.y, original.y)
    assert copy.extras.keys() == original.extras.keys()
    assert copy.masks.keys() == original.masks.keys()
    if original.x is not None:
        assert (copy.x != original.x).sum() == 0


@pytest.mark.data
@needs_data
def test_the_unlabelled_nodes_of_citeseer_are_in_no_split():
    citeseer = load_graph(Path(DATA) / "citeseer.npz")
    unlabelled = citeseer.y == -1
    assert unlabelled.sum() == 15
    assert citeseer.num_classes == 6
    for masks in citeseer.masks.values():
        assert not (masks.train | masks.val | masks.test)[:, unlabelled].any()
