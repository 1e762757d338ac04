"""The catalogue: every entry is complete, archives are found and checked, real ones are as expected."""

import csv
import logging
import os
import socket
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polynsd.data import protocols
from polynsd.data import transforms as preprocess
from polynsd.data.datasets import catalogue, sources
from polynsd.data.datasets.archive import save_graph
from polynsd.data.datasets.catalogue import get_entry, load, locate, names, open_graph
from polynsd.data.datasets.entries import ENTRIES, ArchiveOnly, Download
from polynsd.data.datasets.trust import fingerprint_of
from polynsd.data.graph import Graph
from polynsd.errors import ConfigError, DataError
from polynsd.spec import parse_spec

DATA = Path(os.environ.get("POLYNSD_DATA", "."))
needs_data = pytest.mark.skipif("POLYNSD_DATA" not in os.environ, reason="POLYNSD_DATA is not set")

DOWNLOADED = [name for name, entry in ENTRIES.items() if isinstance(entry.source, Download)]
BY_HAND = [name for name, entry in ENTRIES.items() if isinstance(entry.source, ArchiveOnly)]
REQUIRED = """texas wisconsin cornell cornell_fixed film squirrel chameleon cora citeseer pubmed
chameleon_filtered squirrel_filtered roman_empire roman_empire_glovesub amazon_ratings minesweeper tolokers
questions paris shanghai los_angeles london huangpu pasadena citylike_aleppo citylike_bucaramanga
citylike_douala citylike_liege citylike_wuhan amazon_computers amazon_photo coauthor_cs coauthor_physics
twitch_de twitch_en twitch_es twitch_fr twitch_pt twitch_ru fb100_cornell5 penn94"""

SMALL = Graph(
    "small",
    edge_index=np.array([[0, 1, 4, 0], [1, 2, 9, 19]], dtype=np.int32),
    num_nodes=20,
    x=np.ones((20, 7), dtype=np.float32),
    y=np.arange(20) % 3,
)


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch, request):
    """An empty cache, and no folder of archives unless the test is about real ones."""
    monkeypatch.setenv("POLYNSD_CACHE", str(tmp_path / "cache"))
    if request.node.get_closest_marker("data") is None:
        monkeypatch.delenv("POLYNSD_DATA", raising=False)
    return tmp_path


@pytest.fixture
def small_entries(monkeypatch):
    """The catalogue with the counts of the small graph."""
    known = {"nodes": 20, "edges": 4, "features": 7, "classes": 3, "class_sizes": None}
    entries = {
        name: replace(entry, **known, sha256=entry.sha256 and fingerprint_of(SMALL))
        for name, entry in ENTRIES.items()
    }
    monkeypatch.setattr(catalogue, "ENTRIES", entries)


@pytest.fixture
def downloads(monkeypatch):
    """The names of the datasets that were asked for, the small graph being all there is."""
    asked = []
    monkeypatch.setattr(
        sources,
        "download_graph",
        lambda source, name, cache, progress: asked.append(name) or replace(SMALL, name=name),
    )
    return asked


@pytest.fixture
def offline(monkeypatch):
    def refuse(*arguments, **options):
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("no_proxy", "*")


def test_every_dataset_is_there():
    assert set(names()) == set(REQUIRED.split())
    assert all(name == entry.name for name, entry in ENTRIES.items())


@pytest.mark.parametrize("name", names())
def test_entries_are_complete_and_name_what_exists(name):
    entry = ENTRIES[name]
    assert all(getattr(entry, what) for what in ("title", "licence", "citation", "protocols"))
    assert entry.metric in ("accuracy", "roc_auc")
    assert entry.task == "classification"
    assert entry.preprocessing in preprocess.RULES
    known = {*protocols.STORED, *protocols.RULES, protocols.STRATIFIED}
    assert {parse_spec(protocol).name for protocol in entry.protocols} <= known
    assert entry.class_sizes is None or len(entry.class_sizes) == entry.classes
    assert entry.nodes is not None


def test_two_classes_are_measured_by_ranking_where_papers_do():
    ranked = {name for name, entry in ENTRIES.items() if entry.metric == "roc_auc"}
    assert ranked == {"minesweeper", "tolokers", "questions", *(n for n in ENTRIES if n.startswith("twitch"))}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cornell", "labels of Texas"),
        ("squirrel", "prefer squirrel_filtered"),
        ("cora", "2,485"),
        ("citeseer", "2,120"),
        ("roman_empire_glovesub", "must not be set beside published"),
        ("huangpu", "recomputed"),
    ],
)
def test_known_traps_are_told(name, text):
    assert text in ENTRIES[name].warning


@pytest.mark.parametrize(
    ("spelling", "name"), [("Roman-Empire", "roman_empire"), ("Actor", "film"), ("la", "los_angeles")]
)
def test_usual_spellings_are_understood(spelling, name):
    assert get_entry(spelling).name == name


def test_unknown_names_get_a_suggestion():
    with pytest.raises(ConfigError, match=r"unknown dataset 'texsa'.*Did you mean 'texas'"):
        load("texsa")


def test_the_named_folder_comes_before_the_cache_and_root_before_both(folders, small_entries, monkeypatch):
    for scale, place in enumerate(("cache", "data", "root"), 1):
        (folders / place).mkdir()
        save_graph(folders / place / "texas.npz", replace(SMALL, x=SMALL.x * scale))
    assert locate("texas") == folders / "cache" / "texas.npz"
    assert load("texas").x.max() == 1
    monkeypatch.setenv("POLYNSD_DATA", str(folders / "data"))
    assert load("texas").x.max() == 2
    assert load("texas", root=folders / "root").x.max() == 3
    assert locate("texas", folders / "root") == folders / "root" / "texas.npz"
    assert locate("wisconsin") is None


def test_a_folder_that_does_not_exist_is_an_error(folders, monkeypatch):
    with pytest.raises(DataError, match=r"root must name a folder of archives; .*nowhere is none"):
        load("texas", root=folders / "nowhere")
    monkeypatch.setenv("POLYNSD_DATA", str(folders / "nowhere"))
    with pytest.raises(DataError, match="POLYNSD_DATA must name a folder"):
        load("texas")


def test_the_cache_is_where_users_keep_caches(monkeypatch):
    monkeypatch.delenv("POLYNSD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert catalogue.cache_folder() == Path("/somewhere/polynsd")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    assert catalogue.cache_folder() == Path.home() / ".cache" / "polynsd"


def test_wrong_counts_are_an_error_that_tells_both(folders, small_entries):
    save_graph(folders / "texas.npz", replace(SMALL, edge_index=SMALL.edge_index[:, :1]))
    with pytest.raises(
        DataError, match=r"texas.npz is not the dataset 'texas' \(Texas\): edges: 4 expected, 1 found"
    ):
        load("texas", root=folders)


def test_a_mix_up_of_the_two_cornells_is_noticed(folders):
    texas = ENTRIES["cornell"]
    y = np.repeat(np.arange(5), texas.class_sizes)
    edges = np.array(np.triu_indices(183, 1))[:, : texas.edges].astype(np.int32)
    graph = Graph("cornell_fixed", edges, 183, x=np.zeros((183, 1703), np.float32), y=y)
    save_graph(folders / "cornell_fixed.npz", graph)
    with pytest.raises(
        DataError, match=r"class sizes: \(38, 16, 30, 82, 17\) expected, \(33, 1, 18, 101, 30\) found"
    ):
        load("cornell_fixed", root=folders)


def test_features_may_be_missing_only_where_the_entry_says_so(folders, small_entries):
    for name in ("roman_empire", "tolokers"):
        save_graph(folders / f"{name}.npz", replace(SMALL, x=None))
    assert load("roman_empire", root=folders).x is None
    with pytest.raises(DataError, match="features: 7 expected, 0 found"):
        load("tolokers", root=folders)


def test_counts_that_are_not_known_are_not_checked(folders, small_entries, monkeypatch):
    entry = replace(catalogue.ENTRIES["penn94"], nodes=None, edges=None, features=None, classes=None)
    monkeypatch.setitem(catalogue.ENTRIES, "penn94", entry)
    save_graph(folders / "penn94.npz", replace(SMALL, y=None))
    assert load("penn94", root=folders).num_classes == 0


def test_traps_are_logged_on_loading(folders, small_entries, caplog):
    save_graph(folders / "cornell.npz", SMALL)
    with caplog.at_level(logging.WARNING, logger="polynsd"):
        load("cornell", root=folders)
    assert "cornell: It has the features and labels of Texas" in caplog.text


def test_downloads_are_made_once_and_kept_in_the_cache(folders, small_entries, downloads):
    for _ in range(2):
        assert load("Actor").name == "film"
    assert downloads == ["film"]
    assert locate("film") == folders / "cache" / "film.npz"


def test_changed_data_are_not_kept(folders, downloads):
    with pytest.raises(
        DataError, match=r"label.txt is not the dataset 'texas' .*nodes: 183 expected, 20 found"
    ):
        load("texas")
    assert not list((folders / "cache").iterdir())


@pytest.mark.parametrize("name", DOWNLOADED)
def test_without_a_network_one_error_says_where_it_looked_and_what_to_do(name, offline, folders):
    with pytest.raises(DataError) as error:
        load(name, root=folders, trust=True)
    text = str(error.value)
    assert f"no {name}.npz in {folders} or {folders / 'cache'}" in text
    assert "name resolution" in text
    assert f"POLYNSD_DATA, or connect to the network to get it from {ENTRIES[name].source}." in text
    assert "\n" not in text
    assert not list(catalogue.cache_folder().iterdir())


def test_what_nobody_knows_is_fetched_only_on_request_and_stays_the_same(
    folders, small_entries, downloads, monkeypatch
):
    with pytest.raises(DataError, match=r"no fingerprint of it is known.*polynsd data fetch penn94 --trust"):
        load("penn94")
    assert downloads == []
    load("penn94", trust=True)
    for trust in (False, True):
        (folders / "cache" / "penn94.npz").unlink()
        load("penn94", trust=trust)  # as accepted before
    (folders / "cache" / "penn94.npz").unlink()
    other = replace(SMALL, x=2 * SMALL.x)
    monkeypatch.setattr(sources, "download_graph", lambda *_: other)
    with pytest.raises(
        DataError, match=f"its SHA-256 is {fingerprint_of(other)}, not {fingerprint_of(SMALL)}"
    ):
        load("penn94", trust=True)
    assert locate("penn94") is None
    load("penn94", sha256=fingerprint_of(other))


def test_what_is_known_must_be_so_even_if_it_is_trusted(folders, downloads, small_entries, monkeypatch):
    monkeypatch.setattr(sources, "download_graph", lambda *_: replace(SMALL, y=SMALL.y[::-1].copy()))
    for options in ({}, {"trust": True}):
        with pytest.raises(DataError, match="is not the graph that was expected"):
            load("film", **options)
    assert not list((folders / "cache").iterdir())
    with pytest.raises(ConfigError, match="64 lower-case hexadecimal digits"):
        load("film", sha256="abc")


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.sha256])
def test_known_fingerprints_are_those_of_the_archives(name):
    assert fingerprint_of(load(name, download=False)) == ENTRIES[name].sha256


@pytest.mark.parametrize("name", BY_HAND)
def test_what_cannot_be_downloaded_says_why(name):
    with pytest.raises(DataError, match="it cannot be downloaded: ") as error:
        load(name)
    assert ENTRIES[name].source.reason in str(error.value)
    assert str(error.value).endswith("Put the archive into a folder and name that in POLYNSD_DATA.")


def test_downloads_can_be_forbidden(folders):
    with pytest.raises(DataError, match=r"no texas.npz in .*cache, and downloading was not permitted"):
        load("texas", download=False)
    assert not (folders / "cache").exists()


@pytest.mark.data
@needs_data
def test_every_archive_has_an_entry_and_the_counts_of_the_manifest():
    with (DATA / "MANIFEST.csv").open() as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    assert set(rows) == {path.stem for path in DATA.glob("*.npz")}
    for name, row in rows.items():
        graph, entry = load(name, download=False), ENTRIES[name]
        counted = (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes)
        assert counted == tuple(int(row[what]) for what in ("nodes", "edges", "features", "classes"))
        expected = (entry.nodes, entry.edges, 0 if name == "roman_empire" else entry.features, entry.classes)
        assert counted == expected


@pytest.mark.data
@needs_data
@pytest.mark.parametrize(
    ("name", "homophily"),
    [
        ("texas", 0.061),
        ("wisconsin", 0.178),
        ("cornell", 0.296),
        ("cornell_fixed", 0.123),
        ("film", 0.217),
        ("squirrel", 0.222),
        ("chameleon", 0.230),
        ("citeseer", 0.736),
        ("pubmed", 0.802),
        ("cora", 0.810),
        ("chameleon_filtered", 0.236),
        ("squirrel_filtered", 0.207),
        ("minesweeper", 0.683),
        ("tolokers", 0.595),
        ("roman_empire", 0.047),
    ],
)
def test_edge_homophily_is_the_published_one(name, homophily):
    graph = load(name, download=False)
    y = np.maximum(graph.y, 0)  # publications count citeseer's nodes without a label as class 0
    source, target = y[graph.edge_index]
    assert round(float((source == target).mean()), 3) == homophily


@pytest.mark.data
@needs_data
def test_legacy_cornell_is_texas_on_other_edges():
    texas, cornell, fixed = (load(name, download=False) for name in ("texas", "cornell", "cornell_fixed"))
    assert (texas.x != cornell.x).nnz == 0
    assert np.array_equal(texas.y, cornell.y)
    assert not np.array_equal(texas.edge_index, cornell.edge_index)
    assert not np.array_equal(fixed.y, cornell.y)


def test_extras_on_demand(folders, small_entries):
    save_graph(folders / "texas.npz", replace(SMALL, extras={"words": np.arange(3)}))
    assert not load("texas", root=folders).extras
    assert load("texas", root=folders, extras=True).extras["words"].tolist() == [0, 1, 2]


def test_missing_features_name_the_substitute(folders, small_entries, caplog):
    save_graph(folders / "roman_empire.npz", replace(SMALL, x=None))
    load("roman_empire", root=folders)
    assert "has no features, and models need some. Load 'roman_empire_glovesub'" in caplog.text


def test_a_cache_that_cannot_be_written(folders, small_entries, downloads):
    (folders / "cache").write_text("a file in the way")
    with pytest.raises(DataError, match=r"the cache folder .*cache cannot be written.*POLYNSD_CACHE"):
        load("texas")
    assert downloads == []


def test_a_benchmark_comes_with_its_entry(monkeypatch):
    monkeypatch.setattr(catalogue, "load", lambda name: SMALL)
    assert open_graph("texas") == (SMALL, ENTRIES["texas"], None)


def test_an_archive_has_neither_entry_nor_report(tmp_path):
    graph = replace(SMALL, extras={"words": np.arange(3)})
    save_graph(tmp_path / "mine.npz", graph)
    opened, entry, report = open_graph(str(tmp_path / "mine.npz"))
    assert (entry, report) == (None, None)
    assert np.array_equal(opened.edge_index, graph.edge_index)
    assert not opened.extras
    assert open_graph(str(tmp_path / "mine.npz"), extras=True)[0].extras.keys() == graph.extras.keys()


def test_tables_come_with_a_report(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target,amount\n0,1,2.0\n1,2,3.0\n2,2,1.0\n")
    (tmp_path / "nodes.csv").write_text("id,size,kind\n0,1.5,a\n1,2.5,b\n2,3.5,a\n")
    tables = (str(tmp_path / "edges.csv"), tmp_path / "nodes.csv")
    graph, entry, report = open_graph(*tables, label="kind", weight="amount")
    assert entry is None
    assert "1" in str(report)  # a loop was dropped
    assert graph.edge_weight.tolist() == [2.0, 3.0]
    assert graph.y.tolist() == [0, 1, 0]
    assert graph.x.shape == (3, 1)
    assert open_graph(*tables)[0].x.shape[1] > 1  # then the kind is a feature


def test_a_name_of_nothing():
    with pytest.raises(ConfigError, match=r"Did you mean 'texas'"):
        open_graph("texsa")
    with pytest.raises((DataError, OSError), match=r"nothing\.npz"):
        open_graph("nothing.npz")
