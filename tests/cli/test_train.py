"""`polynsd train`: all splits of a protocol, by rules that are stated, in a folder that can be checked."""

import json
import os
from dataclasses import replace
from statistics import fmean, pstdev, stdev

import numpy as np
import pytest
import torch
from fuzzing import repeatable_hashes

from polynsd.cli import main
from polynsd.config import ModelConfig, from_options
from polynsd.data import get_splits, load, save_graph
from polynsd.data.generators import make_graph
from polynsd.published import PUBLISHED_LAYER
from polynsd.runs import read_run
from polynsd.training import get_task
from polynsd.zoo import build_model

SMALL = ["--hidden-channels", "4", "--stalk-dim", "2", "--degree", "2", "--num-layers", "1"]
RULES = ["--epochs", "6", "--learning-rate", "0.05"]
GRAPH = ["--data", "num_nodes=60", "num_classes=2", "num_features=4"]
MINES = ["--generate", "minesweeper", "--data", "rows=8", "cols=8"]


def generated():
    return make_graph("heterophily", num_nodes=60, num_classes=2, num_features=4)


def splits():
    return get_splits(generated(), "stratified(0.6, 0.2, 0.2)", 3)


def train(out, *arguments, graph=GRAPH):
    """The result that the run folder holds."""
    main(["train", *graph, *SMALL, *RULES, "--quiet", "--out", str(out), *arguments])
    return read_run(out).result


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(["train", *GRAPH, *SMALL, "--epochs", "2", *map(str, arguments)])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return " ".join(error.replace("│", " ").split())


def content(folder):
    """result.json without its timings, and the hashes of weights and predictions."""
    found = json.loads((folder / "result.json").read_bytes())
    del found["timings"]
    hashes = repeatable_hashes(folder)
    return json.dumps(found), hashes["model.safetensors"], hashes["predictions.parquet"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("train") / "run"
    train(folder, "--splits", "3", "--dropout", "0.3")
    return folder


# protocols


@pytest.mark.usefixtures("no_tracer")
def test_a_protocol_has_ten_splits(tmp_path):
    result = train(tmp_path / "run")
    assert [row["split"] for row in result["splits"]] == list(range(10))
    assert [row["seed"] for row in result["splits"]] == list(range(10))
    assert len({row["fingerprint"] for row in result["splits"]}) == 10
    tests = [row["test"] for row in result["splits"]]
    assert (result["mean"], result["std"]) == (fmean(tests), pstdev(tests))
    assert result["val_mean"] == fmean(row["val"] for row in result["splits"])


@pytest.mark.data
@pytest.mark.skipif("POLYNSD_DATA" not in os.environ, reason="POLYNSD_DATA is not set")
def test_a_benchmark_with_its_own_splits_and_rules(tmp_path):
    options = ["--dataset", "texas", "--protocol", "geom-gcn", "--rules", "paper", "--epochs", "3"]
    main(["train", *options, *SMALL, "--quiet", "--out", str(tmp_path / "run")])
    result = read_run(tmp_path / "run").result
    expected = get_splits(load("texas"), "geom-gcn")
    assert [row["fingerprint"] for row in result["splits"]] == [split.fingerprint for split in expected]
    assert (result["metric"], result["select"], result["rules"]) == ("accuracy", "loss", "paper")
    training = read_run(tmp_path / "run").config["training"]
    assert (training["learning_rate"], training["patience"], training["epochs"]) == (0.02, 200, 3)


def test_metric_rules_and_selection_are_stated(run, capsys):
    result = read_run(run).result
    stated = [result[name] for name in ("metric", "rules", "select", "std_kind", "protocol", "features")]
    assert stated == ["accuracy", "default", "metric", "population", "stratified(0.6, 0.2, 0.2)", "raw"]
    main(["train", *GRAPH, *SMALL, "--epochs", "2", "--splits", "2", "--rules", "paper", "--quiet"])
    out = " ".join(capsys.readouterr().out.split())
    assert "2 splits by stratified(0.6, 0.2, 0.2) × 1 seed; features raw; rules paper" in out
    assert "epochs chosen by validation loss; mean ± std (population)" in out
    assert "test accuracy %" in out


def test_platonov_reports_the_deviation_of_a_sample(tmp_path, capsys):
    rules = ["--rules", "platonov", "--learning-rate", "0.02", "--epochs", "15"]
    result = train(tmp_path / "run", "--splits", "3", *rules)
    tests = [row["test"] for row in result["splits"]]
    assert len(set(tests)) > 1
    assert (result["std"], result["std_kind"]) == (stdev(tests), "sample")
    assert "mean ± std (sample)" in " ".join(capsys.readouterr().out.split())


def test_two_seeds_are_twice_the_rows(tmp_path):
    one = train(tmp_path / "one", "--splits", "2")["splits"]
    two = train(tmp_path / "two", "--splits", "2", "--seeds", "2")["splits"]
    assert [(row["split"], row["seed"]) for row in two] == [(0, 0), (1, 1), (0, 2), (1, 3)]
    assert [row["fingerprint"] for row in two] == [row["fingerprint"] for row in one] * 2
    assert [row["val_loss"] for row in two[:2]] == pytest.approx([row["val_loss"] for row in one])
    assert len({row["val_loss"] for row in two}) == 4


def test_the_seed_is_the_first(tmp_path):
    rows = train(tmp_path / "run", "--splits", "2", "--seed", "7")["splits"]
    assert [row["seed"] for row in rows] == [7, 8]


def best_epochs(folder, key):
    """The first epoch of every split with the best score, by the log."""
    rows = [record for record in read_run(folder).metrics() if record["event"] == "epoch"]
    splits = sorted({row["split"] for row in rows})
    return [max((row for row in rows if row["split"] == s), key=key)["epoch"] for s in splits]


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize(
    ("graph", "select"),
    [(GRAPH, "metric"), (GRAPH, "loss"), (GRAPH, "auc"), (MINES, "acc"), (MINES, "auc")],
)
def test_what_chooses_the_epoch(tmp_path, select, graph):
    options = ["--splits", "3", "--select", select, "--epochs", "8"]
    result = train(tmp_path / "run", *options, graph=graph)
    assert result["select"] == select
    chosen = [row["best_epoch"] for row in result["splits"]]
    if select == "loss":
        assert chosen == best_epochs(tmp_path / "run", lambda row: -row["val_loss"])
    elif select == "metric" or {"acc": "accuracy", "auc": "roc_auc"}[select] == result["metric"]:
        assert chosen == best_epochs(tmp_path / "run", lambda row: row["val_metric"])
    else:  # another score than the one that is logged
        assert chosen != best_epochs(tmp_path / "run", lambda row: row["val_metric"])


def test_generated_graphs_have_a_metric_of_their_own(tmp_path):
    assert train(tmp_path / "run", "--splits", "2", graph=MINES)["metric"] == "roc_auc"


@pytest.fixture(scope="module")
def heights(tmp_path_factory):
    """A graph file with numbers to predict, one of them unknown."""
    graph = generated()
    target = (graph.x[:, 0] - 2 * graph.x[:, 1]).astype(np.float32)
    target[7] = np.nan
    path = tmp_path_factory.mktemp("graphs") / "heights.npz"
    save_graph(path, replace(graph, y=target, class_names=None))
    return path


@pytest.mark.usefixtures("no_tracer")
def test_numbers_are_predicted_too(tmp_path, heights, capsys):
    options = ["--dataset", str(heights), "--protocol", "random-60-20-20", "--splits", "2"]
    result = train(tmp_path / "run", *options, "--epochs", "80", "--learning-rate", "0.02", graph=[])
    assert result["metric"] == "r2"
    assert result["mean"] > 0.5
    out = capsys.readouterr().out
    assert f"{result['mean']:.4g} ± {result['std']:.4g}" in out
    assert "%" not in out
    predictions = read_run(tmp_path / "run").predictions()
    assert predictions["prediction"].dtype.kind == "f"
    assert set(predictions[predictions["node"] == 7]["part"]) == {"unused"}


# mistakes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rules", "papre"], "unknown training rules 'papre'"),
        (["--rules", "papre"], "Did you mean 'paper'?"),
        (["--seeds", "0"], "seeds must be an integer of at least 1"),
        (["--select", "f1"], "unknown select 'f1'"),
        (["--precision", "fp8"], "unknown precision 'fp8'"),
        (["--snapshot-seconds", "-1", "--out", "nowhere"], "--snapshot-seconds must be at least 0"),
        (["--device", "gpu"], "unknown device 'gpu'; write auto, cpu, cuda, cuda:N or mps."),
        (["--device", "mps"], "PyTorch finds no Apple GPU. Use cpu."),
        (["--learning-rate", "1e30", "--epochs", "20"], "the training loss is not finite; lower"),
        (["--features", "standardize(train)"], "differs between splits; use standardize"),
        (["--features", "standardize(train)+adjacency"], "differs between splits"),
    ],
)
def test_mistakes_are_told(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words in refused(capsys, *arguments)
    assert not list(tmp_path.iterdir())


def test_classes_cannot_choose_the_epochs_of_numbers(capsys, heights):
    with pytest.raises(SystemExit):
        main(["train", "--dataset", str(heights), "--protocol", "random-60-20-20", "--select", "acc"])
    assert "--select acc is for classes" in capsys.readouterr().err


# run folders


def test_the_same_command_gives_the_same_bytes(run, tmp_path):
    train(tmp_path / "again", "--splits", "3", "--dropout", "0.3")
    assert content(tmp_path / "again") == content(run)
    for name in ("config.json", "metrics.jsonl", "model.safetensors", "predictions.parquet"):
        assert (tmp_path / "again" / name).read_bytes() == (run / name).read_bytes(), name


def test_a_finished_run_is_not_trained_again(run, capsys, monkeypatch):
    monkeypatch.setattr("polynsd.training.protocol.fit_replicas", None)
    before = {path: path.stat().st_mtime_ns for path in run.iterdir()}
    train(run, "--splits", "3", "--dropout", "0.3")
    result = read_run(run).result
    assert f"{100 * result['mean']:.1f} ± {100 * result['std']:.1f}" in capsys.readouterr().out
    train(run, "--splits", "3", "--dropout", "0.3", "--json")
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {"event": "result", "result": result}
    assert {path: path.stat().st_mtime_ns for path in run.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "difference"),
    [
        (["--dropout", "0.2"], "--dropout: 0.3 there, 0.2 here"),
        (["--learning-rate", "0.5"], "--learning-rate: 0.05 there, 0.5 here"),
        (["--seed", "1"], "--seed: 0 there, 1 here"),
        (["--seeds", "2"], "--seeds: 1 there, 2 here"),
        (["--splits", "2"], "--splits: the content is another one"),
        (["--rules", "paper"], "--rules: default there, paper here"),
        (["--data", "num_nodes=62", "num_classes=2", "num_features=4"], "inputs.graph"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "differs",
)
def test_other_options_on_the_same_folder_are_refused(run, arguments, difference, capsys):
    before = {path: path.read_bytes() for path in run.iterdir()}
    given = [*RULES, "--splits", "3", "--dropout", "0.3", "--out", run, *arguments]
    error = refused(capsys, *given)
    assert "holds another run" in error
    assert difference in error.replace('"', "").replace("'", "")
    assert {path: path.read_bytes() for path in run.iterdir()} == before


def test_how_it_is_shown_is_no_part_of_the_run(run, tmp_path):
    train(run, "--splits", "3", "--dropout", "0.3", "--no-quiet", "--snapshot-seconds", "1")


def test_predictions_are_those_of_the_result(run):
    record = read_run(run)
    table, y = record.predictions(), generated().y
    assert list(table.columns) == ["split", "seed", "node", "part", "prediction"]
    assert len(table) == 3 * 60
    assert set(table["prediction"]) == {0, 1}
    for row, split in zip(record.result["splits"], splits(), strict=True):
        mine = table[(table["split"] == row["split"]) & (table["seed"] == row["seed"])]
        assert mine["node"].tolist() == list(range(60))
        for part in ("train", "val", "test"):
            nodes = mine[mine["part"] == part]["node"].to_numpy()
            assert nodes.tolist() == getattr(split, part).nonzero().squeeze(-1).tolist()
            if part in row:
                right = mine["prediction"].to_numpy()[nodes] == y[nodes]
                assert right.mean() == pytest.approx(row[part])


def test_weights_give_the_result_again(run):
    record, data, task = read_run(run), generated().to_pyg(), get_task("accuracy")
    config, weights = from_options(ModelConfig, record.config["model"]), record.weights()
    for number, (row, split) in enumerate(zip(record.result["splits"], splits(), strict=True)):
        model = build_model(config, data.num_features, 2)
        own = {name.partition(".")[2]: t for name, t in weights.items() if name.startswith(f"{number}.")}
        model.load_state_dict(own)
        with torch.no_grad():
            output = model.eval()(data.x, data.edge_index)
        for part in ("val", "test"):
            mask = getattr(split, part)
            assert task.score(output[mask], data.y[mask]) == pytest.approx(row[part])
        loss = task.loss(output[split.val], data.y[split.val])
        assert float(loss) == pytest.approx(row["val_loss"], rel=1e-5)


# what is shown


def shown(capsys, *arguments):
    main(["train", *GRAPH, *SMALL, "--epochs", "4", "--splits", "2", *map(str, arguments)])
    return capsys.readouterr()


def test_json_is_all_there_is_on_stdout(capsys, tmp_path):
    found = shown(capsys, "--json", "--out", tmp_path / "run")
    records = [json.loads(line) for line in found.out.splitlines()]
    assert found.err == ""
    assert [record["event"] for record in (records[0], records[-1])] == ["begin", "result"]
    assert records[-1]["result"] == read_run(tmp_path / "run").result
    assert {record["event"] for record in records} == {"begin", "epoch", "done", "result"}
    assert sum(record["event"] == "done" for record in records) == 2


@pytest.mark.usefixtures("no_tracer")
def test_progress_and_quiet(capsys):
    loud, quiet = shown(capsys), shown(capsys, "--quiet")
    assert "at most 4 epochs each" in loud.err
    assert "2 of 2 splits done" in loud.err
    assert quiet.err == ""
    assert quiet.out == loud.out


@pytest.mark.usefixtures("no_tracer")
def test_the_start_says_what_chooses(capsys):
    assert "chosen by validation accuracy\n" in shown(capsys).err
    assert "chosen by validation roc_auc\n" in shown(capsys, "--select", "auc").err
    assert "chosen by validation loss\n" in shown(capsys, "--rules", "paper").err


def test_tensorboard(capsys, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    shown(capsys, "--quiet", "--tensorboard", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mean", "split-0", "split-1"]
    events = EventAccumulator(str(tmp_path / "mean"))
    events.Reload()
    assert [event.step for event in events.Scalars("val_metric")] == list(range(1, 5))


def test_a_run_needs_no_folder(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "run:" not in shown(capsys, "--quiet").out
    assert not list(tmp_path.iterdir())


# precision


def losses(folder):
    return [record["train_loss"] for record in read_run(folder).metrics() if record["event"] == "epoch"]


def test_bf16_trains_on_a_cpu(tmp_path):
    names, published = ("bf16", "float32"), tmp_path / "published.json"
    published.write_text(json.dumps({"model": {"layer": PUBLISHED_LAYER}}))
    for name in names:
        train(tmp_path / name, "--splits", "2", "--precision", name, "--config", str(published))
    low, high = (losses(tmp_path / name) for name in names)
    assert all(a != b for a, b in zip(low, high, strict=True))
    assert low == pytest.approx(high, rel=0.02)
    assert all(t.dtype == torch.float32 for t in read_run(tmp_path / "bf16").weights().values())
