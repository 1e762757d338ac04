"""Studies: resumed as if never stopped, honest about the test set, and never mixed up."""

import json
import sqlite3
from dataclasses import replace

import pytest
from toys import by_params, toy_search, toy_space

from polynsd.errors import ConfigError
from polynsd.search import (
    SearchConfig,
    count_finished,
    seconds_spent,
    trial_rows,
    trials,
    work,
    worker,
    write_trials,
)

SECRET = 0.123456789  # a test score that would be recognised anywhere


@pytest.fixture
def secret_test_scores(monkeypatch):
    fit_replicas = trials.fit_replicas

    def fit(*arguments, **options):
        return [replace(result, test_metric=SECRET) for result in fit_replicas(*arguments, **options)]

    monkeypatch.setattr(trials, "fit_replicas", fit)


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize("config", [{"sampler": "random"}, {"sampler": "tpe", "batch": 1, "startup": 3}])
def test_resuming_equals_never_stopping(config, tmp_path):
    whole = toy_search(trials=7, **config)
    work(whole)
    for count in (3, 7):
        parts = toy_search(f"sqlite:///{tmp_path}/study.db", trials=count, **config)
        work(parts)
        assert count_finished(parts.study) == count
    assert by_params(parts.study) == by_params(whole.study)


@pytest.mark.usefixtures("no_tracer")
def test_a_budget_of_seconds_ends_a_search_that_can_be_resumed(tmp_path):
    """Trials count with the time that they took, whoever trained them; a batch that is begun is finished."""
    whole = toy_search(trials=8, batch=2)
    work(whole)
    url = f"sqlite:///{tmp_path}/study.db"
    for seconds, count in ((0.0, 0), (1e-9, 2), (1e-9, 2)):  # the second time there is nothing left
        parts = toy_search(url, trials=8, batch=2)
        work(parts, seconds=seconds)
        assert count_finished(parts.study) == count
    times = [trial.user_attrs["seconds"] for trial in parts.study.trials]
    assert seconds_spent(parts.study) == pytest.approx(sum(times))
    work(parts, seconds=seconds_spent(parts.study) + 1e-9)
    assert count_finished(parts.study) == 4
    work(parts)
    assert by_params(parts.study) == by_params(whole.study)


def test_what_is_spent_begins_with_nothing():
    assert seconds_spent(toy_search(trials=2).study) == 0


def test_a_study_that_is_done_asks_for_nothing():
    search = toy_search(trials=3)
    work(search)
    work(search)
    assert len(search.study.trials) == 3


def test_no_test_score_reaches_the_storage(tmp_path, secret_test_scores):
    search = toy_search(
        f"sqlite:///{tmp_path}/study.db", trials=4, pruner="median", prune_interval=2, startup=1
    )
    work(search)
    write_trials(tmp_path / "trials.csv", search.study)
    with sqlite3.connect(tmp_path / "study.db") as database:
        dump = "\n".join(database.iterdump())
    database.close()
    told = [json.dumps([t.user_attrs, t.system_attrs, t.intermediate_values]) for t in search.study.trials]
    for text in (dump, *told, (tmp_path / "trials.csv").read_text()):
        assert str(SECRET)[:8] not in text
        assert "test" not in text.lower()


def test_trials_hold_validation_split_by_split():
    search = toy_search(trials=2, splits=3)
    work(search)
    for trial in search.study.trials:
        assert trial.value == pytest.approx(sum(trial.user_attrs["val"]) / 3)
        assert all(1 <= best <= 4 for best in trial.user_attrs["best_epoch"])
        assert trial.user_attrs["epochs"] == [4, 4, 4]
        assert trial.user_attrs["seconds"] > 0


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"splits": 3}, "splits"),
        ({"seed": 1}, "seed"),
        ({"screen": 1}, "screen"),
        ({"prune_interval": 5}, "prune_interval"),
        ({"space": toy_space(training__epochs=5)}, "space"),
    ],
)
def test_another_question_is_not_answered_by_the_same_study(changes, named, tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    toy_search(url)
    with pytest.raises(ConfigError, match=rf"other values of: {named}\. "):
        toy_search(url, **changes)
    toy_search(url, study="another", **changes)
    toy_search(url, batch=2, trials=7, sampler="tpe", pruner="median")  # how it is led may change


def test_every_trial_is_told():
    search, told = toy_search(trials=5), []
    work(search, on_trial=told.append)
    assert [trial.number for trial in told] == list(range(5))
    assert {trial.state for trial in told} == {"complete"}
    bests = [trial.value for trial in told if trial.is_best]
    assert bests == sorted(set(bests))
    assert bests[-1] == search.study.best_value


def test_the_table_has_every_trial_and_the_best_so_far():
    search = toy_search(trials=6)
    work(search)
    rows = trial_rows(search.study)
    values = [row["value"] for row in rows]
    assert [row["trial"] for row in rows] == list(range(6))
    assert [row["best_so_far"] for row in rows] == [max(values[: i + 1]) for i in range(6)]
    assert set(search.space.distributions()) <= set(rows[0])


def test_an_interrupted_batch_is_queued_again(monkeypatch):
    """Ctrl-C in the second batch; the same parameters are trained later, and none is lost."""
    whole = toy_search(trials=8)
    work(whole)
    search, real, calls = toy_search(trials=8), worker.train_together, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(worker, "train_together", interrupted)
    with pytest.raises(KeyboardInterrupt):
        work(search)
    assert count_finished(search.study) == 4
    work(search)
    assert by_params(search.study) == by_params(whole.study)
    assert [row["state"] for row in trial_rows(search.study)].count("lost") == 4


def test_settings_are_checked():
    for bad in ({"trials": 0}, {"batch": 0}, {"prune_interval": 0}, {"screen": -1}, {"startup": True}):
        with pytest.raises(ConfigError):
            SearchConfig(**bad)
    with pytest.raises(ConfigError, match="screen must be less"):
        toy_search(screen=2, splits=2)
    with pytest.raises(ConfigError, match="unknown pruner"):
        toy_search(pruner="media")
    with pytest.raises(ConfigError, match="unknown sampler"):
        toy_search(sampler="tpee")
    with pytest.raises(ConfigError, match="percentile"):
        toy_search(pruner="percentile(0)")
