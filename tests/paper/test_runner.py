"""From a cell to its record: validation chooses, fresh seeds score, nothing is done twice or lost."""

from dataclasses import replace
from shutil import copytree, rmtree

import pytest
from invented_records import scores_of
from small_experiment import SMALL, cell, runner

from polynsd import PolyNSDError
from polynsd.optional import load_optuna
from polynsd.runs.lock import hold_lock
from polynsd.search import open_storage, trial_rows, trials
from polynsd.search.final import RUN_OFF_SEED
from polynsd.search.space import Space
from polynsd.training import protocol
from polynsd.training.configuration import plain_configuration
from polynsd.training.source import Source
from polynsd_paper import runner as module
from polynsd_paper.experiment import FAST, FAST_EPOCHS, Budget, Matched, fast, published_space, with_budget
from polynsd_paper.records import cell_settings, differences, read_record
from polynsd_paper.runner import CellInUseError


@pytest.fixture
def trainings(monkeypatch):
    """What is trained: seeds of every training, of searches and of scores."""
    seen = {"search": [], "scores": []}

    def watch(where, name):
        train = where.fit_replicas

        def fit(replicas, *arguments, **options):
            seen[name].append([replica.seed for replica in replicas])
            return train(replicas, *arguments, **options)

        monkeypatch.setattr(where, "fit_replicas", fit)

    watch(trials, "search")
    watch(protocol, "scores")
    return seen


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A folder in which the searched cell has been done."""
    folder = tmp_path_factory.mktemp("searched")
    runner(folder).record(cell())
    return folder


@pytest.fixture
def done(searched, tmp_path):
    """A copy of it; and its record."""
    copytree(searched, tmp_path, dirs_exist_ok=True)
    return read_record(runner(tmp_path).path(cell()))


def study_of(folder):
    (path,) = (folder / "work" / "small" / "left" / "mlp").glob("study-*.db")
    storage = open_storage(f"sqlite:///{path}")
    return load_optuna().load_study(study_name="mlp", storage=storage)


def test_a_searched_cell(done):
    assert (done.experiment, done.dataset, done.cell) == ("small", "left", {"model": "mlp"})
    assert scores_of(done).shape == (3, 2)
    assert done.search["trials"] == len(done.search["best_so_far"]) == 4
    assert done.search["val"] == pytest.approx(done.search["best_so_far"][-1], abs=1e-5)
    assert done.search["splits"] == 1
    assert Space.from_dict(done.search["space"]) == cell().plan
    assert done.configuration["model"]["hidden_channels"] in (4, 8)
    assert done.parameters > 0
    assert done.seconds > 0


def test_scores_have_seeds_that_no_search_has_seen(tmp_path, trainings):
    record = runner(tmp_path).record(cell())
    searched = {seed for batch in trainings["search"] for seed in batch}
    (scored,) = trainings["scores"]
    assert sorted(scored) == sorted(score.seed for score in record.scores)
    assert len(set(scored)) == 6
    assert not searched & set(scored)
    assert searched == {0}  # the one split of the budget


def test_the_best_few_are_trained_on_other_splits_and_validation_there_decides(
    tmp_path, trainings, monkeypatch
):
    budget = Budget(trials=4, seconds=60, splits=1, finalists=3, batch=2)
    hold, seen = module.run_off, []
    monkeypatch.setattr(module, "run_off", lambda *a, **o: seen.append(a) or hold(*a, **o))
    record = runner(tmp_path, replace(SMALL, budgets={"left": budget})).record(cell())
    ((search, problem),) = seen
    assert not set(map(id, search.problem.splits)) & set(map(id, problem.splits))
    last = [seed for batch in trainings["search"] for seed in batch if seed >= RUN_OFF_SEED]
    assert sorted(last) == sorted(3 * [RUN_OFF_SEED, RUN_OFF_SEED + 1])
    study, finals = study_of(tmp_path), record.search["run_off"]
    assert len(finals) == 3
    assert [final["val"] for final in finals] == sorted((final["val"] for final in finals), reverse=True)
    assert record.search["val"] == finals[0]["val"]
    values = sorted((trial.value for trial in study.trials if trial.value is not None), reverse=True)
    assert sorted((final["search"] for final in finals), reverse=True) == values[:3]
    chosen = published_space(cell().plan).configuration(study.trials[finals[0]["trial"]].params)
    assert record.configuration == plain_configuration(chosen)
    assert not {seed for batch in trainings["search"] for seed in batch} & {s.seed for s in record.scores}


def test_a_search_does_not_see_the_test_nodes(tmp_path, monkeypatch):
    budget = Budget(trials=4, seconds=60, splits=1, finalists=2, batch=2)
    asked, make = replace(SMALL, budgets={"left": budget}), Source.problem

    def record(name, spoil):
        def problem(self, seed=0):
            """One split thrice; if spoiled, its test nodes are said to be of one class."""
            problem = make(self, seed)
            data, split = problem.data.clone(), problem.splits[0]
            data.y = problem.data.y.masked_fill(split.test, 0) if spoil else problem.data.y
            return replace(problem, data=data, splits=(split,) * 3)

        monkeypatch.setattr(Source, "problem", problem)
        return runner(tmp_path / name, asked).record(cell())

    honest, blind = record("honest", False), record("blind", True)
    assert [score.test for score in blind.scores] != [score.test for score in honest.scores]
    for name in ("val", "best_so_far", "trials", "run_off"):
        assert blind.search[name] == honest.search[name]
    assert blind.configuration == honest.configuration


def test_a_second_run_trains_nothing(tmp_path, trainings):
    first = runner(tmp_path)
    records = [first.record(each) for each in SMALL.cells()]
    paths = [first.path(each) for each in SMALL.cells()]
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in paths]
    count = len(trainings["search"]), len(trainings["scores"])
    assert [runner(tmp_path).record(each) for each in SMALL.cells()] == records
    assert [(path.read_bytes(), path.stat().st_mtime_ns) for path in paths] == before
    assert (len(trainings["search"]), len(trainings["scores"])) == count


def test_again_keeps_what_was_chosen_and_trains_it_anew(tmp_path, done, trainings):
    again = runner(tmp_path, retrain=True).record(cell())
    assert (len(trainings["search"]), len(trainings["scores"])) == (0, 1)
    assert (again.configuration, again.search) == (done.configuration, done.search)
    assert again.scores == done.scores  # training is repeatable
    wider = runner(tmp_path, retrain=True, splits=2).record(cell())
    assert scores_of(wider).shape == (2, 2)


def test_an_interrupted_search_goes_on(tmp_path, searched):
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
    whole = read_record(runner(searched).path(cell()))
    assert record == replace(whole, seconds=record.seconds, search=record.search)


def test_an_interrupted_training_goes_on(tmp_path, monkeypatch):
    chosen = []
    train = protocol.fit_replicas

    def fail(replicas, *arguments, **options):
        chosen.append(replicas)
        raise KeyboardInterrupt

    monkeypatch.setattr(protocol, "fit_replicas", fail)
    with pytest.raises(KeyboardInterrupt):
        runner(tmp_path).record(cell())
    monkeypatch.setattr(protocol, "fit_replicas", train)
    searches = []
    monkeypatch.setattr(trials, "fit_replicas", lambda *_, **__: searches.append(1))
    assert scores_of(runner(tmp_path).record(cell())).shape == (3, 2)
    assert not searches


def test_what_is_under_way_is_tidied_up(tmp_path):
    runner(tmp_path).record(cell(model="gcn"))
    assert not list((tmp_path / "work").rglob("final-*"))


def test_fast_is_short(tmp_path):
    plan = cell(model="gcn").plan
    slow = plan._replace(training=replace(plan.training, epochs=5000, patience=5000))
    long = replace(SMALL, configure=lambda dataset, model: cell(dataset, model, plan=slow))
    (short,) = fast(long).cells(("left",), {"model": ("gcn",)})
    record = runner(tmp_path, fast(long)).record(short)
    assert scores_of(record).shape == (3, 1)
    assert {score.epochs for score in record.scores} == {FAST_EPOCHS}
    (searched,) = fast(SMALL).cells(("left",), {"model": ("mlp",)})
    assert runner(tmp_path, fast(SMALL)).record(searched).search["trials"] == FAST.trials


def test_a_budget_given_is_the_budget(tmp_path):
    assert runner(tmp_path, with_budget(SMALL, 2, None)).record(cell()).search["trials"] == 2
    none = replace(SMALL, budgets={"right": Budget(seconds=0.0, splits=1)})
    with pytest.raises(PolyNSDError, match="no trial is complete"):
        runner(tmp_path, none).record(cell("right"))


@pytest.mark.parametrize(("trials", "seconds"), [(0, None), (-1, 5.0), (None, 0.0), (None, -1.0)])
def test_budgets_of_nothing_are_refused(trials, seconds):
    with pytest.raises(PolyNSDError, match="must be"):
        with_budget(SMALL, trials, seconds)


SPACE = Space.from_dict({**cell().plan.to_dict(), "model.hidden_channels": [4]})


@pytest.mark.parametrize(
    ("experiment", "changes", "named"),
    [
        (with_budget(SMALL, 3, None), {}, "budget"),
        (with_budget(SMALL, None, 30.0), {}, "budget"),
        (SMALL, {"plan": SPACE}, "space"),
        (SMALL, {"starts": ({"model.hidden_channels": 8},)}, "space"),
        (SMALL, {"rules": "paper"}, "rules"),
        (replace(SMALL, seeds=1), {}, "seeds"),
        (SMALL, {"sources": (replace(cell().sources[0], splits=4),)}, "splits"),
        (SMALL, {"sources": (replace(cell().sources[0], features="standardize"),)}, "features"),
        (SMALL, {"sources": (cell("right").sources[0],)}, "graphs"),
    ],
)
def test_a_record_is_current_for_its_settings_only(tmp_path, done, experiment, changes, named):
    other = cell(**changes)
    assert runner(tmp_path).find_record(cell()) == done
    assert differences(done, SMALL, cell()) == []
    assert named in differences(done, experiment, other)
    assert runner(tmp_path, experiment).find_record(other) is None


@pytest.mark.parametrize(
    ("experiment", "changes"),
    [(with_budget(SMALL, 3, None), {}), (SMALL, {"sources": cell("right").sources})],
)
def test_other_settings_are_trained_anew_in_a_fresh_study(tmp_path, done, experiment, changes):
    """And replace the record when that is done."""
    other = cell(**changes)
    again = runner(tmp_path, experiment, retrain=True)  # an old choice does not survive its settings
    record = again.record(other)
    assert record.settings != done.settings
    assert differences(record, experiment, other) == []
    assert runner(tmp_path, experiment).record(other) == record
    assert runner(tmp_path).find_record(cell()) is None


def test_a_control_is_trained_as_its_winner_with_identity_maps(tmp_path):
    """The winner first; another winner, another control."""
    winner = cell(model="nsd-diagonal")
    control = replace(winner, options={"model": "control"}, plan=Matched(winner))
    record = runner(tmp_path).record(control)
    chosen = read_record(runner(tmp_path).path(winner)).configuration
    assert record.configuration["training"] == chosen["training"]
    layer = {**chosen["model"]["layer"], "maps": "identity"}
    assert record.configuration["model"] == {**chosen["model"], "layer": layer}
    assert runner(tmp_path).find_record(control) == record
    wider = replace(winner, plan=winner.plan._replace(model=replace(winner.plan.model, hidden_channels=3)))
    runner(tmp_path).record(wider)
    assert runner(tmp_path).find_record(control) is None


def test_rescoring_keeps_the_choice_and_touches_other_devices_only(tmp_path, done, trainings):
    larger = with_budget(SMALL, 5, None)
    again = runner(tmp_path, larger, rescore=True)
    assert again.record(cell()) == done  # of this device already
    replace(done, device="another").save(again.path(cell()))
    record = again.record(cell())
    assert (len(trainings["search"]), len(trainings["scores"])) == (0, 1)
    assert record == replace(done, seconds=record.seconds)


def test_another_configuration_is_another_setting(tmp_path):
    gcn, wide = cell(model="gcn"), replace(cell(model="gcn").plan.model, hidden_channels=8)
    first = runner(tmp_path).record(gcn)
    other = replace(gcn, plan=gcn.plan._replace(model=wide))
    assert differences(first, SMALL, other) == ["configuration"]
    assert runner(tmp_path).record(other).parameters > first.parameters


def test_options_that_a_record_does_not_know_have_their_defaults(tmp_path):
    record = runner(tmp_path).record(cell(model="gcn"))
    older = {name: value for name, value in record.configuration["model"].items() if name != "input_dropout"}
    before = replace(record, configuration={**record.configuration, "model": older})
    assert differences(before, SMALL, cell(model="gcn")) == []
    gone = {**record.configuration["training"], "momentum": 0.9}
    assert differences(
        replace(record, configuration={**record.configuration, "training": gone}), SMALL, cell(model="gcn")
    )


def test_settings_read_back_in_a_few_lines(done):
    asked = done.settings
    assert set(asked) == {
        "graphs", "protocol", "features", "rules", "splits", "seeds", "space", "budget",
    }  # fmt: skip
    assert asked["budget"] == {
        "trials": 4, "seconds": 60, "splits": 1, "screen": 0, "finalists": 1, "run_off": 0, "batch": 2,
        "starts": 0.25,
    }  # fmt: skip
    assert asked == cell_settings(SMALL, cell())


def test_other_data_begin_another_study(tmp_path, done, monkeypatch):
    """Not even a graph that changed under its name is a dead end."""
    runner(tmp_path).path(cell()).unlink()
    make = Source.problem

    def changed(self, seed=0):
        problem = make(self, seed)
        data = problem.data.clone()
        data.x = data.x + 1
        return replace(problem, data=data)

    monkeypatch.setattr(Source, "problem", changed)
    assert runner(tmp_path).record(cell()).search["trials"] == 4


def test_a_part_of_the_splits_is_said_and_completed_later(tmp_path, trainings):
    part = runner(tmp_path, splits=2).record(cell())
    assert part.settings["first"] == 2
    assert part.is_partial
    searches = len(trainings["search"])
    rmtree(tmp_path / "work")
    assert runner(tmp_path, splits=1).record(cell()) == part
    assert runner(tmp_path).find_record(cell()) is None
    full = runner(tmp_path).record(cell())
    assert len(trainings["search"]) == searches  # the choice is the same
    assert full.configuration == part.configuration
    assert not full.is_partial
    assert scores_of(full).shape == (3, 2)
    assert runner(tmp_path, splits=2).record(cell()) == full  # and is not thrown away for a part
    assert not runner(tmp_path / "all", splits=3).record(cell()).is_partial


def test_scores_are_kept_to_the_last_digit(tmp_path, monkeypatch):
    """Nothing is rounded on the way from a training to the file."""
    fit, seen = module.fit_splits, []
    monkeypatch.setattr(module, "fit_splits", lambda *a, **o: seen.append(fit(*a, **o)) or seen[-1])
    trainer = runner(tmp_path)
    trainer.record(cell(model="gcn"))
    scores = read_record(trainer.path(cell(model="gcn"))).scores
    names = ("split", "seed", "val", "test", "best_epoch", "epochs", "train", "train_loss")
    assert [tuple(getattr(row, name) for name in names) for row in seen[0].rows] == [*map(tuple, scores)]


def test_sizes_are_those_of_the_splits(tmp_path):
    record = runner(tmp_path).record(cell(model="gcn"))
    split = cell(model="gcn").sources[0].problem().splits[0]
    assert record.sizes == {part: int(getattr(split, part).sum()) for part in ("train", "val", "test")}
    assert sum(record.sizes.values()) == 40


def test_one_process_at_a_time_works_on_a_cell(tmp_path):
    trainer = runner(tmp_path)
    folder = tmp_path / "work" / "small" / "left" / "gcn"
    folder.mkdir(parents=True)
    with hold_lock(folder), pytest.raises(CellInUseError, match=r"left, gcn: .* in use by process"):
        trainer.record(cell(model="gcn"))
    record = trainer.record(cell(model="gcn"))
    with hold_lock(folder):
        assert trainer.record(cell(model="gcn")) == record  # reading needs no lock


def test_graphs_of_a_cell_count_as_splits(tmp_path):
    left, right = (cell(name, "gcn").sources[0] for name in ("left", "right"))
    record = runner(tmp_path).record(cell(model="gcn", sources=(left, right)))
    assert sorted({score.split for score in record.scores}) == list(range(6))


def test_the_record_says_what_was_trained(tmp_path):
    trainer = runner(tmp_path)
    record = trainer.record(cell(model="nsd-diagonal"))
    assert record.search is None
    assert record.configuration["model"]["model"] == "nsd"
    assert record.protocol == "stratified(0.5, 0.25, 0.25)"
    assert read_record(trainer.path(cell(model="nsd-diagonal"))) == record


def test_what_is_measured_of_the_models_is_in_the_record(tmp_path):
    def measure(problem, models):
        return {"nodes": [problem.data.num_nodes] * len(models)}

    one = cell(model="gcn", measure=measure)
    record = runner(tmp_path).record(one)
    assert record.measured == {"nodes": [40] * len(record.scores)}
    assert read_record(runner(tmp_path).path(one)).measured == record.measured
