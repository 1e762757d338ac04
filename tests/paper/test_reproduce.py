"""`polynsd reproduce` and `polynsd bench protocol`: what a user types."""

import csv
import json
import os
import re
from contextlib import ExitStack
from dataclasses import replace

import pytest
from small_experiment import SMALL, configure

from polynsd.cli import main
from polynsd.runs.lock import hold_lock
from polynsd.training import protocol
from polynsd.training.source import Source
from polynsd_paper import experiment, experiments
from polynsd_paper import reproduction as command
from polynsd_paper.experiment import Matched

real = pytest.mark.skipif("POLYNSD_DATA" not in os.environ, reason="POLYNSD_DATA is not set")


def exit_text(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    return capsys.readouterr().err


@pytest.fixture
def reproduce(tmp_path, monkeypatch):
    """Runs the small experiment in a folder of its own."""
    monkeypatch.setitem(experiments.EXPERIMENTS, "small", SMALL)
    folders = ["--out", str(tmp_path / "out"), "--work", str(tmp_path / "work")]
    return lambda *arguments: main(["reproduce", "small", *arguments, *folders])


def rows(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_what_is_missing_is_trained_and_tabled(tmp_path, reproduce, capsys):
    reproduce("--datasets", "left", "--only", "model=gcn,mlp")
    told = capsys.readouterr()
    assert re.search(r"trial 4 of 4, best validation \d", told.err)
    assert "small: test accuracy in %" in told.out
    table = tmp_path / "out" / "tables" / "small.csv"
    assert [(row["dataset"], row["model"]) for row in rows(table)] == [("left", "mlp"), ("left", "gcn")]
    record = tmp_path / "out" / "records" / "small" / "left" / "gcn.yaml"
    before = record.stat().st_mtime_ns
    reproduce("--datasets", "left", "--quiet")
    assert capsys.readouterr().err == ""
    assert [row["model"] for row in rows(table)] == ["mlp", "gcn", "nsd-diagonal"]
    assert record.stat().st_mtime_ns == before
    reproduce("--datasets", "left", "--only", "model=gcn", "--again", "--quiet")
    assert record.stat().st_mtime_ns > before


def test_a_table_is_made_of_what_is_there(tmp_path, reproduce, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        reproduce("--table")
    assert "small has no results yet. Leave --table out to train." in capsys.readouterr().err
    reproduce("--only", "model=gcn", "--quiet")
    page = tmp_path / "out" / "tables" / "small.md"
    first = page.read_bytes()
    page.unlink()
    monkeypatch.setattr(protocol, "fit_replicas", None)  # nothing is trained
    reproduce("--table")
    assert page.read_bytes() == first
    assert "left" in capsys.readouterr().out


def test_fast_has_files_of_its_own(tmp_path, reproduce):
    reproduce("--fast", "--quiet", "--only", "model=gcn")
    assert (tmp_path / "out" / "tables" / "small-fast.csv").exists()
    assert (tmp_path / "out" / "records" / "small-fast" / "right" / "gcn.yaml").exists()
    assert not (tmp_path / "out" / "tables" / "small.csv").exists()


def test_splits_and_trials_can_be_fewer(tmp_path, reproduce):
    few = ["--datasets", "left", "--only", "model=mlp", "--splits", "2", "--trials", "2"]
    reproduce("--quiet", *few)
    (row,) = rows(tmp_path / "out" / "tables" / "small.csv")
    assert (row["splits"], row["trials"]) == ("2", "2")


def test_a_cell_that_fails_does_not_stop_the_others(tmp_path, reproduce, monkeypatch, capsys):
    def broken(dataset, model):
        cell = configure(dataset, model)
        return replace(cell, sources=(Source(tmp_path / "nowhere.npz"),)) if dataset == "left" else cell

    monkeypatch.setitem(experiments.EXPERIMENTS, "small", replace(SMALL, configure=broken))
    with pytest.raises(SystemExit) as stop:
        reproduce("--quiet", "--only", "model=gcn,nsd-diagonal")
    assert stop.value.code == 1  # after the tables
    assert [row["dataset"] for row in rows(tmp_path / "out" / "tables" / "small.csv")] == ["right", "right"]
    told = capsys.readouterr().err
    assert "not trained: 2 cells (left, gcn and so on)" in told
    assert "nowhere" in told


@pytest.mark.usefixtures("no_tracer")
def test_earlier_searches_are_shown_told_and_searched_anew(tmp_path, reproduce, capsys):
    part = ("--datasets", "left", "--only", "model=mlp,gcn", "--quiet")
    reproduce(*part)
    capsys.readouterr()
    reproduce("--table", "--trials", "2")  # another budget than that of the records: an earlier search
    assert "other settings" not in capsys.readouterr().out
    assert [row["model"] for row in rows(tmp_path / "out" / "tables" / "small.csv")] == ["mlp", "gcn"]
    reproduce(*part, "--trials", "2")
    told = capsys.readouterr()
    assert "trained with other settings before, and now anew: left, mlp (budget)" in told.err
    assert "other settings" not in told.out
    assert [row["trials"] for row in rows(tmp_path / "out" / "tables" / "small.csv")] == ["2", "0"]
    main(["reproduce", "--list", "--out", str(tmp_path / "out")])
    listed = capsys.readouterr().out
    assert "state: 1 of 6 cells done, 1 with other settings" in listed


def test_only_older_records_are_no_results(reproduce, monkeypatch, capsys):
    reproduce("--datasets", "left", "--only", "model=mlp", "--quiet")
    monkeypatch.setitem(experiments.EXPERIMENTS, "small", replace(SMALL, seeds=1))
    with pytest.raises(SystemExit):
        reproduce("--table")
    assert "Records with other settings: 1." in capsys.readouterr().err


def test_cells_of_other_processes_come_last_and_are_waited_for(tmp_path, reproduce, monkeypatch, capsys):
    """The lock is let go when everything else is done; what the other has made by then is read."""
    folder = tmp_path / "work" / "small" / "left" / "gcn"
    folder.mkdir(parents=True)
    theirs = ExitStack()
    theirs.enter_context(hold_lock(folder))

    def wait(seconds):
        if seconds == command.WAIT:  # not that of the lock itself
            folder = tmp_path / "out" / "records" / "small"
            assert [path.name for path in folder.glob("*/*.yaml")] == ["nsd-diagonal.yaml"]
            theirs.close()

    monkeypatch.setattr(command.time, "sleep", wait)
    reproduce("--datasets", "left", "--only", "model=gcn,nsd-diagonal")
    assert "left, gcn: another process trains it; waiting" in capsys.readouterr().err
    assert {row["model"] for row in rows(tmp_path / "out" / "tables" / "small.csv")} == {
        "gcn",
        "nsd-diagonal",
    }


def test_the_help_is_for_people(capsys):
    with pytest.raises(SystemExit):
        main(["reproduce", "--help"])
    out = capsys.readouterr().out
    assert "None}" not in out
    assert "[NAME]" in out
    assert "auto" in out


def test_nothing_trained_says_why(reproduce, monkeypatch, capsys):
    def nowhere(dataset, model):
        return replace(configure(dataset, model), sources=(Source("nowhere"),))

    monkeypatch.setitem(experiments.EXPERIMENTS, "small", replace(SMALL, configure=nowhere))
    with pytest.raises(SystemExit):
        reproduce("--quiet")
    assert "small has no results yet. unknown dataset 'nowhere'" in capsys.readouterr().err


def test_the_list_says_what_there_is_what_it_needs_and_how_far_it_is(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("POLYNSD_DATA", raising=False)
    monkeypatch.setenv("POLYNSD_CACHE", str(tmp_path))
    record = tmp_path / "records" / "k-sweep" / "texas" / "general-K=2.yaml"
    record.parent.mkdir(parents=True)
    record.touch()
    (tmp_path / "cora.npz").touch()
    for name in experiments.EXPERIMENTS.keys() - {"k-sweep", "leaderboard", "synthetic"}:
        monkeypatch.delitem(experiments.EXPERIMENTS, name)
    for arguments in (["reproduce", "--list"], ["reproduce"]):
        main([*arguments, "--out", str(tmp_path)])
        out = capsys.readouterr().out
        lines = out[out.index("k-sweep ") :].splitlines()
        assert lines[1].strip() == "state: 0 of 162 cells done, 1 with other settings"
        assert lines[2].strip() == f"takes: {experiments.EXPERIMENTS['k-sweep'].minutes}"
        assert lines[3].strip().startswith("needs: texas, wisconsin")
        assert "not here yet: texas" in out
        assert "makes its graphs itself" in out
        assert all(name in out for name in experiments.EXPERIMENTS)
        assert max(len(line) for line in out.splitlines()[1:]) <= 100


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["k-swep"], "Did you mean 'k-sweep'?"),
        (["k-sweep", "--datasets", "karate"], "unknown dataset of k-sweep 'karate'"),
        (["k-sweep", "--only", "degree=1"], "unknown axis 'degree'"),
        (["k-sweep", "--only", "K=3"], "unknown K '3'"),
        (["k-sweep", "--only", "K"], "unknown K ''"),
        (["k-sweep", "--trials", "0"], "trials must be an integer of at least 1; got 0"),
        (["k-sweep", "--seconds", "0"], "seconds must be greater than 0; got 0.0"),
        (["k-sweep", "--splits", "0"], "splits must be an integer of at least 1; got 0"),
        (["k-sweep", "--tf32"], "--tf32 is for GPUs; the device is cpu"),
        (["k-sweep", "--device", "cuda:77"], "device 'cuda:77' was asked for"),
        (["k-sweep", "--device", "gpu"], "unknown device 'gpu'; write auto, cpu"),
    ],
)
def test_mistakes_are_told_before_anything_is_trained(arguments, words, capsys):
    assert words in exit_text(["reproduce", *arguments], capsys)


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.slow
@pytest.mark.data
@real
def test_a_fast_look_at_a_real_graph(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(experiment, "FAST_EPOCHS", 5)
    part = ["--datasets", "texas", "--only", "maps=diagonal", "K=1,2", "--splits", "2"]
    folders = ["--out", str(tmp_path), "--work", str(tmp_path / "work")]
    main(["reproduce", "k-sweep", "--fast", *part, *folders, "--quiet"])
    assert "K=1" in capsys.readouterr().out
    lines = rows(tmp_path / "tables" / "k-sweep-fast.csv")
    assert [(row["dataset"], row["maps"], row["K"], row["splits"]) for row in lines] == [
        ("texas", "diagonal", "1", "2"),
        ("texas", "diagonal", "2", "2"),
    ]
    assert all(0.3 < float(row["mean"]) <= 1 for row in lines)


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.slow
@pytest.mark.data
@real
def test_a_fast_search_on_a_real_graph(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(experiment, "FAST_EPOCHS", 5)
    part = ["--datasets", "texas", "--only", "model=polynsd-diagonal,mlp", "--splits", "3"]
    folders = ["--out", str(tmp_path), "--work", str(tmp_path / "work")]
    main(["reproduce", "leaderboard", "--fast", *part, *folders, "--quiet"])
    assert [row["trials"] for row in rows(tmp_path / "tables" / "leaderboard-fast.csv")] == ["2", "2"]
    assert (tmp_path / "figures" / "leaderboard-fast-search.png").exists()


def test_a_protocol_is_timed_in_three_ways(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("POLYNSD_DATA", raising=False)
    file = tmp_path / "protocol.json"
    sizes = ["--splits", "2", "--epochs", "2", "--channels", "4", "--degree", "2"]
    main(["bench", "protocol", *sizes, "--json", str(file), "--quiet"])
    assert "speed-up over plain" in capsys.readouterr().out
    rows = json.loads(file.read_text())["rows"]
    assert [row["way"] for row in rows] == ["plain", "sequence", "replicas"]
    assert rows[0]["speedup"] == 1
    for row in rows:
        assert row["seconds"] > 0
        assert row["ms_per_epoch"] == pytest.approx(1e3 * row["seconds"] / 4)
        assert row["speedup"] == pytest.approx(rows[0]["seconds"] / row["seconds"])


def test_an_unknown_way_of_training(capsys):
    assert "unknown way 'parallel'" in exit_text(["bench", "protocol", "--ways", "parallel"], capsys)


def test_a_control_waits_for_its_winner(tmp_path, reproduce, monkeypatch):
    """Without a record of the row, or the row in the same run, there is nothing to control."""

    def configure(dataset, model):
        cell = SMALL.configure(dataset, model.removeprefix("control of "))
        is_control = model.startswith("control of ")
        return replace(cell, options={"model": model}, plan=Matched(cell)) if is_control else cell

    names = ("nsd-diagonal", "control of nsd-diagonal", "gcn")
    changed = replace(SMALL, configure=configure, axes={"model": names})
    monkeypatch.setitem(experiments.EXPERIMENTS, "small", changed)
    part = ("--datasets", "left", "--quiet", "--only")
    reproduce(*part, "model=control of nsd-diagonal,gcn")
    made = tmp_path / "out" / "records" / "small" / "left"
    assert {path.stem for path in made.iterdir()} == {"gcn"}
    reproduce(*part, "model=nsd-diagonal,control of nsd-diagonal")
    assert {path.stem for path in made.iterdir()} == set(names)
