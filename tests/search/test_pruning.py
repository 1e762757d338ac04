"""Trials that fall behind end early, by their mean over splits; what they reached is kept."""

from statistics import fmean

import pytest
from toys import toy_search, toy_space

from polynsd.config import TrainConfig
from polynsd.search import best_trial, work
from polynsd.search.pruning import Curve, Watch, fails_screening
from polynsd.training import Epoch, problem


def epochs(values):
    best = -1.0
    for number, value in enumerate(values, 1):
        yield Epoch(number, 0.5, 0.5, value, value > best)
        best = max(best, value)


class StubTrial:
    """Notes reports; falls behind where its value is below `least`."""

    def __init__(self, least=0.0):
        self.least, self.reports = least, {}

    def report(self, value, step):
        assert step not in self.reports
        self.reports[step] = value

    def should_prune(self):
        return list(self.reports.values())[-1] < self.least


def test_a_curve_is_the_value_if_training_ended_there():
    curve = Curve(TrainConfig(epochs=10, patience=3))
    for epoch in epochs([0.2, 0.5, 0.4]):
        curve.add(epoch)
    assert [curve.at(epoch) for epoch in (1, 2, 3)] == [0.2, 0.5, 0.5]
    assert not curve.reaches(4)
    for epoch in [Epoch(number, 0.5, 0.5, 0.1, False) for number in (4, 5)]:
        curve.add(epoch)
    assert curve.ended  # patience
    assert curve.at(10) == 0.5


def feed(watch, replica, values):
    for epoch in epochs(values):
        watch.on_epoch(replica, epoch)


def test_reports_are_means_over_splits_at_equal_epochs():
    """Also where one split is ahead of the other, as in trainings in parts."""
    trial = StubTrial()
    watch = Watch([trial], [TrainConfig(epochs=4)], 2, look=2)
    feed(watch, 0, [0.1, 0.3, 0.5, 0.7])
    assert watch.stop(4) == []
    assert trial.reports == {}
    feed(watch, 1, [0.5, 0.5, 0.9])
    watch.stop(3)
    assert trial.reports == {2: pytest.approx(0.4)}


def test_all_replicas_of_a_trial_that_falls_behind_end():
    good, bad = StubTrial(0.0), StubTrial(0.9)
    watch = Watch([good, bad], [TrainConfig(epochs=9)] * 2, 2, look=2)
    for replica in range(4):
        feed(watch, replica, [0.5, 0.5])
    assert watch.stop(2) == [2, 3]
    assert watch.pruned == {1}
    assert watch.stop(3) == [2, 3]


def test_a_trial_that_is_through_is_not_pruned_but_fills_its_looks():
    trial = StubTrial(0.9)
    watch = Watch([trial], [TrainConfig(epochs=10, patience=1)], 1, look=2)
    feed(watch, 0, [0.5, 0.4])
    assert watch.stop(2) == []
    assert trial.reports == dict.fromkeys((2, 4, 6, 8, 10), 0.5)


def test_a_diverged_trial_ends_on_all_splits():
    watch = Watch([StubTrial(), StubTrial()], [TrainConfig()] * 2, 3, look=2)
    watch.on_epoch(4, Epoch(1, float("nan"), 0.5, 0.5, False))
    assert watch.stop(1) == [3, 4, 5]


def pruning_search(**config):
    """Learning rates so small that nothing is learned, or large: the bad ones fall behind."""
    space = toy_space(
        model__hidden_channels=4,
        model__layer__dropout=0.0,
        training__learning_rate=[1e-7, 0.05],
        training__epochs=40,
    )
    return toy_search(space=space, trials=16, pruner="median", startup=4, look=5, **config)


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
    assert best_trial(search.study).state.name == "COMPLETE"
    assert best_trial(search.study).value == search.study.best_value


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
    fit_replicas = problem.fit_replicas

    def counting(replicas, *arguments, **options):
        calls.append(len(replicas))
        return fit_replicas(replicas, *arguments, **options)

    monkeypatch.setattr(problem, "fit_replicas", counting)
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
