"""Trials that fall behind end early, by their mean over splits; what they reached is kept."""

from statistics import fmean

import pytest
from toys import toy_search, toy_space

from polynsd.config import TrainConfig
from polynsd.search import Trial, best_trials, trials, work
from polynsd.search.pruning import BatchPruning, ValidationCurve, fails_screening
from polynsd.training import Configuration, Epoch


def epochs(values):
    best = -1.0
    for number, value in enumerate(values, 1):
        yield Epoch(number, 0.5, 0.5, value, value > best)
        best = max(best, value)


class StubHandle:
    """Notes reports; falls behind where its value is below `least`."""

    def __init__(self, least=0.0):
        self.least, self.reports = least, {}

    def report(self, value, step):
        assert step not in self.reports
        self.reports[step] = value

    def should_prune(self):
        return list(self.reports.values())[-1] < self.least


def test_a_curve_is_the_value_if_training_ended_there():
    curve = ValidationCurve(TrainConfig(epochs=10, patience=3))
    for epoch in epochs([0.2, 0.5, 0.4]):
        curve.add(epoch)
    assert [curve.value_at(epoch) for epoch in (1, 2, 3)] == [0.2, 0.5, 0.5]
    assert not curve.has_value_at(4)
    for epoch in [Epoch(number, 0.5, 0.5, 0.1, False) for number in (4, 5)]:
        curve.add(epoch)
    assert curve.has_ended  # patience
    assert curve.value_at(10) == 0.5


def pruning_of(handles, splits, **rules):
    configuration = Configuration(training=TrainConfig(**rules))
    batch = [Trial(number, configuration, handle=handle) for number, handle in enumerate(handles)]
    return BatchPruning(batch, splits, interval=2)


def feed(pruning, replica, values):
    for epoch in epochs(values):
        pruning.on_epoch(replica, epoch)


def test_reports_are_means_over_splits_at_equal_epochs():
    """Also where one split is ahead of the other, as in trainings in parts."""
    trial = StubHandle()
    pruning = pruning_of([trial], 2, epochs=4)
    feed(pruning, 0, [0.1, 0.3, 0.5, 0.7])
    assert pruning.stop(4) == []
    assert trial.reports == {}
    feed(pruning, 1, [0.5, 0.5, 0.9])
    pruning.stop(3)
    assert trial.reports == {2: pytest.approx(0.4)}


def test_all_replicas_of_a_trial_that_falls_behind_end():
    good, bad = StubHandle(0.0), StubHandle(0.9)
    pruning = pruning_of([good, bad], 2, epochs=9)
    for replica in range(4):
        feed(pruning, replica, [0.5, 0.5])
    assert pruning.stop(2) == [2, 3]
    assert pruning.pruned == {1}
    assert pruning.stop(3) == [2, 3]


def test_a_trial_that_is_through_is_not_pruned_but_reports_to_the_end():
    trial = StubHandle(0.9)
    pruning = pruning_of([trial], 1, epochs=10, patience=1)
    feed(pruning, 0, [0.5, 0.4])
    assert pruning.stop(2) == []
    assert trial.reports == dict.fromkeys((2, 4, 6, 8, 10), 0.5)


def test_a_diverged_trial_ends_on_all_splits():
    pruning = pruning_of([StubHandle(), StubHandle()], 3)
    pruning.on_epoch(4, Epoch(1, float("nan"), 0.5, 0.5, False))
    assert pruning.stop(1) == [3, 4, 5]


def pruning_search(**config):
    """Learning rates so small that nothing is learned, or large: the bad ones fall behind."""
    space = toy_space(
        model__hidden_channels=4,
        model__layer__dropout=0.0,
        training__learning_rate=[1e-7, 0.05, 0.06],
        training__epochs=40,
    )
    return toy_search(space=space, trials=16, pruner="median", startup=4, prune_interval=5, **config)


def test_pruned_trials_are_stored_with_what_they_reached():
    search = pruning_search()
    work(search)
    pruned = [trial for trial in search.study.trials if trial.state.name == "PRUNED"]
    assert len(search.study.trials) == 16
    assert pruned
    for trial in pruned:
        assert len(trial.user_attrs["val"]) == 2
        assert max(trial.user_attrs["epochs"]) < 40
        assert trial.value == pytest.approx(fmean(trial.user_attrs["val"]))
    best = best_trials(search)
    assert {trial.number for trial in best} == {
        trial.number for trial in search.study.trials if trial.state.name == "COMPLETE"
    }
    assert best[0].value == search.study.best_value


def test_pruning_does_not_change_what_complete_trials_are_worth():
    pruned, whole = pruning_search(), pruning_search(study="whole")
    whole.study.pruner = type("Never", (), {"prune": lambda *_: False})()
    work(pruned)
    work(whole)
    values = {trial.number: trial.value for trial in whole.study.trials}
    complete = [trial for trial in pruned.study.trials if trial.state.name == "COMPLETE"]
    assert len(complete) < 16
    for trial in complete:
        assert trial.value == pytest.approx(values[trial.number], abs=1e-5)


def test_screening_trains_the_rest_of_the_splits_for_survivors_only(monkeypatch):
    search = pruning_search(splits=3, screen=1)
    search.study.pruner = type("Never", (), {"prune": lambda *_: False})()
    calls = []
    fit_replicas = trials.fit_replicas

    def counting(replicas, *arguments, **options):
        calls.append(len(replicas))
        return fit_replicas(replicas, *arguments, **options)

    monkeypatch.setattr(trials, "fit_replicas", counting)
    work(search)
    states = {trial.number: trial.state.name for trial in search.study.trials}
    assert "PRUNED" in states.values()
    for trial in search.study.trials:
        assert len(trial.user_attrs["val"]) == (1 if states[trial.number] == "PRUNED" else 3)
    complete = list(states.values()).count("COMPLETE")
    assert sum(calls) == 16 + 2 * complete


def test_screening_compares_with_the_median_on_the_same_splits():
    search = toy_search(trials=4)
    work(search)
    firsts = sorted(trial.user_attrs["val"][0] for trial in search.study.trials)
    median = (firsts[1] + firsts[2]) / 2
    assert fails_screening(search.study, [median - 0.01], startup=4)
    assert not fails_screening(search.study, [median], startup=4)
    assert not fails_screening(search.study, [0.0], startup=5)
