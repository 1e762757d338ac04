"""What TensorBoard reads back is what happened."""

import sys
import time
from types import SimpleNamespace

import pytest

from polynsd.errors import ConfigError
from polynsd.report import TensorBoardLog
from polynsd.training import Epoch
from polynsd.training.callback import ProtocolPlan, TrialStatus


def epoch(number, metric, best=False):
    return Epoch(number, 1 / number, 2 / number, metric, best)


def result(epochs):
    return SimpleNamespace(epochs=epochs, best_epoch=1, val_metric=0.5, test_metric=0.4)


def scalars(folder):
    """Tag → [(step, value)]"""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def plan(splits=2, epochs=10, patience=None):
    return ProtocolPlan(tuple(map(str, range(splits))), epochs, "accuracy", patience=patience)


def test_curves_of_every_split_and_their_mean(tmp_path):
    with TensorBoardLog(tmp_path) as log:
        log.begin(plan(epochs=2))
        for number in (1, 2):
            for split in (1, 0):
                log.epoch(split, epoch(number, 0.25 * number + 0.5 * split))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mean", "split-0", "split-1"]
    for split in range(2):
        assert scalars(tmp_path / f"split-{split}") == {
            "train_loss": [(1, 1.0), (2, 0.5)],
            "val_loss": [(1, 2.0), (2, 1.0)],
            "val_metric": [(1, 0.25 + 0.5 * split), (2, 0.5 + 0.5 * split)],
        }
    assert scalars(tmp_path / "mean")["val_metric"] == [(1, 0.5), (2, 0.75)]


def test_a_split_that_stopped_counts_with_its_best_epoch(tmp_path):
    with TensorBoardLog(tmp_path) as log:
        log.begin(plan(epochs=4, patience=2))
        for number in range(1, 5):
            log.epoch(0, epoch(number, number / 4, best=True))
            if number <= 3:
                log.epoch(1, epoch(number, 1.0 if number == 1 else 0.0, best=number == 1))
    assert scalars(tmp_path / "mean")["val_metric"] == [(1, 0.625), (2, 0.25), (3, 0.375), (4, 1.0)]


def test_splits_may_come_one_after_another_and_end_late(tmp_path):
    with TensorBoardLog(tmp_path) as log:
        log.begin(plan())
        for number in range(1, 4):
            log.epoch(0, epoch(number, 0.5, best=True))
        log.epoch(1, epoch(1, 0.0, best=True))
        log.done(1, result(1))
        log.done(0, result(3))
    assert scalars(tmp_path / "mean")["val_metric"] == [(1, 0.25), (2, 0.25), (3, 0.25)]


def test_a_resumed_run_replaces_what_was_written_after_the_snapshot(tmp_path, monkeypatch):
    real = time.time  # TensorBoard reads files in the order of the seconds in their names
    for first, last, metric in ((1, 6, 0.25), (5, 8, 0.75)):
        monkeypatch.setattr(time, "time", lambda: real() + first)  # noqa: B023
        with TensorBoardLog(tmp_path) as log:
            log.begin(plan(splits=1))
            if first > 1:
                log.resume(0, epoch(first - 1, 0.25), epoch(1, 0.25))
            for number in range(first, last + 1):
                log.epoch(0, epoch(number, metric))
    expected = [(n, 0.25 if n < 5 else 0.75) for n in range(1, 9)]
    assert scalars(tmp_path / "split-0")["val_metric"] == expected
    assert scalars(tmp_path / "mean")["val_metric"] == expected


def test_thinned(tmp_path):
    with TensorBoardLog(tmp_path, every=5) as log:
        log.begin(plan(splits=1))
        for number in range(1, 11):
            log.epoch(0, epoch(number, 0.5, best=number == 7))
    assert [step for step, _ in scalars(tmp_path / "split-0")["val_loss"]] == [5, 7, 10]
    assert [step for step, _ in scalars(tmp_path / "mean")["val_loss"]] == [5, 10]


def test_trials_with_their_hyper_parameters(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    with TensorBoardLog(tmp_path) as log:
        log.trial(TrialStatus(0, "running"))
        log.trial(TrialStatus(0, "complete", 0.75, {"degree": 8, "maps": "diagonal", "widths": (16, 32)}))
        log.trial(TrialStatus(1, "pruned", None, {"degree": 4}))
    assert scalars(tmp_path / "trial-0") == {"value": [(0, 0.75)]}
    assert scalars(tmp_path / "trial-1") == {}
    events = EventAccumulator(str(tmp_path / "trial-0"))
    events.Reload()
    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    told = HParamsPluginData.FromString(content).session_start_info.hparams
    assert told["degree"].number_value == 8
    assert (told["maps"].string_value, told["widths"].string_value) == ("diagonal", "(16, 32)")
    assert told["state"].string_value == "complete"


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ConfigError, match=r"pip install 'polynsd\[tensorboard\]'"):
        TensorBoardLog(tmp_path)


def test_an_interrupted_log_is_readable(tmp_path):
    with pytest.raises(KeyboardInterrupt), TensorBoardLog(tmp_path) as log:  # noqa: PT012
        log.begin(plan(splits=1))
        log.epoch(0, epoch(1, 0.5))
        raise KeyboardInterrupt
    assert scalars(tmp_path / "split-0")["val_metric"] == [(1, 0.5)]
