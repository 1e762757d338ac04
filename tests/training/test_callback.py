"""Events reach every callback; as records they are valid JSON with stable keys."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from polynsd.errors import ConfigError
from polynsd.report import JsonLines
from polynsd.training import Epoch
from polynsd.training import callback as callback_module
from polynsd.training.callback import (
    Callback,
    CallbackList,
    EventLog,
    ProtocolPlan,
    SearchPlan,
    TrialStatus,
)

KEYS = {
    "begin": ["splits", "epochs", "metric", "select", "patience", "title"],
    "resume": ["split", "epoch", "best_epoch", "val_metric"],
    "epoch": ["split", "epoch", "train_loss", "val_loss", "val_metric", "is_best"],
    "done": ["split", "epochs", "best_epoch", "val_metric", "test_metric"],
    "search": ["trials", "metric", "earlier", "title"],
    "trial": ["number", "state", "value", "params", "best_number", "best_so_far"],
    "result": ["result"],
    "failed": ["error", "message"],
}


def epoch(number, best=False, loss=0.5):
    return Epoch(number, loss, loss, 0.5, best)


def everything(callback):
    """One of each event."""
    callback.begin(ProtocolPlan(("0", "1"), 100, "accuracy", "loss", 20))
    callback.resume(0, epoch(40), epoch(30))
    callback.epoch(0, epoch(41, best=True))
    callback.done(
        0, SimpleNamespace(epochs=60, best_epoch=41, val_metric=0.5, test_metric=0.4, model=object())
    )
    callback.begin_search(SearchPlan(10, "accuracy"))
    callback.trial(TrialStatus(3, "complete", 0.5, {"degree": 4}, is_best=True))
    callback.finish({"mean": 0.4, "tests": (0.4, 0.4)})


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_keys_are_stable_and_the_event_comes_first(capsys):
    with pytest.raises(KeyboardInterrupt), JsonLines() as callback:  # noqa: PT012
        everything(callback)
        raise KeyboardInterrupt
    records = lines(capsys)
    assert [record["event"] for record in records] == list(KEYS)
    for record in records:
        assert list(record) == ["event", *KEYS[record["event"]]]
    assert records[-2]["result"] == {"mean": 0.4, "tests": [0.4, 0.4]}
    assert records[-1] == {"event": "failed", "error": "KeyboardInterrupt", "message": ""}


def test_the_keys_are_documented():
    for event, keys in KEYS.items():
        row = next(row for row in callback_module.__doc__.splitlines() if row.startswith(f"| `{event}` |"))
        assert all(f"`{key}`" in row for key in keys)


@pytest.mark.parametrize(("every", "told"), [(10, [3, 10, 17, 20]), (1, list(range(1, 26))), (100, [3, 17])])
def test_epochs_are_thinned_but_improvements_are_told(capsys, every, told):
    with JsonLines(every=every) as callback:
        for number in range(1, 26):
            callback.epoch(0, epoch(number, best=number in (3, 17)))
    assert [record["epoch"] for record in lines(capsys)] == told


def test_every_must_be_a_number_of_epochs():
    with pytest.raises(ConfigError, match="every must be an integer of at least 1"):
        JsonLines(every=0)


def test_numbers_that_json_has_not(capsys):
    with JsonLines(every=1) as callback:
        callback.epoch(0, epoch(1, loss=math.nan))
        callback.finish({"worst": -math.inf, "path": Path("runs"), "deep": [{1: math.nan}]})
    first, second = lines(capsys)
    assert first["train_loss"] is None
    assert second["result"] == {"worst": None, "path": "runs", "deep": [{"1": None}]}


def test_the_best_so_far_is_told_with_every_trial(capsys):
    earlier = (TrialStatus(0, "complete", 0.7, is_best=True), TrialStatus(1, "failed"))
    with JsonLines() as callback:
        callback.begin_search(SearchPlan(10, "accuracy", earlier))
        callback.trial(TrialStatus(2, "pruned", 0.1))
        callback.trial(TrialStatus(3, "complete", 0.8, is_best=True))
        callback.trial(TrialStatus(4, "running"))
    search, *trials = lines(capsys)
    assert search["earlier"] == 2
    assert [(t["best_number"], t["best_so_far"]) for t in trials] == [(0, 0.7), (3, 0.8), (3, 0.8)]


def test_records_go_where_they_are_wanted(tmp_path):
    log = []
    with EventLog(log.append, every=1) as callback:
        everything(callback)
    assert [record["event"] for record in log] == list(KEYS)[:-1]
    with (tmp_path / "events.jsonl").open("w", encoding="utf-8") as stream, JsonLines(stream) as callback:
        everything(callback)
    assert len((tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines()) == 7


class Diary(Callback):
    def __init__(self, pages, name="diary"):
        self.pages, self.name = pages, name

    def __enter__(self):
        self.pages.append(f"{self.name} in")
        return self

    def __exit__(self, kind, error, trace):
        self.pages.append(f"{self.name} out {kind.__name__ if kind else ''}".strip())


def test_several_watchers_hear_everything():
    one, two, deaf = [], [], Callback()
    with CallbackList(EventLog(one.append, 1), deaf, EventLog(two.append, 1)) as both:
        everything(both)
    assert one == two
    assert len(one) == 7


def test_all_of_them_are_entered_and_left_whatever_happens():
    pages = []
    with pytest.raises(RuntimeError), CallbackList(Diary(pages, "a"), Diary(pages, "b")):
        raise RuntimeError
    assert pages == ["a in", "b in", "b out RuntimeError", "a out RuntimeError"]


def test_one_that_cannot_be_entered_closes_the_others():
    class Broken(Callback):
        def __enter__(self):
            raise OSError("disk full")

    pages = []
    with pytest.raises(OSError, match="disk full"), CallbackList(Diary(pages, "a"), Broken()):
        pass
    assert pages == ["a in", "a out OSError"]


def test_no_callback():

    with CallbackList() as nobody:
        everything(nobody)


def test_plans_and_trials_check_themselves():
    with pytest.raises(ConfigError, match=r"unknown selection 'los'.*Did you mean 'loss'"):
        ProtocolPlan(("0",), 10, "accuracy", "los")
    with pytest.raises(ConfigError, match="epochs must be an integer of at least 0"):
        ProtocolPlan(("0",), -1, "accuracy")
    with pytest.raises(ConfigError, match="unknown state of a trial 'prune'"):
        TrialStatus(0, "prune")
