"""`fit_splits`: the same result with a folder and without, resumed and read back; time adds up."""

import math
import time
from dataclasses import replace
from functools import partial
from statistics import fmean, pstdev, stdev

import pytest
import torch

from polynsd.config import LayerConfig, ModelConfig, TrainConfig
from polynsd.errors import ConfigError
from polynsd.runs import read_run
from polynsd.training import Callback, Configuration, ProtocolResult, Source, fit_splits, protocol
from polynsd.training.protocol import TimedSnapshots
from polynsd.zoo import MLP

PROBLEM = Source(data=("num_nodes=60", "num_classes=2", "num_features=4"), splits=2).problem()
MODEL = ModelConfig(hidden_channels=4, num_layers=1, layer=LayerConfig(stalk_dim=2, degree=2, dropout=0.3))
CONFIGURATION = Configuration(MODEL, TrainConfig(epochs=12, learning_rate=0.05))
PAUSE = 0.5  # seconds; the rest takes far less


class Breaks(Callback):
    """Pauses in the third epoch; Ctrl-C in the seventh."""

    def epoch(self, split, epoch):
        if (split, epoch.epoch) == (0, 3):
            time.sleep(PAUSE)
        if epoch.epoch == 7:
            raise KeyboardInterrupt


def train(out=None, **options):
    return fit_splits(PROBLEM, CONFIGURATION, out=out, **options)


def sizes(folder):
    return {path.name: path.stat().st_size for path in folder.iterdir()}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keep") / "run"
    return folder, train(folder)


def test_a_folder_changes_nothing(kept):
    folder, result = kept
    assert train() == result
    assert result.to_dict() == read_run(folder).result
    assert len(result.models) == 2
    assert result.seconds == read_run(folder).timings["seconds"]


def test_only_the_result_stays(kept, tmp_path):
    folder, result = kept
    assert train(tmp_path / "run", keep=False) == result
    full, small = sizes(folder), sizes(tmp_path / "run")
    assert "predictions.parquet" in full
    assert "predictions.parquet" not in small
    assert small["metrics.jsonl"] == 0 < full["metrics.jsonl"]
    assert read_run(folder).weights()
    assert not read_run(tmp_path / "run").weights()
    assert train(tmp_path / "run") == result  # a finished run is read, whoever asks
    assert "predictions.parquet" not in sizes(tmp_path / "run")


def test_an_interrupted_run_resumes_to_the_same_result_and_counts_the_time_of_both_sessions(kept, tmp_path):
    options = {"out": tmp_path / "run", "keep": False, "snapshot_seconds": 0.0}
    with pytest.raises(KeyboardInterrupt):
        train(callback=Breaks(), **options)
    assert (tmp_path / "run" / "snapshot.safetensors").exists()
    resumed = train(**options)
    assert resumed == kept[1]
    assert resumed.seconds > PAUSE


@pytest.mark.parametrize("ddof", [0, 1])
def test_results_are_plain_data_and_back(kept, ddof):
    result = replace(kept[1], ddof=ddof)
    tests = [row.test for row in result.rows]
    assert (result.mean, result.std) == (fmean(tests), stdev(tests) if ddof else pstdev(tests))
    assert result.val_mean == fmean(row.val for row in result.rows)
    assert str(result) == f"{100 * result.mean:.1f} ± {100 * result.std:.1f}"
    plain = result.to_dict()
    assert ProtocolResult.from_dict(plain) == result
    assert list(plain)[len(PROBLEM.about) :] == [
        "model", "config", "parameters", "rules", "metric", "select",
        "mean", "std", "std_kind", "val_mean", "splits",
    ]  # fmt: skip
    assert list(plain["splits"][0]) == [
        "split", "seed", "fingerprint", "val", "val_loss", "test", "best_epoch", "epochs", "diverged",
        "train", "train_loss",
    ]  # fmt: skip
    assert {key: plain[key] for key in PROBLEM.about} == dict(PROBLEM.about)


def test_null_in_a_file_is_a_number_that_was_not_finite(kept):
    plain = kept[1].to_dict()
    plain["splits"][0]["test"] = None
    read = ProtocolResult.from_dict(plain)
    assert math.isnan(read.rows[0].test)
    assert math.isnan(read.mean)


def test_a_model_of_your_own_trains_without_a_folder(tmp_path):
    build = partial(MLP, 4, 4, 2, 2)
    result = fit_splits(PROBLEM, CONFIGURATION, build=build)
    assert result.model == "MLP"
    assert isinstance(result.models[0], MLP)
    with pytest.raises(ConfigError, match="got both build and out"):
        fit_splits(PROBLEM, CONFIGURATION, build=build, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# time


class Kept:
    """The last state, as a run folder keeps it."""

    state = None

    def load(self):
        return self.state

    def offer(self, state):
        self.state = state()


@pytest.fixture
def now(monkeypatch):
    """A clock that a test sets."""
    time = [100.0]
    monkeypatch.setattr(protocol.time, "perf_counter", lambda: time[0])
    return time


def test_sessions_add_up_to_their_last_snapshots(now):
    kept, state = Kept(), {"weights": torch.ones(2)}
    for begins, last in ((100, 107), (500, 511)):
        now[0] = begins
        session = TimedSnapshots(kept)
        loaded = session.load()
        assert loaded is None if begins == 100 else set(loaded) == {"weights"}
        now[0] = last
        session.offer(lambda: state)
        now[0] = last + 40  # lost, and done again
    now[0] = 1000
    third = TimedSnapshots(kept)
    third.load()
    now[0] = 1002
    assert third.seconds == pytest.approx(7 + 11 + 2)


def test_snapshots_without_a_time_count_from_now(now):
    kept = Kept()
    kept.state = {"weights": torch.ones(1)}
    session = TimedSnapshots(kept)
    session.load()
    now[0] += 3
    assert session.seconds == pytest.approx(3)
