"""`polynsd reproduce`: the experiments of the paper, cell by cell; what is done is not done again."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from tyro.conf import Positional

from polynsd.errors import DataError, PolyNSDError, require_choice
from polynsd.experiments.catalogue import get_experiment
from polynsd.experiments.described import describe_all
from polynsd.experiments.experiment import Budget, Cell, Experiment
from polynsd.experiments.record import read_records
from polynsd.experiments.runner import Runner
from polynsd.report import ProgressReporter


@dataclass(frozen=True)
class Reproduce:
    """Run an experiment of the paper: train what is missing, resume what was interrupted, write its table."""

    name: Positional[str | None] = None
    """The experiment; --list names them."""
    list: bool = False
    """Say what there is, what it needs, how long it takes and how far it is."""
    datasets: tuple[str, ...] = ()
    """Only these; all of the experiment unless given."""
    only: tuple[str, ...] = ()
    """Only some values of what is varied, e.g. --only maps=diagonal K=1,16."""
    splits: int | None = None
    """Only the first so many splits; such records count as done until --again trains them on all."""
    trials: int | None = None
    """At most so many in a search; the experiment's own budget unless given."""
    seconds: float | None = None
    """No trial of a search begins after so many; the experiment's own budget unless given."""
    fast: bool = False
    """Thirty epochs, two trials, one seed, in files of its own: a look at times and shapes, no result."""
    again: bool = False
    """Train cells that have a record once more; what a search chose is kept."""
    table: bool = False
    """Train nothing; write tables and figures of what is there."""
    device: str = "cpu"
    """Where to train: cpu, cuda or cuda:N."""
    out: Path = Path("results")
    """Where records, tables and figures go."""
    work: Path = Path("runs/reproduce")
    """Where searches and trainings under way are kept."""
    quiet: bool = False
    """No progress."""

    def run(self) -> Path | None:
        """Trains, prints the table and writes it; its path."""
        if self.list or self.name is None:
            print(describe_all(self.out))  # noqa: T201
            return None
        experiment = get_experiment(self.name)
        cells = self._cells(experiment)
        failures = {} if self.table else self._train(experiment, cells)
        records = read_records(self._folder(experiment))
        if not records:
            raise DataError(_nothing(experiment, failures))
        from polynsd.experiments.tables import write_tables

        path = write_tables(self._named(experiment), records, self.out)
        _print_failures(failures)
        return path

    def _named(self, experiment: Experiment) -> Experiment:
        """Fast results have files of their own."""
        return replace(experiment, name=f"{experiment.name}-fast") if self.fast else experiment

    def _folder(self, experiment: Experiment) -> Path:
        return self.out / self._named(experiment).name

    def _cells(self, experiment: Experiment) -> Sequence[Cell]:
        for dataset in self.datasets:
            require_choice(f"dataset of {experiment.name}", dataset, experiment.datasets)
        return experiment.cells(self.datasets, self._axes(experiment))

    def _axes(self, experiment: Experiment) -> dict[str, tuple[Any, ...]]:
        """What is varied, less what is not wanted."""
        axes = dict(experiment.axes)
        for choice in self.only:
            name, _, values = choice.partition("=")
            require_choice("axis", name, axes)
            known = {str(value): value for value in experiment.axes[name]}
            for value in values.split(","):
                require_choice(name, value, known)
            axes[name] = tuple(known[value] for value in values.split(","))
        return axes

    def _budget(self, experiment: Experiment, dataset: str) -> Budget | None:
        if self.trials is None and self.seconds is None:
            return None
        own = experiment.budget(dataset)
        return replace(own, trials=self.trials or own.trials, seconds=self.seconds or own.seconds)

    def _train(self, experiment: Experiment, cells: Sequence[Cell]) -> dict[str, str]:
        """The reasons of cells that failed; the others go on."""
        failures: dict[str, str] = {}
        runner = self._runner(experiment)
        left = [cell for cell in cells if self.again or not runner.path(cell).exists()]
        with ProgressReporter(len(left), unit="cells", quiet=self.quiet) as progress:
            runner.on_step = lambda text: progress.advance(0, text)
            for cell in left:
                runner.budget = self._budget(experiment, cell.dataset)
                try:
                    runner.record(cell)
                except (PolyNSDError, torch.OutOfMemoryError) as error:
                    failures[str(cell)] = str(error)
                progress.advance(1, str(cell))
        return failures

    def _runner(self, experiment: Experiment) -> Runner:
        return Runner(
            self._named(experiment),
            self._folder(experiment),
            self.work / self._named(experiment).name,
            self.device,
            self.splits,
            fast=self.fast,
            again=self.again,
        )


def _nothing(experiment: Experiment, failures: dict[str, str]) -> str:
    reasons = "; ".join(dict.fromkeys(failures.values()))
    return f"{experiment.name} has no results yet. {reasons or 'Leave --table out to train.'}"


def _print_failures(failures: dict[str, str]) -> None:
    for reason, count in Counter(failures.values()).items():
        first = next(cell for cell, other in failures.items() if other == reason)
        which = first if count == 1 else f"{count} cells ({first} and so on)"
        print(f"not trained: {which}: {reason}", file=sys.stderr)  # noqa: T201
