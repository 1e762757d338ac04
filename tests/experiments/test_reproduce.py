"""`polynsd reproduce` and `polynsd bench protocol`: what a user types."""

import csv
import json
import os

import pytest

from polynsd.cli import main
from polynsd.experiments.catalogue import get_experiment
from polynsd.nn.build import build_model

real = pytest.mark.skipif("POLYNSD_DATA" not in os.environ, reason="POLYNSD_DATA is not set")
SWEEP = get_experiment("k-sweep")


def exit_text(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_the_k_sweep_is_nine_graphs_three_families_and_six_degrees():
    cells = SWEEP.cells(SWEEP.datasets, SWEEP.axes)
    assert len(cells) == len({cell.folder for cell in cells}) == 9 * 3 * 6
    for cell in cells:
        model, training = cell.configuration
        layer = model.layer
        assert (layer.total_stalk_dim, model.num_layers, model.hidden_channels) == (6, 2, 32)
        assert (layer.dropout, model.input_dropout, layer.edge_weights) == (0.2, 0.2, True)
        assert (training.epochs, training.patience, training.select) == (500, 200, "loss")
        assert (training.weight_decay, training.sheaf_decay) == (5e-4, None)
        small = cell.dataset in ("texas", "wisconsin", "cornell")
        assert training.learning_rate == (0.02 if small else 0.01)
        assert model.second_linear == (cell.dataset in ("chameleon", "squirrel"))
        assert layer.degree == cell.options["K"]
        build_model(model, 7, 3)


@pytest.mark.data
@real
def test_a_part_of_the_sweep_is_run_once_and_tabled(tmp_path, capsys):
    part = ["--datasets", "texas", "--only", "maps=diagonal", "K=1,2", "--splits", "2"]
    command = ["reproduce", "k-sweep", "--fast", *part, "--out", str(tmp_path), "--quiet"]
    main(command)
    out = capsys.readouterr().out
    assert "K=1" in out
    assert "2 cells" in out
    table = tmp_path / "k-sweep-fast.csv"
    first = table.read_bytes()
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [(row["dataset"], row["maps"], row["K"], row["splits"]) for row in rows] == [
        ("texas", "diagonal", "1", "2"),
        ("texas", "diagonal", "2", "2"),
    ]
    assert all(0.3 < float(row["mean"]) <= 1 for row in rows)
    main(command)  # nothing is trained again
    assert table.read_bytes() == first
    assert (tmp_path / "k-sweep-fast" / "texas" / "maps=diagonal-K=1" / "result.json").exists()


def test_the_list_says_what_there_is(tmp_path, capsys):
    for arguments in (["reproduce", "--list"], ["reproduce"]):
        main([*arguments, "--out", str(tmp_path)])
        out = capsys.readouterr().out
        assert "0 of 162 cells" in out
        assert "k-sweep needs: texas, wisconsin" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["k-swep"], "Did you mean 'k-sweep'?"),
        (["k-sweep", "--datasets", "karate"], "unknown dataset of k-sweep 'karate'"),
        (["k-sweep", "--only", "degree=1"], "unknown axis 'degree'"),
        (["k-sweep", "--only", "K=3"], "unknown K '3'"),
    ],
)
def test_mistakes_are_told_before_anything_is_trained(arguments, words, capsys):
    assert words in exit_text(["reproduce", *arguments], capsys)


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
