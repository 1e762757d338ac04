"""From a cell to its record: validation chooses, fresh seeds score, nothing is done twice or lost."""

from dataclasses import replace

import pytest
from small_experiment import SMALL, cell, runner

from polynsd import PolyNSDError
from polynsd.experiments import protocol_run
from polynsd.experiments import runner as module
from polynsd.experiments.record import read_record
from polynsd.experiments.source import Source
from polynsd.search import open_storage, problem, trial_rows
from polynsd.search.optional import optuna
from polynsd.search.space import Space


@pytest.fixture
def trainings(monkeypatch):
    """What is trained: seeds of every training, of searches and of scores."""
    seen = {"search": [], "scores": []}

    def watch(where, name):
        train = where.fit_replicas

        def fit(replicas, *arguments, **options):
            seen[name].append([one.seed for one in replicas])
            return train(replicas, *arguments, **options)

        monkeypatch.setattr(where, "fit_replicas", fit)

    watch(problem, "search")
    watch(protocol_run, "scores")
    return seen


def study_of(folder):
    storage = open_storage(f"sqlite:///{folder / 'work' / 'left' / 'mlp' / 'study.db'}")
    return optuna().load_study(study_name="mlp", storage=storage)


def test_a_searched_cell(tmp_path, trainings):
    record = runner(tmp_path).record(cell())
    assert (record.experiment, record.dataset, record.cell) == ("small", "left", {"model": "mlp"})
    assert record.by_split().shape == (3, 2)
    assert record.search["trials"] == len(record.search["best_so_far"]) == 4
    assert record.search["val"] == pytest.approx(record.search["best_so_far"][-1], abs=1e-5)
    assert record.search["splits"] == 1
    assert Space.from_dict(record.search["space"]) == cell().plan
    assert record.configuration["model"]["hidden_channels"] in (4, 8)
    assert record.parameters > 0
    assert record.seconds > 0


def test_scores_have_seeds_that_no_search_has_seen(tmp_path, trainings):
    record = runner(tmp_path).record(cell())
    searched = {seed for batch in trainings["search"] for seed in batch}
    (scored,) = trainings["scores"]
    assert sorted(scored) == sorted(score.seed for score in record.scores)
    assert len(set(scored)) == 6
    assert not searched & set(scored)
    assert searched == {0}  # the one split of the budget


def test_a_search_does_not_see_the_test_nodes(tmp_path, monkeypatch):
    honest = runner(tmp_path / "honest").record(cell())
    make = Source.problem

    def spoiled(self, seed=0):
        """All test nodes of the split that is searched on are said to be of one class."""
        made = make(self, seed)
        data = made.data.clone()
        data.y = made.data.y.masked_fill(made.splits[0].test, 0)
        return replace(made, data=data)

    monkeypatch.setattr(Source, "problem", spoiled)
    blind = runner(tmp_path / "blind").record(cell())
    assert [score.test for score in blind.scores if not score.split] != [
        score.test for score in honest.scores if not score.split
    ]
    for name in ("val", "best_so_far", "trials"):
        assert blind.search[name] == honest.search[name]
    assert blind.configuration == honest.configuration


def test_a_second_run_trains_nothing(tmp_path, trainings):
    first = runner(tmp_path)
    records = [first.record(one) for one in SMALL.cells()]
    paths = [first.path(one) for one in SMALL.cells()]
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in paths]
    count = len(trainings["search"]), len(trainings["scores"])
    assert [runner(tmp_path).record(one) for one in SMALL.cells()] == records
    assert [(path.read_bytes(), path.stat().st_mtime_ns) for path in paths] == before
    assert (len(trainings["search"]), len(trainings["scores"])) == count


def test_again_keeps_what_was_chosen_and_trains_it_anew(tmp_path, trainings):
    first = runner(tmp_path).record(cell())
    searches = len(trainings["search"])
    again = runner(tmp_path, again=True).record(cell())
    assert len(trainings["search"]) == searches
    assert len(trainings["scores"]) == 2
    assert (again.configuration, again.search) == (first.configuration, first.search)
    assert again.scores == first.scores  # training is repeatable
    wider = runner(tmp_path, again=True, splits=2).record(cell())
    assert wider.by_split().shape == (2, 2)


def test_an_interrupted_search_goes_on(tmp_path, trainings):
    def stop(text):
        if "trial 2 of 4" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner(tmp_path, on_step=stop).record(cell())
    assert not runner(tmp_path).path(cell()).exists()
    told = [row for row in trial_rows(study_of(tmp_path)) if row["state"] == "complete"]
    assert len(told) == 2
    record = runner(tmp_path).record(cell())
    rows = trial_rows(study_of(tmp_path))
    assert [row for row in rows if row["state"] == "complete"][:2] == told
    assert record.search["trials"] == len(record.search["best_so_far"]) == 4
    assert record == replace(
        runner(tmp_path / "whole").record(cell()), seconds=record.seconds, search=record.search
    )


def test_an_interrupted_training_goes_on(tmp_path, monkeypatch):
    chosen = []
    train = protocol_run.fit_replicas

    def fail(replicas, *arguments, **options):
        chosen.append(replicas)
        raise KeyboardInterrupt

    monkeypatch.setattr(protocol_run, "fit_replicas", fail)
    with pytest.raises(KeyboardInterrupt):
        runner(tmp_path).record(cell())
    monkeypatch.setattr(protocol_run, "fit_replicas", train)
    searches = []
    monkeypatch.setattr(problem, "fit_replicas", lambda *_, **__: searches.append(1))
    assert runner(tmp_path).record(cell()).by_split().shape == (3, 2)
    assert not searches


def test_what_is_under_way_is_tidied_up(tmp_path):
    runner(tmp_path).record(cell(model="gcn"))
    assert not list((tmp_path / "work").rglob("final-*"))


def test_fast_is_short(tmp_path):
    plan = SMALL.cells(("left",), {"model": ("gcn",)})[0].plan
    slow = cell(model="gcn", plan=plan._replace(training=replace(plan.training, epochs=5000, patience=5000)))
    record = runner(tmp_path, fast=True).record(slow)
    assert record.by_split().shape == (3, 1)
    assert {score.epochs for score in record.scores} == {module.FAST_EPOCHS}
    searched = runner(tmp_path, fast=True).record(cell())
    assert searched.search["trials"] == module.FAST.trials


def test_a_budget_given_is_the_budget(tmp_path):
    few = replace(SMALL.budget("left"), trials=2)
    assert runner(tmp_path, budget=few).record(cell()).search["trials"] == 2
    none = replace(few, seconds=0)
    with pytest.raises(PolyNSDError, match="no trial is complete"):
        runner(tmp_path, budget=none).record(cell("right"))


def test_graphs_of_a_cell_count_as_splits(tmp_path):
    left, right = (cell(name, "gcn").sources[0] for name in ("left", "right"))
    record = runner(tmp_path).record(cell(model="gcn", sources=(left, right)))
    assert sorted({score.split for score in record.scores}) == list(range(6))


def test_the_record_says_what_was_trained(tmp_path):
    made = runner(tmp_path)
    record = made.record(cell(model="nsd-diagonal"))
    assert record.search is None
    assert record.configuration["model"]["model"] == "nsd"
    assert record.protocol == "stratified(0.5, 0.25, 0.25)"
    assert read_record(made.path(cell(model="nsd-diagonal"))) == record
