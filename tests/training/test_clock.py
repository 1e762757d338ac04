"""The time of a training is that of all its sessions."""

import time

import pytest
import torch

from polynsd.config import ModelConfig, TrainConfig
from polynsd.runs import read_run
from polynsd.training import Callback, Configuration, Source, fit_splits, protocol
from polynsd.training.protocol import TimedSnapshots

PAUSE = 0.5  # seconds; the rest takes far less


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
        found = session.load()
        assert found is None if begins == 100 else set(found) == {"weights"}
        now[0] = last
        session.offer(lambda: state)
        now[0] = last + 40  # lost, and done again
    now[0] = 1000
    third = TimedSnapshots(kept)
    third.load()
    now[0] = 1002
    assert third.seconds == pytest.approx(7 + 11 + 2)


class Breaks(Callback):
    """Takes its time, and is interrupted after it."""

    def epoch(self, replica, epoch):
        if epoch.epoch == 3:
            time.sleep(PAUSE)
        if epoch.epoch == 7:
            raise KeyboardInterrupt


def test_a_resumed_run_counts_the_time_of_the_first_session(tmp_path):
    data = ("num_nodes=40", "num_classes=2", "num_features=4")
    problem = Source(data=data, splits=2).problem()
    configuration = Configuration(ModelConfig("mlp", 4, 2), TrainConfig(epochs=12))
    with pytest.raises(KeyboardInterrupt):
        fit_splits(problem, configuration, callback=Breaks(), out=tmp_path / "run", snapshot_seconds=0.0)
    fit_splits(problem, configuration, out=tmp_path / "run")
    assert read_run(tmp_path / "run").timings["seconds"] > PAUSE
    fit_splits(problem, configuration, out=tmp_path / "whole")
    assert read_run(tmp_path / "run").result == read_run(tmp_path / "whole").result


def test_snapshots_without_a_time_count_from_now(now):
    kept = Kept()
    kept.state = {"weights": torch.ones(1)}
    session = TimedSnapshots(kept)
    session.load()
    now[0] += 3
    assert session.seconds == pytest.approx(3)
