"""The end of a search: validation with other seeds decides, and only the winner is tested."""

import json
import math
from dataclasses import replace

import pytest
import torch
from toys import toy_search

from polynsd.runs import read_run
from polynsd.search import best_trials, conclude, final, run_off, trials, work
from polynsd.search.final import FINAL_SEED, RUN_OFF_SEED
from polynsd.training import protocol


def finished_search(**config):
    search = toy_search(**{"trials": 4, "batch": 1, "finalists": 3, **config})
    work(search)
    return search


@pytest.fixture
def trainings(monkeypatch):
    """Seeds of every training, and whether its test set is scored."""
    seen = []

    def watch(where):
        train = where.fit_replicas

        def fit(replicas, *arguments, **options):
            seen.append((sorted(replica.seed for replica in replicas), options.get("score_test", True)))
            return train(replicas, *arguments, **options)

        monkeypatch.setattr(where, "fit_replicas", fit)

    watch(trials)
    watch(protocol)
    return seen


def invent_scores(monkeypatch, search, scores):
    """Lets the best trials of a search, in their order, score so in its run-off."""
    train, ranked = final.train_together, best_trials(search)
    of_rate = {
        trial.configuration.training.learning_rate: score
        for trial, score in zip(ranked, scores, strict=False)
    }

    def invent(problem, configurations, splits, **options):
        fits = train(problem, configurations, splits, **options)
        return [
            [replace(fit, val_metric=of_rate[configuration.training.learning_rate]) for fit in each]
            for configuration, each in zip(configurations, fits, strict=True)
        ]

    monkeypatch.setattr(final, "train_together", invent)
    return ranked


def test_trials_run_off_and_test_have_seeds_of_their_own(tmp_path, trainings):
    result = conclude(tmp_path, finished_search(batch=4, trials=3))
    own = [RUN_OFF_SEED, RUN_OFF_SEED + 1]
    assert trainings == [
        ([0, 0, 0, 1, 1, 1], False),
        (sorted(3 * own), False),
        ([FINAL_SEED, FINAL_SEED + 1], True),
    ]
    assert [row["seed"] for row in result["final"]["splits"]] == [FINAL_SEED, FINAL_SEED + 1]


def test_no_test_node_is_ever_scored_before_the_end(tmp_path):
    """Trials and run-off ask for metrics of validation nodes alone; only then does the test set count."""
    search = toy_search(trials=4, finalists=2)
    problem, scored = search.problem, []

    def metrics(outputs, labels, masks):
        scored.append(masks.any(0))
        return problem.task.metrics(outputs, labels, masks)

    spied = replace(search, problem=replace(problem, task=replace(problem.task, metrics=metrics)))
    work(spied)
    run_off(spied)
    validation = torch.stack([split.val for split in problem.splits]).any(0)
    assert scored
    assert all(not bool((nodes & ~validation).any()) for nodes in scored)
    assert not validation.all()
    scored.clear()
    conclude(tmp_path, spied)
    assert any(bool((nodes & ~validation).any()) for nodes in scored)


def test_the_run_off_decides_among_the_best(tmp_path, monkeypatch):
    search = finished_search()
    ranked = invent_scores(monkeypatch, search, [0.1, 0.3, 0.2])
    result = conclude(tmp_path, search)
    order = [ranked[1], ranked[2], ranked[0]]
    assert result["finalists"] == [
        {"trial": trial.number, "search": trial.value, "val": pytest.approx(val)}
        for trial, val in zip(order, (0.3, 0.2, 0.1), strict=True)
    ]
    assert result["chosen"]["trial"] == ranked[1].number
    run = read_run(tmp_path / f"final-trial-{ranked[1].number}")
    assert run.result == result["final"]
    assert len({name.partition(".")[0] for name in run.weights()}) == 2  # splits


def test_a_tie_goes_to_the_better_one_in_the_search(monkeypatch):
    search = finished_search()
    ranked = invent_scores(monkeypatch, search, [0.2, 0.2, 0.2])
    assert [finalist.trial.number for finalist in run_off(search)] == [trial.number for trial in ranked[:3]]


def test_what_is_not_finite_loses_and_is_null_in_files(tmp_path, monkeypatch):
    search = finished_search()
    ranked = invent_scores(monkeypatch, search, [math.nan, 0.1, 0.0])
    for _ in range(2):  # trained, then read
        last = conclude(tmp_path, search)["finalists"][-1]
        assert (last["trial"], last["val"]) == (ranked[0].number, None)
    assert json.loads((tmp_path / "result.json").read_text())["finalists"][-1] == last


def test_what_is_done_is_not_done_again(tmp_path, trainings, monkeypatch):
    """Neither after an interruption, which here comes before the second shape, nor at the end."""
    search = finished_search(trials=6, finalists=4)
    before, train = len(trainings), trials.fit_replicas

    def interrupt(*arguments, **options):
        if len(trainings) > before:
            raise KeyboardInterrupt
        return train(*arguments, **options)

    monkeypatch.setattr(trials, "fit_replicas", interrupt)
    with pytest.raises(KeyboardInterrupt):
        conclude(tmp_path, search)
    monkeypatch.setattr(trials, "fit_replicas", train)
    result = conclude(tmp_path, search)
    run_offs = [seeds for seeds, is_tested in trainings[before:] if not is_tested]
    assert len(run_offs) > 1
    assert sum(map(len, run_offs)) == 4 * 2  # finalists × splits
    count = len(trainings)
    assert conclude(tmp_path, search)["final"] == result["final"]
    assert len(trainings) == count
    assert [finalist.to_dict() for finalist in run_off(search)] == result["finalists"]


def test_one_finalist_needs_no_run_off(tmp_path, trainings):
    search = finished_search(finalists=1)
    before = len(trainings)
    result = conclude(tmp_path, search)
    best = best_trials(search)[0]
    assert result["finalists"] == [{"trial": best.number, "search": best.value, "val": best.value}]
    assert [is_tested for _, is_tested in trainings[before:]] == [True]
    assert "run-off" not in (tmp_path / "best.yaml").read_text()


def test_a_run_off_may_have_more_splits_than_the_search():
    search, more = finished_search(splits=1), toy_search(splits=3).problem
    assert [len(trial.val) for trial in best_trials(search)] == [1] * 4
    vals = {finalist.trial.number: finalist.val for finalist in run_off(search, more)}
    for trial in best_trials(search)[:3]:
        fits = trials.train_together(replace(more, seed=RUN_OFF_SEED), [trial.configuration], range(3))[0]
        assert vals[trial.number] == pytest.approx(sum(fit.val_metric for fit in fits) / 3, abs=1e-5)
