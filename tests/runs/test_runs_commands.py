"""`polynsd runs …`."""

import json
from pathlib import Path

import pandas
import pytest
from many_runs import finished, unfinished

from polynsd.cli import main
from polynsd.cli.runs import RunsList, RunsShow
from polynsd.cli.runs_compare import RunsCompare
from polynsd.errors import ConfigError, DataError

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def root(tmp_path):
    finished(tmp_path / "poly", "PolyNSD", [0.8, 0.9], layer={"degree": 4})
    finished(tmp_path / "gcn", "GCN", [0.5, 0.7])
    unfinished(tmp_path / "open")
    return tmp_path


def test_list_shows_every_run(root, capsys):
    RunsList(root).run()
    out = capsys.readouterr().out
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "3 of 3 runs" in out
    assert "0.8500 ± 0.0500" in lines["poly"]
    assert "finished" in lines["gcn"]
    assert "unfinished" in lines["open"]


def test_list_selects_and_sorts(root, capsys):
    found = RunsList(root, where="state = 'finished'", sort="-test").run()
    assert [row["folder"] for row in found] == ["poly", "gcn"]
    assert [row["folder"] for row in RunsList(root, sort="test").run()] == ["gcn", "poly", "open"]
    with pytest.raises(ConfigError, match="unknown column 'tset'"):
        RunsList(root, sort="tset").run()
    with pytest.raises(ConfigError, match="cannot be asked"):
        RunsList(root, where="tset > 1").run()


def test_list_as_json(root, capsys):
    found = RunsList(root, json=True).run()
    assert json.loads(capsys.readouterr().out) == found


def test_list_tells_of_damage(root, capsys):
    (root / "gcn" / "config.json").write_text("?")
    RunsList(root).run()
    assert f"damaged: {root}/gcn/config.json is damaged" in capsys.readouterr().out.replace("\n", " ")


def test_show_a_finished_run(root, capsys):
    RunsShow(root / "poly").run()
    out = " ".join(capsys.readouterr().out.split())
    for part in (
        "kind protocol",
        "state finished",
        "config.layer.degree 4",
        "model PolyNSD",
        "timings.seconds 1.5",
    ):
        assert part in out
    assert "1 1 0.91 0.9 10 50" in out  # the second split
    assert "val_metric 0 0 0.2 0.2" in out  # the curve
    assert "started 2026-01-01" in out


def test_show_an_unfinished_run_and_none(root, capsys):
    RunsShow(root / "open").run()
    assert "start it again to go on" in capsys.readouterr().out
    with pytest.raises(DataError, match=r"is no run: it has no config\.json"):
        RunsShow(root).run()


def test_show_as_json(root, capsys):
    record = RunsShow(root / "gcn", json=True).run()
    shown = json.loads(capsys.readouterr().out)
    assert shown["result"] == record.result
    assert shown["state"] == "finished"


def test_compare_two_runs_with_the_first(root, capsys):
    _, poly = RunsCompare((root / "gcn", root / "poly")).run()
    assert poly["against"] == "gcn"
    assert poly["difference"] == pytest.approx(0.25)
    assert (poly["pairs"], poly["wins"]) == (2, 2)
    assert "+0.2500 ± 0.0500" in capsys.readouterr().out


def test_compare_a_folder_of_runs(root, capsys):
    table = RunsCompare((root,), by="model,dataset", out=root / "table.csv").run()
    assert [row["model"] for row in table] == ["GCN", "PolyNSD"]
    assert table[0]["against"] == "PolyNSD"
    assert len(pandas.read_csv(root / "table.csv")) == 2
    capsys.readouterr()
    RunsCompare((root,), baseline="GCN", json=True).run()
    assert json.loads(capsys.readouterr().out)[1]["against"] == "GCN"


def test_compare_refuses_before_it_works(root):
    with pytest.raises(ConfigError, match="name the runs"):
        RunsCompare(()).run()
    with pytest.raises(ConfigError, match=r"\.csv or \.parquet"):
        RunsCompare((Path("nowhere"),), out=Path("table.xlsx")).run()


def test_compare_refuses_what_it_cannot_compare(root, tmp_path):
    folders = root / "gcn", finished(root / "auc", "GCN", [0.5], dataset="cornell", metric="roc_auc")
    with pytest.raises(ConfigError, match="the dataset is texas in gcn, cornell in auc; the metric is acc"):
        RunsCompare(folders).run()
    with pytest.raises(ConfigError, match="other has no score on unseen rows"):
        RunsCompare((root / "gcn", unfinished(root / "other"))).run()


@pytest.fixture
def polynsd():
    """The command line, as a user types it."""
    return lambda *words: main(["runs", *map(str, words)])


def test_typed_commands(root, polynsd, capsys):
    polynsd("list", root, "--where", "test > 0.7", "--sort=-test", "--json")
    assert [row["folder"] for row in json.loads(capsys.readouterr().out)] == ["poly"]
    polynsd("show", root / "poly")
    assert "config.layer.degree" in capsys.readouterr().out
    polynsd("compare", root / "gcn", root / "poly", "--out", root / "t.parquet")
    assert "+0.2500" in capsys.readouterr().out
    polynsd("compare", root, "--by", "model,dataset", "--json")
    assert [row["model"] for row in json.loads(capsys.readouterr().out)] == ["GCN", "PolyNSD"]


@pytest.mark.parametrize(
    "words", [("list", "nowhere"), ("show", "nowhere"), ("compare", "nowhere"), ("list", ".", "--sort", "x")]
)
def test_mistakes_end_with_code_2_and_a_sentence(root, polynsd, capsys, monkeypatch, words):
    monkeypatch.chdir(root)
    with pytest.raises(SystemExit) as stop:
        polynsd(*words)
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("polynsd: ")
