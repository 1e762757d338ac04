"""What a user types, end to end."""

import json
import os
import runpy
import signal
import sys
import time
from importlib import import_module

import pytest

from polynsd import __version__
from polynsd.cli import handle_signals, main
from polynsd.data import heterophilous_graph, save_graph, syntax_chain

TINY = ["--splits", "2", "--epochs", "3", "--quiet"]


def exit_of(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    output = capsys.readouterr()
    return stop.value.code, output.out, output.err


def test_version_and_overview(capsys):
    main(["--version"])
    assert capsys.readouterr().out == f"polynsd {__version__}\n"
    code, out, _ = exit_of([], capsys)
    assert code == 0
    assert all(f"polynsd {name}" in out for name in ("demo", "train", "bench"))
    assert "kernels, layer, step, protocol, search, estimator" in out
    code, out, _ = exit_of(["bench"], capsys)
    assert code == 0
    assert "polynsd bench step " in out
    assert "polynsd demo" not in out
    assert exit_of(["bench", "estimator", "--help-all"], capsys)[1].startswith("usage: polynsd bench est")


def test_unknown_command(capsys):
    code, _, err = exit_of(["trian"], capsys)
    assert code == 2
    assert "unknown command 'trian'" in err
    assert "Did you mean 'train'?" in err


def test_train_prints_and_records(tmp_path, capsys):
    folder = tmp_path / "deep" / "run"
    data = ["--data", "num_nodes=60", "num_classes=2", "legacy=false"]
    main(["train", *data, *TINY, "--maps", "general", "--degree", "3", "--out", str(folder)])
    out = capsys.readouterr().out
    assert "polynsd (general)" in out
    assert "2 splits by stratified(0.6, 0.2, 0.2)" in " ".join(out.split())
    result = json.loads((folder / "result.json").read_text())["result"]
    assert result["config"]["layer"]["degree"] == 3
    assert len(result["splits"]) == 2
    assert result["num_nodes"] == 60
    assert f"{100 * result['mean']:.1f} ± {100 * result['std']:.1f}" in out
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json",
        "environment.json",
        "events.jsonl",
        "lock",
        "manifest.json",
        "metrics.jsonl",
        "model.safetensors",
        "predictions.parquet",
        "result.json",
    ]


@pytest.mark.usefixtures("no_tracer")
def test_train_says_how_it_goes(capsys):
    main(["train", "--data", "num_nodes=60", *TINY[:-1]])
    err = capsys.readouterr().err
    assert "60 nodes" in err
    assert "2 of 2 splits done" in err


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize("model", ["nsd", "identity-sheaf", "poly-spectral", "gcn", "mlp"])
def test_every_model_trains_on_minesweeper(model, capsys):
    maps = {"identity-sheaf": "identity", "poly-spectral": "identity"}.get(model, "diagonal")
    graph = ["--generate", "minesweeper", "--data", "rows=8", "cols=8"]
    main(["train", *graph, *TINY, "--model", model, "--maps", maps])
    assert "test roc_auc %" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dataset", "minesweper"], "Did you mean 'minesweeper'?"),
        (["--generate", "mines"], "unknown generator 'mines'"),
        (["--dataset", "texas", "--data", "degree=4"], "leave it out where --dataset is given"),
        (["--protocol", "geom-gcn"], "geom-gcn"),
        (["--features", "row-normalize"], "non-negative"),
        (["--data", "nodes=5"], "unknown heterophily argument 'nodes'"),
        (["--data", "num_nodes"], "written key=value; got 'num_nodes'"),
        (["--data", "num_nodes=many"], "num_nodes must be of type int; got 'many'"),
        (["--data", "legacy=maybe"], "legacy must be true or false"),
        (["--data", "degree=3"], "even degree"),
        (["--metric", "f2"], "unknown metric 'f2'"),
        (["--model", "gtc"], "unknown model 'gtc'"),
        (["--model", "nsd", "--basis", "legendre"], "NSD means --basis chebyshev1"),
        (["--splits", "0"], "splits must be an integer of at least 1"),
        (["--maps", "diagnal"], "Did you mean"),
        (["--degree", "-1"], "degree must be an integer of at least 0"),
    ],
)
def test_mistakes_end_with_one_clear_message(arguments, words, capsys):
    code, _, err = exit_of(["train", *arguments, "--epochs", "2", "--quiet"], capsys)
    assert code == 2
    assert words in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err


def test_demo_writes_picture_and_numbers(tmp_path, capsys):
    main(["demo", "--splits", "1", "--epochs", "2", "--nodes", "60", "--out", str(tmp_path), "--quiet"])
    out = capsys.readouterr().out
    assert all(
        name in out for name in ("PolyNSD, orthogonal", "NSD, diagonal", "identity sheaf", "GCN", "MLP")
    )
    assert "over GCN" in out
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads((tmp_path / "demo.json").read_text())
    assert len(record["models"]) == 7
    assert record["models"]["NSD, diagonal"]["config"]["layer"]["filter"] == "diffusion"
    assert "layer" not in record["models"]["GCN"]["config"]
    arguments = {key: record["data"][key] for key in ("num_nodes", "num_classes", "num_features", "degree")}
    assert heterophilous_graph(**arguments).num_nodes == 60


def test_interrupt(monkeypatch, capsys):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr("polynsd.cli.train.Train.run", interrupted)
    code, _, err = exit_of(["train"], capsys)
    assert (code, err) == (130, "polynsd: interrupted; nothing was kept; with --out RUN it could go on\n")


def test_the_package_is_a_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["polynsd", "--version"])
    runpy.run_module("polynsd", run_name="__main__")
    assert capsys.readouterr().out == f"polynsd {__version__}\n"


def result_of(folder):
    return json.loads((folder / "result.json").read_text())["result"]


def test_train_on_a_file_uses_its_own_splits(tmp_path, capsys):
    graph = syntax_chain(num_nodes=200, num_classes=4, num_features=6)
    save_graph(tmp_path / "words.npz", graph)
    main(["train", "--dataset", str(tmp_path / "words.npz"), *TINY, "--out", str(tmp_path / "run")])
    assert "2 splits by stored" in " ".join(capsys.readouterr().out.split())
    hashes = [graph.masks["default"].split(i).fingerprint for i in range(2)]
    assert [row["fingerprint"] for row in result_of(tmp_path / "run")["splits"]] == hashes


@pytest.mark.data
@pytest.mark.skipif("POLYNSD_DATA" not in os.environ, reason="POLYNSD_DATA is not set")
def test_train_on_a_benchmark_follows_its_own_rules(tmp_path):
    main(["train", "--dataset", "texas", *TINY, "--out", str(tmp_path / "run")])
    result = result_of(tmp_path / "run")
    own = (result["dataset"], result["protocol"], result["features"])
    assert own == ("texas", "geom-gcn", "row-normalize")


def test_a_folder_is_no_place_for_a_table(tmp_path, capsys):
    code, _, err = exit_of(["bench", "step", "--json", str(tmp_path)], capsys)
    assert code == 2
    assert "is a folder. Name a file in it" in err


def test_a_file_is_no_place_for_a_run(tmp_path, capsys):
    (tmp_path / "run").touch()
    code, _, err = exit_of(["train", "--data", "num_nodes=60", *TINY, "--out", str(tmp_path / "run")], capsys)
    assert code == 2
    assert "a run is a folder" in err


def test_a_folder_of_something_else_is_left_alone(tmp_path, capsys):
    (tmp_path / "thesis.tex").touch()
    code, _, err = exit_of(["train", "--data", "num_nodes=60", *TINY, "--out", str(tmp_path)], capsys)
    assert code == 2
    assert "holds no run: it contains thesis.tex" in err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_system_errors_are_told_in_one_line(tmp_path, capsys):
    (tmp_path / "file").touch()
    tiny = ["--sizes", "50", "--degrees", "1", "--repeats", "1", "--backends", "reference", "--quiet"]
    code, _, err = exit_of(["bench", "kernels", *tiny, "--json", str(tmp_path / "file" / "x")], capsys)
    assert code == 2
    assert len(err.splitlines()) == 1


def test_an_interrupt_that_breaks_something_on_its_way_is_still_an_interrupt(monkeypatch, capsys):
    def half_imported(self):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("partially initialized module") from None

    monkeypatch.setattr("polynsd.cli.train.Train.run", half_imported)
    code, _, err = exit_of(["train"], capsys)
    assert code == 130
    assert err.startswith("polynsd: interrupted")


def test_an_interrupt_waits_for_an_import(tmp_path, monkeypatch):
    """Libraries in C++ abort if they are interrupted while they are imported."""
    text = "import signal, time\nsignal.raise_signal(signal.SIGINT)\ntime.sleep(0.1)\nis_whole = True\n"
    (tmp_path / "slow_to_import.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    received = []

    def import_and_wait():
        import_module("slow_to_import")
        for _ in range(50):
            time.sleep(0.1)

    with pytest.raises(KeyboardInterrupt), handle_signals(received):
        import_and_wait()
    assert sys.modules.pop("slow_to_import").is_whole
    assert received == [signal.SIGINT]


def test_too_little_memory_is_told_in_one_line(monkeypatch, capsys):
    def allocate(self):
        raise MemoryError("Unable to allocate 32.0 GiB")

    monkeypatch.setattr("polynsd.cli.train.Train.run", allocate)
    assert exit_of(["train"], capsys)[::2] == (2, "polynsd: out of memory. Unable to allocate 32.0 GiB\n")
