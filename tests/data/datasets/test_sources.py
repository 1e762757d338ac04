"""Every source of the catalogue, as PyG's classes and files would give it, becomes the same small graph."""

import inspect
import os
import socket
import threading
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch
import torch_geometric.datasets
from scipy import sparse
from torch_geometric.data import Data

from polynsd.data.datasets import sources
from polynsd.data.datasets.archive import load_graph
from polynsd.data.datasets.entries import ENTRIES, NpzFile, PygDataset
from polynsd.data.datasets.sources import _build_graph, download_graph
from polynsd.data.protocols import get_split
from polynsd.data.validation import check_arrays
from polynsd.errors import DataError

DATA = Path(os.environ.get("POLYNSD_DATA", "."))
needs_data = pytest.mark.skipif("POLYNSD_DATA" not in os.environ, reason="POLYNSD_DATA is not set")

FROM_PYG = [name for name, entry in ENTRIES.items() if isinstance(entry.source, PygDataset)]
NODES = 20
EDGES = {(0, 1), (1, 2), (4, 9), (0, 19)}
LABELS = np.arange(NODES) % 3
FEATURES = np.eye(NODES, 10, dtype=np.float32)


def small_data(*masks):
    """As PyG gives it: both directions, one edge doubled, a loop; masks in the form that is asked for."""
    forward = sorted(EDGES)
    pairs = [*forward, *((v, u) for u, v in forward), forward[0], (5, 5)]
    data = Data(
        x=torch.from_numpy(FEATURES),
        y=torch.from_numpy(LABELS),
        edge_index=torch.tensor(pairs).t().contiguous(),
    )
    for part, mask in zip(("train", "val", "test"), masks, strict=False):
        data[f"{part}_mask"] = mask
    return data


def ten_masks(dtype=torch.bool):
    part_of = torch.stack([(torch.arange(NODES) + shift) % 3 for shift in range(10)], dim=1)  # [N, 10]
    return [(part_of == part).to(dtype) for part in range(3)]


def fake(monkeypatch, dataset, data):
    """Replaces a dataset class of PyG by one that only notes how it is called."""
    calls = []

    def make(root, **arguments):
        assert Path(root).is_dir()
        calls.append(arguments)
        return [data if isinstance(data, Data) else data(**arguments)]

    monkeypatch.setattr(torch_geometric.datasets, dataset, make)
    return calls


def obtained(name, folder):
    graph = download_graph(ENTRIES[name].source, name, folder)
    check_arrays(graph)
    return graph


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


def check_small(graph, name):
    assert graph.name == name
    assert set(map(tuple, graph.edge_index.T.tolist())) == EDGES
    assert np.array_equal(graph.x.toarray(), FEATURES)
    assert np.array_equal(graph.y, LABELS)


@pytest.mark.parametrize("name", FROM_PYG)
def test_pyg_classes_are_called_as_they_want_and_leave_nothing(name, tmp_path, monkeypatch):
    source = ENTRIES[name].source
    real = getattr(torch_geometric.datasets, source.dataset)
    calls = fake(monkeypatch, source.dataset, small_data(*ten_masks()))
    if source.dataset == "Planetoid":
        monkeypatch.setattr(sources, "_remove_planetoid_fillers", lambda graph: graph)
    graph = obtained(name, tmp_path)
    check_small(graph, name)
    assert len(graph.masks["default"]) == 10
    assert calls == [{**source.arguments, **extra} for extra in source.masks.values()]
    for arguments in calls:
        inspect.signature(real.__init__).bind(None, root="", **arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64])
def test_masks_of_any_type_become_rows(tmp_path, monkeypatch, dtype):
    fake(monkeypatch, "WebKB", small_data(*ten_masks(dtype)))
    masks = obtained("texas", tmp_path).masks["default"]
    for part, expected in zip(("train", "val", "test"), ten_masks(), strict=True):
        assert np.array_equal(getattr(masks, part), expected.numpy().T)


def test_city_masks_may_be_node_numbers(tmp_path, monkeypatch):
    order = torch.from_numpy(np.random.RandomState(0).permutation(NODES))
    calls = fake(monkeypatch, "CityNetwork", small_data(order[:2], order[2:4], order[4:]))
    graph = obtained("los_angeles", tmp_path)
    assert calls == [{"name": "la"}]
    assert get_split(graph, "stored", 0) == get_split(graph, "city-10-10-80", 0)


@pytest.mark.parametrize("wrong", [torch.tensor([3, NODES]), torch.tensor([-1, 3]), torch.rand(NODES)])
def test_masks_that_are_neither_are_refused(tmp_path, monkeypatch, wrong):
    fake(monkeypatch, "CityNetwork", small_data(wrong, wrong, wrong))
    with pytest.raises(
        DataError, match=r"or node numbers below 20; got .* The source has changed its format"
    ):
        obtained("paris", tmp_path)


def test_progress_names_what_pyg_downloads(tmp_path, monkeypatch):
    fake(monkeypatch, "Twitch", small_data())
    calls = []
    download_graph(ENTRIES["twitch_en"].source, "twitch_en", tmp_path, lambda *new: calls.append(new))
    assert calls == [(0, "twitch_en")]


def test_datasets_without_masks_have_none(tmp_path, monkeypatch):
    fake(monkeypatch, "Twitch", small_data())
    assert not obtained("twitch_en", tmp_path).masks


def test_planetoid_brings_both_splits_and_withdraws_made_up_labels(tmp_path, monkeypatch):
    public = [torch.zeros(NODES, dtype=torch.bool) for _ in range(3)]
    public[0][:3], public[1][3:6] = True, True
    public[2][[12, 14, 15, 18]] = True  # 13, 16 and 17 are fillers
    versions = {"public": small_data(*public), "geom-gcn": small_data(*ten_masks(torch.uint8))}
    fake(monkeypatch, "Planetoid", lambda name, split: versions[split])
    graph = obtained("citeseer", tmp_path)
    assert np.flatnonzero(graph.y == -1).tolist() == [13, 16, 17]
    assert graph.masks["public"].train.tolist() == [public[0].tolist()]
    covered = graph.masks["default"].train | graph.masks["default"].val | graph.masks["default"].test
    assert np.array_equal(covered, np.tile(graph.y >= 0, (10, 1)))


def test_features_are_stored_as_suits_them():
    full = _build_graph("full", np.array([[0], [1]]), np.ones((4, 2)), np.zeros(4), {})
    assert isinstance(full.x, np.ndarray)
    assert full.x.dtype == np.float32
    assert sparse.issparse(_build_graph("thin", np.array([[0], [1]]), np.eye(9), np.zeros(9), {}).x)


def test_a_graph_without_edges_is_a_graph():
    check_arrays(_build_graph("points", np.zeros((2, 0), np.int64), np.ones((4, 2)), np.zeros(4), {}))


def heterophilous_file(path):
    masks = {
        f"{part}_masks": mask.numpy().T
        for part, mask in zip(("train", "val", "test"), ten_masks(), strict=True)
    }
    np.savez(path, node_features=FEATURES, node_labels=LABELS, edges=np.array(sorted(EDGES)), **masks)


@pytest.mark.parametrize("name", ["squirrel_filtered", "chameleon_filtered"])
def test_filtered_graphs_come_from_a_file(name, tmp_path):
    assert ENTRIES[name].source.url.endswith(f"/data/{name}.npz")
    heterophilous_file(tmp_path / "source.npz")
    with serving(tmp_path) as address:
        graph = download_graph(NpzFile(f"{address}/source.npz"), name, tmp_path)
    check_arrays(graph)
    check_small(graph, name)
    assert graph.masks["default"].val.shape == (10, NODES)
    assert not list((tmp_path / "downloads").iterdir())


def test_a_damaged_file_is_not_kept(tmp_path):
    (tmp_path / "source.npz").write_bytes(b"<html>not found</html>")
    with serving(tmp_path) as address, pytest.raises(DataError, match="expected an intact"):
        download_graph(NpzFile(f"{address}/source.npz"), "squirrel_filtered", tmp_path)
    assert not list((tmp_path / "downloads").iterdir())


def test_pyg_itself_downloads_and_processes(tmp_path, monkeypatch):
    heterophilous_file(tmp_path / "tolokers.npz")
    with serving(tmp_path) as address:
        monkeypatch.setattr(torch_geometric.datasets.HeterophilousGraphDataset, "url", address)
        check_small(obtained("tolokers", tmp_path), "tolokers")


def test_an_old_pyg_is_told_apart_from_a_missing_network(tmp_path, monkeypatch):
    monkeypatch.delattr(torch_geometric.datasets, "CityNetwork")
    with pytest.raises(
        DataError, match=r"has no dataset CityNetwork; update it with pip install -U torch_geometric"
    ):
        obtained("paris", tmp_path)


def test_waiting_for_pyg_is_bounded_and_the_setting_is_restored(tmp_path, monkeypatch):
    seen = []
    fake(monkeypatch, "WebKB", lambda **_: seen.append(socket.getdefaulttimeout()) or small_data())
    obtained("texas", tmp_path)
    assert seen == [30.0]
    assert socket.getdefaulttimeout() is None


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed"])
def test_the_filler_rule_finds_the_nodes_without_label(name):
    graph = load_graph(DATA / f"{name}.npz")
    named = replace(graph, y=np.maximum(graph.y, 0))
    assert np.array_equal(sources._remove_planetoid_fillers(named).y, graph.y)


@pytest.mark.data
@needs_data
def test_a_download_gives_what_the_archive_holds(tmp_path, monkeypatch):
    """Minesweeper, written as its publisher does and read back through PyG's class."""
    stored = load_graph(DATA / "minesweeper.npz")
    masks = {f"{part}_masks": getattr(stored.masks["default"], part) for part in ("train", "val", "test")}
    edges = stored.edge_index.T.astype(np.int64)
    np.savez(tmp_path / "minesweeper.npz", node_features=stored.x, node_labels=stored.y, edges=edges, **masks)
    with serving(tmp_path) as address:
        monkeypatch.setattr(torch_geometric.datasets.HeterophilousGraphDataset, "url", address)
        graph = obtained("minesweeper", tmp_path)
    assert all(
        np.array_equal(getattr(graph, what), getattr(stored, what)) for what in ("edge_index", "x", "y")
    )
    for part in fields(stored.masks["default"]):
        found, expected = (getattr(g.masks["default"], part.name) for g in (graph, stored))
        assert np.array_equal(found, expected)
