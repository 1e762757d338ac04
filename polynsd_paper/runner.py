"""From a cell to its record: search, run-off, scores.

A search sees validation only, on the first few splits; the run-off of its best trials is on the other splits,
if there are any. The winner is trained on all splits with seeds that nothing before has used; these are the
scores of the record. A matched control has the configuration that the record of its winner holds, so that
record is made first. Cells that have a current record are not trained again. Studies and trainings under way
are named by a hash of all that they depend on, so that no leftover stands in the way of other settings; one
process at a time works on a cell.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import rmtree
from statistics import fmean
from typing import Any

from polynsd.data.splits import PARTS
from polynsd.devices import get_device
from polynsd.documents import read_json
from polynsd.errors import ConfigError
from polynsd.runs.environment import commit, device_name
from polynsd.runs.files import make_folder, write_json
from polynsd.runs.lock import hold_lock
from polynsd.search import (
    SearchConfig,
    Space,
    begin_with,
    count_finished,
    open_study,
    run_off,
    seconds_spent,
    trial_rows,
    work,
)
from polynsd.search.final import FINAL_SEED
from polynsd.search.study import FINISHED
from polynsd.training.callback import TrialStatus
from polynsd.training.configuration import Configuration, plain_configuration
from polynsd.training.problem import Problem
from polynsd.training.protocol import fit_splits, protocol_identity
from polynsd.training.source import Source
from polynsd_paper.experiment import Budget, Cell, Experiment, Matched, Procedure, Trained, published_space
from polynsd_paper.records import (
    FIRST_SPLITS,
    FOLDER,
    OF_SEARCH,
    Record,
    Score,
    cell_settings,
    differences,
    digest,
    read_record,
    recorded_configuration,
    resolve,
)

OnStep = Callable[[str], None]


class CellInUseError(ConfigError):
    """Another process works on the cell."""


@dataclass
class Runner:
    """Trains the cells of an experiment.

    Args:
        experiment: what is run.
        results: the folder of results; records go to `records/NAME/` in it.
        work: the folder of studies and runs under way.
        device: where to train.
        splits: only the first so many.
        retrain: train cells that have a record once more, with the configuration that it holds.
        rescore: do that with records of another kind of device or another precision, earlier searches
            included, and nothing else.
        on_step: is called with a line of text at every step.
    """

    experiment: Experiment
    results: Path
    work: Path
    device: str = "cpu"
    splits: int | None = None
    retrain: bool = False
    rescore: bool = False
    on_step: OnStep = lambda text: None

    def __post_init__(self) -> None:
        self._problems: dict[Source, Problem] = {}

    def path(self, cell: Cell) -> Path:
        """Where the cell's record is or will be."""
        return self._records / cell.path

    def find_record(self, cell: Cell) -> Record | None:
        """The cell's record, if it is current and has as many splits as are wanted."""
        if self.rescore:
            return self._find_scored(cell)
        record = self._find_current(cell)
        first = None if record is None else record.settings.get(FIRST_SPLITS)
        return record if first is None or (self.splits is not None and first >= self.splits) else None

    def _find_current(self, cell: Cell) -> Record | None:
        """The cell's record, if it is current, on however many splits."""
        record = read_record(self.path(cell)) if self.path(cell).exists() else None
        known = resolve(cell, self._records)
        return None if record is None or differences(record, self.experiment, known) else record

    def _find_scored(self, cell: Cell) -> Record | None:
        """The cell's record, if it may be shown and is of the device and the precision of this run."""
        record = read_record(self.path(cell)) if self.path(cell).exists() else None
        if record is None:
            return None
        others = differences(record, self.experiment, resolve(cell, self._records))
        is_same = record.device == device_name(get_device(self.device))
        return record if is_same or not OF_SEARCH.issuperset(others) else None

    @property
    def _records(self) -> Path:
        return self.results / FOLDER / self.experiment.name

    def record(self, cell: Cell) -> Record:
        """The record of a cell: read, or made.

        Raises:
            CellInUseError: another process is making it.
        """
        record = self.find_record(cell)
        if record is not None and not self.retrain:
            return record
        if isinstance(cell.plan, Matched) and not self._records.joinpath(cell.plan.winner.path).exists():
            self.record(cell.plan.winner)
        with self._lock(cell):
            record = self.find_record(cell)  # another process may have been here in between
            if record is not None and not self.retrain:
                return record
            return self._make_record(resolve(cell, self._records))

    @contextmanager
    def _lock(self, cell: Cell) -> Iterator[None]:
        make_folder(self._folder(cell))
        with ExitStack() as stack:
            try:
                stack.enter_context(hold_lock(self._folder(cell)))
            except ConfigError as error:
                raise CellInUseError(f"{cell}: {error}") from error
            yield

    def _folder(self, cell: Cell) -> Path:
        """Where studies and trainings of the cell are kept."""
        return self.work / self.experiment.name / cell.dataset / cell.name

    def _make_record(self, cell: Cell) -> Record:
        sources = [replace(source, device=self.device) for source in self.experiment.sources(cell)]
        if isinstance(cell.plan, Procedure):
            return self._run_procedure(cell, cell.plan, sources[0])
        # graphs of the last cell are kept for the next
        self._problems = {s: self._problems.get(s) or s.problem(FINAL_SEED) for s in sources}
        problems = list(self._problems.values())
        configuration, search = self._configure(cell, problems[0])
        return self._train(cell, problems, configuration, search)

    def _write_record(self, cell: Cell, **trained: Any) -> Record:
        """Writes the record, and removes what it was made from; `trained` are fields of `Record`."""
        record = Record(
            experiment=self.experiment.name,
            dataset=cell.dataset,
            cell=dict(cell.options),
            rules=cell.rules,
            ddof=self.experiment.ddof,
            device=device_name(get_device(self.device)),
            commit=commit(),
            **trained,
        )
        record.save(self.path(cell))
        for folder in self._folder(cell).glob("final-*"):
            rmtree(folder)
        return record

    def _run_procedure(self, cell: Cell, plan: Procedure, source: Source) -> Record:
        """All splits, each kept as soon as it is trained."""
        settings = cell_settings(self.experiment, cell)
        folder = self._folder(cell) / f"final-{digest([plan.settings(), settings])}"
        make_folder(folder)
        count = plan.splits if self.splits is None else min(self.splits, plan.splits)
        if count < plan.splits:
            settings[FIRST_SPLITS] = count
        paths = [folder / f"{split}.json" for split in range(count)]
        missing = [split for split, path in enumerate(paths) if not path.exists()]
        trainings = plan.train(source, missing, lambda text: self.on_step(f"{cell}: {text}"))
        for split, trained in zip(missing, trainings, strict=True):
            write_json(paths[split], trained._asdict())
        found = [Trained(**read_json(path)) for path in paths]
        first = found[0]
        return self._write_record(
            cell,
            **first.about,
            configuration=plan.settings(),
            parameters=first.parameters,
            scores=tuple(Score(i, 0, t.val, t.test, t.best, t.steps) for i, t in enumerate(found)),
            search=None,
            seconds=round(sum(t.seconds for t in found), 2),
            sizes={part: round(fmean(t.sizes[part] for t in found), 1) for part in PARTS},
            settings=settings,
            measured={name: [t.measured[name] for t in found] for name in first.measured},
        )

    def _configure(self, cell: Cell, problem: Problem) -> tuple[Configuration, dict[str, Any] | None]:
        """The fixed configuration, what the same search chose earlier, or what it chooses now."""
        if isinstance(cell.plan, Configuration):
            return cell.plan, None
        record = read_record(self.path(cell)) if self.rescore else self._find_current(cell)
        if record is not None and record.search is not None:
            return recorded_configuration(record), dict(record.search)
        budget = self.experiment.budget(cell.dataset)
        return search_cell(cell, budget, problem, self._folder(cell), self.on_step)

    def _train(
        self,
        cell: Cell,
        problems: Sequence[Problem],
        configuration: Configuration,
        search: dict[str, Any] | None,
    ) -> Record:
        """Every split of every graph with as many seeds as the experiment has."""
        earlier = read_record(self.path(cell)).settings if self.rescore else {}
        scores: list[Score] = []
        measured: dict[str, list[float]] = {}
        seconds = 0.0
        options: dict[str, Any] = {
            "rules": cell.rules,
            "seeds": self.experiment.seeds,
            "ddof": self.experiment.ddof,
        }
        for problem in problems:
            self.on_step(f"{cell}: training for the scores")
            some = replace(problem, splits=problem.splits[: self.splits])
            identity = protocol_identity(some, configuration, **options)
            folder = self._folder(cell) / f"final-{digest(identity)}"
            out = folder if cell.measure is None else None  # a finished run has no models to measure
            result = fit_splits(some, configuration, **options, out=out, keep=False)
            for name, values in ({} if cell.measure is None else cell.measure(some, result.models)).items():
                measured.setdefault(name, []).extend(values)
            seconds += result.seconds or 0.0
            first = len({score.split for score in scores})  # splits of several graphs are counted on
            scores += [
                Score(first + r.split, r.seed, r.val, r.test, r.best_epoch, r.epochs, r.train, r.train_loss)
                for r in result.rows
            ]
        settings = cell_settings(self.experiment, cell)
        if self.rescore:  # an earlier search stays one
            settings = {**settings, **{n: v for n, v in earlier.items() if n in OF_SEARCH}}
        if self.splits is not None and any(len(problem.splits) > self.splits for problem in problems):
            settings[FIRST_SPLITS] = self.splits
        return self._write_record(
            cell,
            metric=result.metric,
            protocol=result.about["protocol"],
            features=result.about["features"],
            configuration=plain_configuration(configuration),
            parameters=result.parameters,
            scores=tuple(scores),
            search=search,
            seconds=round(seconds, 2),
            sizes={
                part: round(fmean(int(getattr(split, part).sum()) for split in problems[0].splits), 1)
                for part in PARTS
            },
            settings=settings,
            measured=measured,
        )


def search_cell(
    cell: Cell, budget: Budget, problem: Problem, folder: Path, on_step: OnStep
) -> tuple[Configuration, dict[str, Any]]:
    """The configuration with the best validation, and what was spent on finding it.

    Args:
        cell: whose plan is a space.
        budget: of the search.
        problem: with all splits.
        folder: of the study; a search that was interrupted goes on.
        on_step: is called with a line of text at every step.
    """
    assert isinstance(cell.plan, Space)
    few = replace(problem, splits=problem.splits[: budget.splits], seed=0)
    space = published_space(cell.plan)
    identity = [space.to_dict(), [dict(start) for start in cell.starts], asdict(budget), few.identity()]
    config = SearchConfig(
        trials=budget.trials,
        batch=budget.batch,
        screen=budget.screen,
        startup=max(budget.trials // 2, 1),
        finalists=budget.finalists,
    )
    name = digest(identity)
    storage = f"sqlite:///{folder / f'study-{name}.db'}"
    search = open_study(storage, cell.name, space, few, config)
    begin_with(search, cell.starts, share=budget.starts)

    def on_trial(_: TrialStatus) -> None:
        score = trial_rows(search.study)[-1]["best_so_far"]
        best = "—" if score is None else f"{100 * score:.2f}"
        finished = count_finished(search.study)
        on_step(f"{cell}: trial {finished} of {budget.trials}, best validation {best}")

    work(search, on_trial=on_trial, seconds=budget.seconds)
    rows = [row for row in trial_rows(search.study) if row["state"] in FINISHED]
    start = time.perf_counter()
    last = budget.splits + budget.run_off if budget.run_off else None
    others = replace(problem, splits=problem.splits[budget.splits : last] or problem.splits)
    if budget.finalists > 1:
        on_step(f"{cell}: the best {budget.finalists} on {len(others.splits)} splits")
    finalists = run_off(search, others, folder=folder / f"run-off-{name}")
    about = {
        "trials": len(rows),
        "seconds": round(seconds_spent(search.study) + time.perf_counter() - start, 1),
        "splits": len(few.splits),
        "val": finalists[0].val,
        "run_off": [finalist.to_dict() for finalist in finalists],
        "best_so_far": [row["best_so_far"] and round(row["best_so_far"], 5) for row in rows],
        "space": json.loads(json.dumps(cell.plan.to_dict())),
    }
    return finalists[0].trial.configuration, about
