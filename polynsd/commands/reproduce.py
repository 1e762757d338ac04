"""`polynsd reproduce`: the experiments of the paper, cell by cell; what is done is not done again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from polynsd.errors import ConfigError, DataError, require_choice
from polynsd.experiments.catalogue import EXPERIMENTS, get_experiment
from polynsd.experiments.experiment import Budget, Cell, Experiment
from polynsd.experiments.record import read_records
from polynsd.experiments.runner import Runner
from polynsd.report import ProgressReporter, print_table


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
    """Only the first so many splits."""
    trials: int | None = None
    """Of a search; the experiment's own budget unless given."""
    seconds: float | None = None
    """Of a search; the experiment's own budget unless given."""
    fast: bool = False
    """Thirty epochs, two trials, one seed: a look at times and shapes, not at results."""
    again: bool = False
    """Train cells that have a record once more, with the configuration that the record holds."""
    table: bool = False
    """Only write the table and the figure of what is there."""
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
            _print_list(self.out)
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
        with ProgressReporter(len(cells), unit="cells", quiet=self.quiet) as progress:
            runner = Runner(
                self._named(experiment),
                self._folder(experiment),
                self.work / self._named(experiment).name,
                self.device,
                self.splits,
                fast=self.fast,
                again=self.again,
                on_step=lambda text: progress.advance(0, text),
            )
            for cell in cells:
                runner.budget = self._budget(experiment, cell.dataset)
                progress.advance(0, str(cell))
                try:
                    runner.record(cell)
                except (DataError, ConfigError) as error:
                    failures[str(cell)] = str(error)
                progress.advance(1, str(cell))
        return failures


def _nothing(experiment: Experiment, failures: dict[str, str]) -> str:
    reasons = "; ".join(dict.fromkeys(failures.values()))
    return f"{experiment.name} has no results yet. {reasons or 'Leave --table out to train.'}"


def _print_failures(failures: dict[str, str]) -> None:
    for reason, count in Counter(failures.values()).items():
        cells = [cell for cell, other in failures.items() if other == reason]
        print(f"{count} cells failed, {cells[0]} first: {reason}")  # noqa: T201


def _print_list(out: Path) -> None:
    rows = [
        (
            name,
            experiment.title,
            f"{_done(out / name, experiment)} of {len(experiment.cells())} cells",
            experiment.minutes,
        )
        for name, experiment in EXPERIMENTS.items()
    ]
    print_table(f"experiments; results in {out}", ("name", "what", "done", "takes"), rows)
    for experiment in EXPERIMENTS.values():
        print(f"{experiment.name} needs: {', '.join(_needs(experiment))}")  # noqa: T201


def _needs(experiment: Experiment) -> list[str]:
    """The graphs, with a word on those that are not at hand."""
    from polynsd.data.catalogue import is_at_hand

    generated = {cell.dataset for cell in experiment.cells() if any(s.dataset is None for s in cell.sources)}
    return [
        name if name in generated or is_at_hand(name) else f"{name} (not here)"
        for name in experiment.datasets
    ]


def _done(folder: Path, experiment: Experiment) -> int:
    return sum((folder / cell.path).exists() for cell in experiment.cells())
