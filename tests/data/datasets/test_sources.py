"""Every kind of published file becomes the same graph, whatever it holds is not run, and pins are kept."""

import io
import os
import pickle
import tarfile
import threading
from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.io import savemat

from polynsd.data.datasets.archive import load_graph
from polynsd.data.datasets.entries import ENTRIES, ArchiveOnly, Download
from polynsd.data.datasets.formats import CITY_TENSORS, READERS, RawGraph, read_files
from polynsd.data.datasets.pickles import read_object_array, read_pickle
from polynsd.data.datasets.sources import download_graph
from polynsd.data.datasets.trust import fingerprint_of
from polynsd.data.validation import check_arrays
from polynsd.errors import DataError

DATA = Path(os.environ.get("POLYNSD_DATA", "."))
needs_data = pytest.mark.skipif("POLYNSD_DATA" not in os.environ, reason="POLYNSD_DATA is not set")
PARTS = ("train", "val", "test")

NODES = 20
EDGES = np.array([[0, 0, 1, 4], [1, 19, 2, 9]])
LABELS = np.arange(NODES) % 3
X = np.eye(NODES, 10, dtype=np.float32)
X[10:, 3] = 1
PART_OF = np.stack([(np.arange(NODES) + shift) % 3 for shift in range(10)])  # [10, N]
MASKS = [part == PART_OF for part in range(3)]


def both_directions(edges):
    """And a loop, and a repetition."""
    return np.concatenate([edges, edges[::-1], edges[:, :1], [[5], [5]]], axis=1)


def write_splits(folder, masks):
    files = {}
    for number, parts in enumerate(zip(*masks, strict=True)):
        files[f"split {number}"] = folder / f"{number}.npz"
        arrays = {f"{part}_mask": mask.astype(np.uint8) for part, mask in zip(PARTS, parts, strict=True)}
        np.savez(files[f"split {number}"], **arrays)
    return files


def write_geom_gcn(folder, edges, x, y, masks, words=False):
    rows = [np.flatnonzero(row) if words else row.astype(int) for row in x]
    nodes = [
        f"{i}\t{','.join(map(str, row))}\t{label}" for i, (row, label) in enumerate(zip(rows, y, strict=True))
    ]
    (folder / "nodes").write_text("\n".join(["node_id\tfeature\tlabel", *nodes, ""]))
    pairs = [f"{u}\t{v}" for u, v in both_directions(edges).T]
    (folder / "edges").write_text("\n".join(["node_id\tnode_id", *pairs, ""]))
    return {"nodes": folder / "nodes", "edges": folder / "edges", **write_splits(folder, masks)}


def write_planetoid(folder, edges, x, y, masks, public):
    """As Python 2 wrote it, in protocol 2; nodes of label −1 are missing among the test nodes."""
    test = np.flatnonzero(public[2])
    first, test = test.min(), np.random.RandomState(0).permutation(test)
    one_hot = np.eye(int(y.max()) + 1, dtype=np.int32)
    graph = defaultdict(list)
    for u, v in both_directions(edges).T.tolist():
        graph[u].append(v)
    contents = {
        "tx": sparse.csr_matrix(x[test]),
        "allx": sparse.csr_matrix(x[:first]),
        "y": one_hot[y[public[0]]],
        "ty": one_hot[y[test]],
        "ally": one_hot[y[:first]],
        "graph": graph,
    }
    for name, content in contents.items():
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))
    (folder / "test.index").write_text("\n".join(map(str, test)) + "\n")
    return {name: folder / name for name in (*contents, "test.index")} | write_splits(folder, masks)


def write_heterophilous(folder, edges, x, y, masks):
    named = {f"{part}_masks": mask for part, mask in zip(PARTS, masks, strict=True)}
    np.savez(folder / "data", node_features=x, node_labels=y, edges=edges.T, **named)
    return {"data": folder / "data.npz"}


def write_shchur(folder):
    """With names as objects, which nothing needs."""
    arrays = {}
    adjacency = sparse.csr_matrix((np.ones(4), EDGES), shape=(NODES, NODES))
    for key, matrix in (("attr", sparse.csr_matrix(2 * X)), ("adj", adjacency)):
        shaped = {name: getattr(matrix, name) for name in ("data", "indices", "indptr")}
        arrays |= {f"{key}_{name}": value for name, value in (shaped | {"shape": matrix.shape}).items()}
    np.savez(folder / "data", labels=LABELS, class_names=np.array(["a", None], dtype=object), **arrays)
    return {"data": folder / "data.npz"}


def write_twitch(folder):
    np.savez(folder / "data", edges=both_directions(EDGES).T, features=X.astype(int), target=LABELS)
    return {"data": folder / "data.npz"}


def write_facebook(folder, splits):
    """Two columns of categories beside the gender: X has the second for all, so it comes out as it is."""
    category = np.where(np.arange(NODES) < 10, np.arange(NODES), 3)
    table = np.stack([category, LABELS + 1], axis=1)
    both = both_directions(EDGES)
    savemat(
        str(folder / "data.mat"),
        {"A": sparse.csc_matrix((np.ones(both.shape[1]), both)), "local_info": table},
    )
    np.save(folder / "splits", np.array(splits, dtype=object), allow_pickle=True)
    return {"data": folder / "data.mat", "splits": folder / "splits.npy"}


def write_city(folder, masks):
    content = dict(zip(CITY_TENSORS, (X, both_directions(EDGES), LABELS, *masks), strict=True))
    with tarfile.open(folder / "data", "w:gz") as archive:
        for key, array in content.items():
            stream = io.BytesIO()
            torch.save(torch.from_numpy(array), stream)
            info = tarfile.TarInfo(f"paris/{CITY_TENSORS[key]}")
            info.size = len(stream.getvalue())
            archive.addfile(info, io.BytesIO(stream.getvalue()))
    return {"data": folder / "data"}


NUMBERS = [np.flatnonzero(mask[0]) for mask in MASKS]
FACEBOOK_X = np.eye(10, dtype=np.float32)[np.where(np.arange(NODES) < 10, np.arange(NODES), 3)]
WRITERS = {
    "geom-gcn": (lambda folder: write_geom_gcn(folder, EDGES, X, LABELS, MASKS), X, 10),
    "geom-gcn-words": (lambda folder: write_geom_gcn(folder, EDGES, X, LABELS, MASKS, words=True), X, 10),
    "heterophilous": (lambda folder: write_heterophilous(folder, EDGES, X, LABELS, MASKS), X, 10),
    "shchur": (write_shchur, X, 0),
    "twitch": (write_twitch, X, 0),
    "facebook": (
        lambda folder: write_facebook(folder, [dict(zip(("train", "valid", "test"), NUMBERS, strict=True))]),
        FACEBOOK_X,
        1,
    ),
    "city": (lambda folder: write_city(folder, NUMBERS), X, 1),
}


def graph_of(reader, files):
    graph = read_files(reader, files).to_graph("small")
    check_arrays(graph)
    return graph


@pytest.mark.parametrize("reader", WRITERS)
def test_every_kind_of_file_becomes_the_same_graph(reader, tmp_path):
    write, x, splits = WRITERS[reader]
    graph = graph_of(reader, write(tmp_path))
    assert np.array_equal(graph.edge_index, EDGES)
    assert np.array_equal(graph.x.toarray() if sparse.issparse(graph.x) else graph.x, x)
    assert np.array_equal(graph.y, LABELS)
    masks = graph.masks["default"] if splits else None
    assert all(
        np.array_equal(getattr(masks, part), mask[:splits])
        for part, mask in zip(PARTS, MASKS, strict=True)
        if splits
    )


def test_planetoid_brings_both_splits_and_knows_which_nodes_do_not_exist(tmp_path, monkeypatch):
    monkeypatch.setattr("polynsd.data.datasets.formats.NUM_VALIDATION", 9)
    public = np.zeros((3, NODES), dtype=bool)
    public[0, :3], public[1, 3:12], public[2, [12, 14, 15, 19]] = True, True, True  # four nodes are missing
    missing = np.isin(np.arange(NODES), [13, 16, 17, 18])
    x, y = np.where(missing[:, None], 0, X), np.where(missing, -1, LABELS)
    graph = graph_of("planetoid", write_planetoid(tmp_path, EDGES, x, y, MASKS, public))
    assert np.array_equal(graph.y, y)
    assert np.array_equal(graph.x.toarray() if sparse.issparse(graph.x) else graph.x, x)
    assert np.array_equal(graph.edge_index, EDGES)
    stored = graph.masks["public"]
    assert np.array_equal([stored.train[0], stored.val[0], stored.test[0]], public)
    assert np.array_equal(graph.masks["default"].test, MASKS[2] & ~missing)


def test_every_reader_is_tested_and_every_address_is_protected():
    assert {*WRITERS, "planetoid"} == set(READERS)
    downloads = [entry.source for entry in ENTRIES.values() if not isinstance(entry.source, ArchiveOnly)]
    assert {source.reader for source in downloads} == set(READERS)
    assert all(url.startswith("https://") for source in downloads for url in source.files.values())


# nothing that a file holds is run


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def evil_files(reader, folder, path):
    """Published files of a kind, the first of them replaced by one that runs code where it is unpickled."""
    evil = np.array([Evil(path)], dtype=object)
    if reader in ("twitch", "heterophilous", "shchur"):
        files = WRITERS[reader][0](folder)
        with np.load(files["data"], allow_pickle=True) as content:
            np.savez(files["data"], **dict.fromkeys(content.files, evil))
        return files
    if reader == "planetoid":
        files = {"tx": folder / "tx", "allx": folder / "tx"}
        files["tx"].write_bytes(pickle.dumps(Evil(path), protocol=2))
        return files
    if reader == "facebook":
        return write_facebook(folder, [Evil(path)])
    with tarfile.open(folder / "data", "w:gz") as archive:
        stream = io.BytesIO()
        torch.save(Evil(path), stream)
        info = tarfile.TarInfo(f"paris/{CITY_TENSORS['x']}")
        info.size = len(stream.getvalue())
        archive.addfile(info, io.BytesIO(stream.getvalue()))
    return {"data": folder / "data"}


@pytest.mark.parametrize("reader", ["twitch", "heterophilous", "shchur", "planetoid", "facebook", "city"])
def test_no_file_runs_code(reader, tmp_path):
    path = tmp_path / "it ran"
    files = evil_files(reader, tmp_path, path)
    with pytest.raises(DataError):
        read_files(reader, files)
    assert not path.exists()


PICKLED = [
    np.arange(6.0).reshape(2, 3),
    sparse.csr_matrix(np.eye(3)),
    defaultdict(list, {0: [1, 2], 1: []}),
    {"a": [np.int64(3), (1.5, None, True, "text")]},
]


@pytest.mark.parametrize("protocol", range(5))
@pytest.mark.parametrize("number", range(len(PICKLED)))
def test_containers_come_back_from_pickles(number, protocol, tmp_path):
    (tmp_path / "file").write_bytes(pickle.dumps(PICKLED[number], protocol))
    value = read_pickle(tmp_path / "file", object)
    dense, expected = (each.toarray() if sparse.issparse(each) else each for each in (value, PICKLED[number]))
    assert np.array_equal(dense, expected)


HOSTILE = {
    "system": b"cposix\nsystem\n(S'true'\ntR.",
    "eval": b"c__builtin__\neval\n(S'1'\ntR.",
    "getattr": b"c__builtin__\ngetattr\n(c__builtin__\nlist\nS'__class__'\ntR.",
    "load": b"cnumpy\nload\n(S'x'\ntR.",
    "large array": b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I99999999999\ntS'b'\ntR.",
    "call": b"cnumpy\nndarray\n((I99999999999\nttR.",
    "dtype": b"cnumpy\ndtype\n(S'V99999999999'\ntR.",
    "truncated": pickle.dumps(np.arange(100))[:-40],
    "nothing": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_other_pickles_are_refused(name, tmp_path):
    (tmp_path / "file").write_bytes(HOSTILE[name])
    with pytest.raises(DataError, match=r"^file: expected"):
        read_pickle(tmp_path / "file", object)


@pytest.mark.parametrize("reader", WRITERS)
def test_damaged_files_are_errors_of_data(reader, tmp_path):
    files = WRITERS[reader][0](tmp_path)
    for name, path in files.items():
        if name == "edges":  # fewer edges are edges; counts and fingerprints tell
            continue
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises(DataError):
            graph_of(reader, files)
        path.write_bytes(content)


def test_what_is_no_array_of_objects_is_refused(tmp_path):
    (tmp_path / "x.npy").write_bytes(b"no array")
    with pytest.raises(DataError, match=r"expected a \.npy file"):
        read_object_array(tmp_path / "x.npy")


# downloads


@contextmanager
def serving(folder):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_download_leaves_the_graph_and_nothing_else(tmp_path):
    published, cache, told = tmp_path / "published", tmp_path / "cache", []
    published.mkdir()
    cache.mkdir()
    files = write_geom_gcn(published, EDGES, X, LABELS, MASKS)
    with serving(published) as address:
        source = Download("geom-gcn", {key: f"{address}/{path.name}" for key, path in files.items()})
        graph = download_graph(source, "small", cache, lambda new, name: told.append((new, name)))
        files["edges"].write_text("<html>not found</html>")
        with pytest.raises(DataError, match="expected pairs of node numbers"):
            download_graph(source, "small", cache)
    assert np.array_equal(graph.edge_index, EDGES)
    assert {name for _, name in told} == {"small"}
    assert not list(cache.iterdir())


def test_features_are_stored_as_suits_them():
    full = RawGraph(np.array([[0], [1]]), np.ones((4, 2)), np.zeros(4)).to_graph("full")
    assert isinstance(full.x, np.ndarray)
    assert full.x.dtype == np.float32
    assert sparse.issparse(RawGraph(np.array([[0], [1]]), np.eye(9), np.zeros(9)).to_graph("thin").x)


def test_a_graph_without_edges_is_a_graph():
    check_arrays(RawGraph(np.zeros((2, 0), np.int64), np.ones((4, 2)), np.zeros(4)).to_graph("points"))


def republish(graph, entry, folder):
    """The files of a graph, as its publisher would write them."""
    x = graph.x.toarray() if sparse.issparse(graph.x) else graph.x
    masks = [getattr(graph.masks["default"], part) for part in PARTS]
    match entry.source.reader:
        case "planetoid":
            public = [getattr(graph.masks["public"], part)[0] for part in PARTS]
            return write_planetoid(folder, graph.edge_index, x, graph.y, masks, public)
        case "heterophilous":
            return write_heterophilous(folder, graph.edge_index, x, graph.y, masks)
        case reader:
            words = reader == "geom-gcn-words"
            return write_geom_gcn(folder, graph.edge_index, x, graph.y, masks, words)


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("name", ["texas", "film", "citeseer", "chameleon", "minesweeper"])
def test_what_is_downloaded_has_the_fingerprint_of_the_archive(name, tmp_path):
    entry, graph = ENTRIES[name], load_graph(DATA / f"{name}.npz")
    files = republish(graph, entry, tmp_path)
    assert set(files) == set(entry.source.files)
    assert fingerprint_of(graph_of(entry.source.reader, files)) == entry.sha256
