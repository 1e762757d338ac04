"""From a cell to its record: search where there is something to search, then train with fresh seeds.

A search sees validation only, on the first few splits. What it chose is trained on all splits with seeds that
it has not used, and tested once. Cells that have a record are not trained again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import Any

from polynsd.experiments.experiment import Budget, Cell, Experiment
from polynsd.experiments.protocol_run import ProtocolRun
from polynsd.experiments.record import Record, Score, read_record
from polynsd.experiments.source import Source
from polynsd.runs import read_run
from polynsd.runs.environment import commit, device_name
from polynsd.search.options import Configuration
from polynsd.search.problem import Problem
from polynsd.search.settings import SearchConfig
from polynsd.search.space import Space

FRESH = 10_000  # the first seed of the scores; searches use those from 0 on
FAST_EPOCHS = 30
ENDED = ("complete", "pruned", "failed")  # not lost with an interruption
FAST = Budget(trials=2, seconds=20.0, splits=1, batch=2)

OnStep = Callable[[str], None]


@dataclass
class Runner:
    """Trains the cells of an experiment.

    Args:
        experiment: what is run.
        out: the folder of its records.
        work: the folder of studies and runs under way.
        device: where to train.
        splits: only the first so many.
        budget: instead of the experiment's own.
        fast: a few epochs and trials: a look at times and shapes, not at results.
        again: train cells that have a record once more, with the configuration that it holds.
        on_step: is told what goes on.
    """

    experiment: Experiment
    out: Path
    work: Path
    device: str = "cpu"
    splits: int | None = None
    budget: Budget | None = None
    fast: bool = False
    again: bool = False
    on_step: OnStep = lambda text: None

    def __post_init__(self) -> None:
        self._problems: dict[Source, Problem] = {}

    def path(self, cell: Cell) -> Path:
        """Where the cell's record is or will be."""
        return self.out / cell.path

    def record(self, cell: Cell) -> Record:
        """The record of a cell: read, or made."""
        path = self.path(cell)
        known = read_record(path) if path.exists() else None
        if known is not None and not self.again:
            return known
        problems = self._open(cell)
        configuration, search = self._chosen(cell, problems[0], known)
        record = self._trained(cell, problems, configuration, search)
        record.save(path)
        for folder in self._folder(cell).glob("final-*"):
            rmtree(folder)  # the record has it all; `again` begins anew
        return record

    def _folder(self, cell: Cell) -> Path:
        """Where its study and its trainings are kept."""
        return self.work / cell.dataset / cell.name

    def _open(self, cell: Cell) -> list[Problem]:
        """The graphs of a cell; those of the last cell are kept for the next."""
        own = (Source(cell.dataset, protocol=self.experiment.protocol),)
        sources = [
            replace(source, device=self.device, splits=self.splits or source.splits)
            for source in cell.sources or own
        ]
        self._problems = {s: self._problems.get(s) or s.problem(FRESH) for s in sources}
        return list(self._problems.values())

    def _chosen(
        self, cell: Cell, problem: Problem, known: Record | None
    ) -> tuple[Configuration, dict[str, Any] | None]:
        """What the plan says, what an earlier search chose, or what a search finds now."""
        if isinstance(cell.plan, Configuration):
            return self._shortened(cell.plan), None
        if known is not None and known.search is not None:
            return _configuration(known.configuration), dict(known.search)
        return self._searched(cell, cell.plan, problem)

    def _searched(self, cell: Cell, space: Space, problem: Problem) -> tuple[Configuration, dict[str, Any]]:
        from polynsd.search import begin_with, best_trial, open_study, spent, trial_rows, work

        budget = FAST if self.fast else self.budget or self.experiment.budget(cell.dataset)
        config = SearchConfig(
            trials=budget.trials, batch=budget.batch, screen=budget.screen, startup=max(budget.trials // 2, 1)
        )
        few = replace(problem, splits=problem.splits[: budget.splits], seed=0)
        storage = f"sqlite:///{self._folder(cell) / 'study.db'}"
        search = open_study(storage, cell.name, self._shortened_space(space), few, config)
        begin_with(search, cell.starts)
        work(search, on_trial=lambda told: self.on_step(_told(cell, told)), seconds=budget.seconds)
        best = best_trial(search.study)
        rows = [row for row in trial_rows(search.study) if row["state"] in ENDED]
        about = {
            "trials": len(rows),
            "seconds": round(spent(search.study), 1),
            "splits": len(few.splits),
            "val": round(best.value, 6),
            "best_so_far": [row["best_so_far"] and round(row["best_so_far"], 5) for row in rows],
            "space": json.loads(json.dumps(space.to_dict())),
        }
        return search.space.configuration(best.params), about

    def _trained(
        self,
        cell: Cell,
        problems: list[Problem],
        configuration: Configuration,
        search: dict[str, Any] | None,
    ) -> Record:
        """Every split of every graph with as many seeds as the experiment asks for."""
        scores: list[Score] = []
        seconds, result = 0.0, {}
        for number, problem in enumerate(problems):
            self.on_step(f"{cell}: training for the scores")
            folder = self._folder(cell) / f"final-{number}"
            run = ProtocolRun(
                problem, configuration, cell.rules, self._seeds, self.experiment.ddof, keep=False
            )
            result = run.run(folder)
            seconds += read_run(folder).timings.get("seconds", 0.0)
            first = len({score.split for score in scores})
            scores += [_score(row, first) for row in result["splits"]]
        return Record(
            experiment=self.experiment.name,
            dataset=cell.dataset,
            cell=dict(cell.options),
            metric=result["metric"],
            protocol=result["protocol"],
            features=result["features"],
            rules=cell.rules,
            ddof=self.experiment.ddof,
            configuration=_plain(configuration),
            parameters=result["parameters"],
            scores=tuple(scores),
            search=search,
            seconds=round(seconds, 2),
            device=device_name(problems[0].data.x.device),
            commit=commit(),
        )

    @property
    def _seeds(self) -> int:
        return 1 if self.fast else self.experiment.seeds

    def _shortened(self, plan: Configuration) -> Configuration:
        if not self.fast:
            return plan
        epochs = min(FAST_EPOCHS, plan.training.epochs)
        return Configuration(plan.model, replace(plan.training, epochs=epochs, patience=epochs))

    def _shortened_space(self, space: Space) -> Space:
        if not self.fast:
            return space
        short = {"training.epochs": FAST_EPOCHS, "training.patience": FAST_EPOCHS}
        return Space.from_dict({**space.to_dict(), **short})


def _configuration(plain: Any) -> Configuration:
    from polynsd.config import ModelConfig, TrainConfig, from_options

    return Configuration(
        from_options(ModelConfig, plain["model"]), from_options(TrainConfig, plain["training"])
    )


def _plain(configuration: Configuration) -> dict[str, Any]:
    from polynsd.search import plain_configuration

    return plain_configuration(configuration)


def _score(row: dict[str, Any], first: int) -> Score:
    val, test = round(row["val"], 6), round(row["test"], 6)
    return Score(first + row["split"], row["seed"], val, test, row["best_epoch"], row["epochs"])


def _told(cell: Cell, told: dict[str, Any]) -> str:
    best = "—" if told["best"] is None else f"{100 * told['best']:.2f}"
    return f"{cell}: trial {told['finished']} of {told['total']}, best validation {best}"
