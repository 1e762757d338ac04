"""`polynsd bench`: what a user types, what comes out, and what becomes of rows that fail."""

import json
import sys
from types import SimpleNamespace

import pytest
import torch

from polynsd import kernels
from polynsd.bench import steps
from polynsd.bench.measures import Times, peak_memory
from polynsd.bench.results import explain_missing, measure_row, with_speedups
from polynsd.bench.samples import Case, load_sample
from polynsd.cli import main, parse_command
from polynsd.search import Space

FACTS = {"graph", "source", "nodes", "edges", "backend", "maps", "K", "d", "C"}
TINY = ["--graphs", "texas", "--maps", "diagonal", "--stalk-dims", "2", "--channels", "2"]
TINY += ["--repeats", "1", "--backends", "assembled,reference", "--quiet"]


@pytest.fixture(autouse=True)
def no_data_at_hand(monkeypatch, tmp_path):
    monkeypatch.delenv("POLYNSD_DATA", raising=False)
    monkeypatch.setenv("POLYNSD_CACHE", str(tmp_path))


def record_of(arguments, tmp_path):
    main(["bench", *arguments, "--json", str(tmp_path / "bench.json")])
    return json.loads((tmp_path / "bench.json").read_text())


def error_of(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["bench", *arguments])
    assert stop.value.code == 2
    return " ".join(capsys.readouterr().err.replace("│", " ").split())


# the commands


def test_step_writes_what_it_prints(tmp_path, capsys):
    record = record_of(["step", *TINY, "--degrees", "2"], tmp_path)
    assert set(record) == {"environment", "rows", "fits"}
    assert {"torch", "numba", "triton", "device_name", "threads", "copy_gbs"} <= set(record["environment"])
    assert [row["backend"] for row in record["rows"]] == ["assembled", "reference"]
    for row in record["rows"]:
        assert set(row) == FACTS | {"layers", "step_ms", "fastest_step_ms", "infer_ms", "peak_mib", "speedup"}
        assert (row["source"], row["nodes"], row["edges"]) == ("generated", 183, 279)
        assert min(row["step_ms"], row["infer_ms"], row["peak_mib"], row["speedup"]) > 0
    out = capsys.readouterr().out
    assert "texas (generated)" in out
    assert f"{record['rows'][1]['speedup']:.2f}x" in out


def test_layers_are_compared_with_identity_maps(tmp_path, capsys):
    maps = ["--maps", "identity,orthogonal@nodes,conformal@nodes", "--backends", "reference"]
    rows = record_of(["layer", *TINY, "--degrees", "2", *maps], tmp_path)["rows"]
    assert [row["maps"] for row in rows] == ["identity", "orthogonal@nodes", "conformal@nodes"]
    assert all(row[f"{part}_ratio"] > 0 for row in rows for part in ("filter", "diffuse", "step"))
    N, H, row_bytes, d = 183, 558, 16, 2
    turns = 6 * N * (2 * row_bytes + 4 * d * d)
    assert rows[1]["bytes"] - rows[0]["bytes"] == turns
    assert rows[2]["bytes"] - rows[1]["bytes"] == 2 * (N + H) * 2 * 4  # ∂ of scalar blocks, read and written
    assert "without learner" in capsys.readouterr().out


@pytest.mark.usefixtures("no_tracer")
def test_the_parts_of_a_search_make_up_its_time(tmp_path, capsys):
    pytest.importorskip("optuna")
    plain = {"model.layer.maps": "identity", "model.layer.stalk_dim": 1, "model.hidden_channels": 2}
    Space.from_dict({**plain, "training.epochs": 500, "training.learning_rate": [0.01, 0.02]}).save(
        tmp_path / "space.yaml"
    )
    arguments = ["search", "--space", str(tmp_path / "space.yaml"), "--splits", "1"]
    (row,) = record_of([*arguments, "--trials", "1", "--batch", "1", "--epochs", "1"], tmp_path)["rows"]
    assert row["first_use"] + row["training"] + row["rest"] == pytest.approx(1)
    assert row["seconds"] == row["seconds_per_trial"] > 0
    assert "first use" in capsys.readouterr().out


def test_kernels_measure_constant_memory_and_growth(tmp_path, capsys):
    record = record_of(["kernels", *TINY, "--degrees", "2,6,18"], tmp_path)
    own = {"forward_ms", "step_ms", "peak_mib", "bytes", "gbs", "fraction_of_copy", "speedup"}
    assert all(set(row) >= FACTS | own for row in record["rows"])
    peak = {(row["backend"], row["K"]): row["peak_mib"] for row in record["rows"]}
    assert peak["reference", 18] == pytest.approx(peak["reference", 6], rel=0.01)
    assert peak["assembled", 18] > 2 * peak["assembled", 6]
    row = record["rows"][-1]
    assert row["gbs"] == pytest.approx(row["bytes"] / row["step_ms"] / 1e6)
    assert row["fraction_of_copy"] == pytest.approx(row["gbs"] / record["environment"]["copy_gbs"])
    assert {(law["over"], law["backend"]) for law in record["fits"]} == {
        ("K", "assembled"),
        ("K", "reference"),
    }
    assert "time grows as K^" in capsys.readouterr().out


def test_sizes_are_generated_graphs_of_mean_degree_20(tmp_path):
    sizes = [*TINY[2:], "--sizes", "50", "100,150", "--degrees", "1", "--backends", "reference"]
    record = record_of(["step", *sizes], tmp_path)
    assert [(row["graph"], row["edges"]) for row in record["rows"]] == [
        ("random-50", 500),
        ("random-100", 1000),
        ("random-150", 1500),
    ]
    assert [law["over"] for law in record["fits"]] == ["edges"]


@pytest.mark.parametrize("words", [["8,16"], ["8", "16"], ["8,", "16"]], ids=str)
def test_lists_are_separated_by_commas_or_spaces(words):
    options = parse_command(["bench", "step", "--degrees", *words, "--maps", "diagonal,general"])
    assert (options.degrees, options.maps) == ((8, 16), ("diagonal", "general"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["steps"], "unknown command 'bench steps'; choose from: bench estimator, bench kernels"),
        (["step", "--graphs", "texs"], "unknown graph 'texs'; choose from: chameleon, minesweeper"),
        (["kernels", "--backends", "cup"], "unknown backend 'cup'; choose from: assembled, auto, cpu"),
        (["step", "--device", "gpu"], "unknown device 'gpu'; choose from: cpu, cuda."),
        (["step", "--degrees", "8,x"], "expected whole numbers such as 8,16; got 'x'."),
        (["step", "--degrees", "-1"], "degree must be an integer of at least 0"),
        (["step", "--maps", "diagnal"], "Did you mean"),
        (["step", "--channels", "0"], "channels must be an integer of at least 1"),
        (["step", "--repeats", "0"], "repeats must be an integer of at least 1"),
        (["step", "--layers", "0"], "layers must be an integer of at least 1"),
        (["step", "--degrees", ","], "nothing to measure: --degrees is an empty list"),
        (["step", "--sizes", "3"], "sizes must be an integer of at least 41"),
    ],
)
def test_mistakes_are_told_before_anything_is_measured(arguments, words, capsys):
    assert words in error_of(arguments, capsys)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_must_exist(capsys):
    assert "Use --device cpu." in error_of(["step", "--device", "cuda"], capsys)


# rows that cannot be measured


def test_a_backend_that_cannot_run_here_is_reported(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    record = record_of(["step", *TINY, "--degrees", "1", "--backends", "reference,gpu"], tmp_path)
    there, absent = record["rows"]
    assert there["step_ms"] > 0
    assert "error" not in there
    assert absent["step_ms"] is absent["peak_mib"] is absent["speedup"] is None
    assert absent["error"].startswith("backend 'gpu' ")
    assert f"not measured: gpu, 1 of 2 rows: {absent['error']}" in capsys.readouterr().out


def test_running_out_of_memory_ends_a_row_only():
    def measure(sample, case):
        raise torch.OutOfMemoryError("tried to allocate 80 GiB\nand more")

    case = Case("texas", 2, 2, "diagonal", 1, "reference")
    row = measure_row(load_sample("texas"), case, measure, ("step_ms",))
    assert (row["step_ms"], row["error"]) == (None, "OutOfMemoryError: tried to allocate 80 GiB")
    (speedless,) = with_speedups([row])
    assert speedless["speedup"] is None
    assert explain_missing([row]) == ["not measured: reference, 1 of 1 rows: " + row["error"]]


def test_speed_ups_are_over_assembled_in_the_same_setting():
    def row(backend, K, step_ms):
        return {
            "graph": "g",
            "maps": "m",
            "K": K,
            "d": 1,
            "C": 1,
            "backend": backend,
            "step_ms": step_ms,
        }

    rows = with_speedups([row("cpu", 4, 2.0), row("assembled", 4, 10.0), row("cpu", 8, 2.0)])
    assert [row["speedup"] for row in rows] == [5.0, 1.0, None]


# training steps


def test_on_a_gpu_the_captured_step_counts(monkeypatch):
    # eager step and inference, then both captured
    times = iter([Times(9.0, 9.0), Times(3.0, 3.0), Times(1.0, 1.0), Times(0.5, 0.5)])
    monkeypatch.setattr(steps, "peak_memory", lambda device: peak_memory("cpu"))
    monkeypatch.setattr(steps, "times_of", lambda run, *args, **options: run() is not None and next(times))
    captured = SimpleNamespace(CapturedStep=lambda step: SimpleStep(step))
    monkeypatch.setitem(sys.modules, "polynsd.training.capture", captured)
    case = Case("texas", 2, 2, "diagonal", 1, "gpu")
    with kernels.use("reference"):
        row = steps.measure_step(load_sample("texas"), case, layers=1, device="cuda", repeats=1)
    assert (row["step_ms"], row["eager_ms"], row["infer_ms"], row["captured"]) == (1.0, 9.0, 0.5, True)


class SimpleStep:
    captured = True

    def __init__(self, step):
        self.step = step

    def __call__(self):
        return self.step()


def test_a_step_trains():
    training = steps.make_training(load_sample("texas"), Case("texas", 2, 4, "general", 3, "auto"), layers=2)
    with kernels.use("reference"):
        losses = [float(training.step()) for _ in range(20)]
    assert losses[-1] < 0.5 * losses[0]
