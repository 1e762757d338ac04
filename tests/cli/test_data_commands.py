"""`polynsd data …`, as a user types it."""

from dataclasses import replace

import numpy as np
import pytest

from polynsd.cli import main
from polynsd.data import load_graph, save_graph, syntax_chain
from polynsd.data.datasets.catalogue import names


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder and a cache of one's own, so that nothing else is found."""
    monkeypatch.setenv("POLYNSD_DATA", str(tmp_path))
    monkeypatch.setenv("POLYNSD_CACHE", str(tmp_path / "cache"))
    return tmp_path


def run(capsys, *arguments):
    main(["data", *map(str, arguments)])
    return capsys.readouterr().out


def failure(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        run(capsys, *arguments)
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_list_names_every_dataset_and_where_it_is(folder, capsys):
    (folder / "texas.npz").touch()
    lines = run(capsys, "list").splitlines()
    rows = {line.split()[0]: line for line in lines if line.strip() and line.split()[0] in names()}
    assert set(rows) == set(names())
    assert "at hand" in rows["texas"]
    assert "to fetch" in rows["wisconsin"]


def test_make_show_check_and_convert_there_and_back(folder, capsys):
    archive, table = folder / "mine.npz", folder / "mine.csv"
    out = run(capsys, "make", "minesweeper", "rows=12", "cols=10", "seed=3", "--out", archive)
    assert "2 (0: 96, 1: 24)" in out
    shown = run(capsys, "show", archive, "--picture", folder / "mine.png")
    assert "adjusted homophily" in shown
    assert (folder / "mine.png").read_bytes().startswith(b"\x89PNG")
    assert "is valid" in run(capsys, "check", archive)
    run(capsys, "convert", archive, table)
    back = folder / "back.npz"
    run(capsys, "convert", table, back, "--nodes", folder / "mine_nodes.csv", "--label", "label")
    first, second = load_graph(archive), load_graph(back)
    assert (first.edge_index == second.edge_index).all()
    assert (first.y == second.y).all()
    assert (first.x == second.x).all()


def test_show_lists_the_splits_with_their_hashes(folder, capsys):
    graph = syntax_chain(num_nodes=200, num_classes=4)
    save_graph(folder / "chain.npz", graph)
    out = run(capsys, "show", folder / "chain.npz")
    assert graph.masks["default"].split(0).fingerprint[:12] in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "texsa"], "Did you mean 'texas'?"),
        (["show", "missing.npz"], "missing.npz"),
        (["check", "missing.csv"], "missing.csv"),
        (["make", "mines"], "unknown generator 'mines'"),
        (["make", "minesweeper", "rows"], "key=value"),
        (["make", "minesweeper", "row=3"], "Did you mean 'rows'?"),
        (["fetch", "cornell"], "no cornell.npz in"),
        (["fetch", "twitch_en"], "polynsd data fetch twitch_en --trust"),
        (["shw", "texas"], "unknown command 'data shw'"),
    ],
)
def test_mistakes(folder, capsys, arguments, words):
    assert words in failure(capsys, *arguments)


def test_a_broken_archive_is_named(folder, capsys):
    broken = folder / "broken.npz"
    broken.write_bytes(b"PK\x03\x04 not a zip file")
    assert "broken.npz" in failure(capsys, "check", broken)


def test_show_warns_of_known_traps(folder, capsys, monkeypatch):
    graph = syntax_chain(num_nodes=200, num_classes=4)
    monkeypatch.setattr("polynsd.data.datasets.catalogue.load", lambda name: graph)
    out = run(capsys, "show", "cornell")
    assert "features and labels of Texas on the edges of Cornell" in out
    assert "protocols: geom-gcn" in out


def test_fetch_says_where_it_is(folder, capsys, monkeypatch):
    graph = syntax_chain(num_nodes=200, num_classes=4)
    monkeypatch.setattr(
        "polynsd.data.datasets.catalogue.load", lambda name, progress, **_: progress(4096, name) or graph
    )
    main(["data", "fetch", "texas"])
    captured = capsys.readouterr()
    assert "nodes=200" in captured.out
    assert "4 KiB  texas" in captured.err


def test_tables_of_ones_own_are_shown_with_labels_and_weights(folder, capsys):
    (folder / "edges.csv").write_text("from,to,amount\na,b,1.5\nb,c,2\nc,d,1\n")
    (folder / "nodes.csv").write_text("id,age,kind\na,1,x\nb,2,y\nc,3,x\nd,4,\n")
    tables = ["--nodes", folder / "nodes.csv", "--label", "kind", "--weight", "amount"]
    shown = run(capsys, "show", folder / "edges.csv", *tables)
    assert "2 (x: 2, y: 1)" in shown
    assert "unlabelled nodes" in shown
    assert "is valid" in run(capsys, "check", folder / "edges.csv", *tables)
    run(capsys, "convert", folder / "edges.csv", folder / "own.npz", *tables)
    graph = load_graph(folder / "own.npz")
    assert graph.edge_weight.tolist() == [1.5, 2.0, 1.0]
    assert graph.ids.tolist() == ["a", "b", "c", "d"]


def test_any_table_is_shown(folder, capsys):
    (folder / "nodes.csv").write_text("id;born;kind\n1;2001-05-03;x\n2;1999-01-31;\n3;2010-12-24;y\n")
    shown = run(capsys, "show", folder / "nodes.csv", "--delimiter", ";")
    assert "3 rows" in shown
    assert "1999-01-31 … 2010-12-24" in shown
    assert "not shown as a table of edges" in " ".join(shown.split())
    (folder / "edges.csv").write_text("from,to\n1,2\n2,9\n")
    assert "--delimiter ';'" in failure(capsys, "show", folder / "nodes.csv")
    (folder / "few.csv").write_text("id,kind\n1,x\n2,y\n")
    shown = run(capsys, "show", folder / "edges.csv", "--nodes", folder / "few.csv")
    assert "no graph can be made of it" in shown


def test_other_spellings_of_a_name_mean_the_same_dataset(folder, capsys, monkeypatch):
    graph = syntax_chain(num_nodes=200, num_classes=4)
    monkeypatch.setattr("polynsd.data.datasets.catalogue.load", lambda name: graph)
    assert "citation" in run(capsys, "show", "Texas")


def test_pictures_are_png_files(folder, capsys):
    assert "end in .png" in failure(capsys, "show", "texas", "--picture", "x.txt")


def test_an_empty_part_is_told_and_not_fatal(folder, capsys):
    graph = syntax_chain(num_nodes=200, num_classes=4)
    masks = graph.masks["default"]
    hollow = replace(graph, masks={"default": replace(masks, val=np.zeros_like(masks.val))})
    save_graph(folder / "hollow.npz", hollow)
    assert "a part is empty" in run(capsys, "show", folder / "hollow.npz")
