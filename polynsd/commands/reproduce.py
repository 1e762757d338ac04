"""`polynsd reproduce`: the experiments of the paper, cell by cell; what is done is not done again."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from polynsd.commands.source import Source
from polynsd.errors import ConfigError, DataError, require_choice
from polynsd.experiments.catalogue import EXPERIMENTS, get_experiment
from polynsd.experiments.experiment import Cell, Experiment
from polynsd.experiments.protocol_run import ProtocolRun, Result
from polynsd.report import ProgressReporter, print_table
from polynsd.runs import read_run
from polynsd.runs.durable import make_folder, write_durably
from polynsd.search.options import Configuration
from polynsd.search.problem import Problem

FAST_EPOCHS = 30
COLUMNS = ("metric", "mean", "std", "val_mean", "splits", "protocol", "epochs", "seconds", "parameters")


@dataclass(frozen=True)
class Reproduce:
    """Run an experiment of the paper: train what is missing, resume what was interrupted, write a table."""

    name: Positional[str | None] = None
    """The experiment; --list names them."""
    list: bool = False
    """Say what there is, what it needs and how far it is."""
    datasets: tuple[str, ...] = ()
    """Only these; all of the experiment unless given."""
    only: tuple[str, ...] = ()
    """Only some values of what is varied, e.g. --only maps=diagonal K=1,16."""
    splits: int | None = None
    """Only the first so many splits."""
    fast: bool = False
    """Thirty epochs per split: a look at times and shapes, not at results."""
    device: str = "cpu"
    """Where to train: cpu, cuda or cuda:N."""
    out: Path = Path("results")
    """Where runs and tables go."""
    quiet: bool = False
    """No progress."""

    def run(self) -> Path | None:
        """Trains, prints the table and writes it; its path."""
        if self.list or self.name is None:
            _print_list(self.out)
            return None
        experiment = get_experiment(self.name)
        cells = experiment.cells(self._datasets(experiment), self._axes(experiment))
        path = self._folder(experiment).with_suffix(".csv")
        rows = self._trained(experiment, cells, path)
        _print(experiment, rows, path)
        return path

    def _folder(self, experiment: Experiment) -> Path:
        return self.out / (f"{experiment.name}-fast" if self.fast else experiment.name)

    def _datasets(self, experiment: Experiment) -> tuple[str, ...]:
        for dataset in self.datasets:
            require_choice(f"dataset of {experiment.name}", dataset, experiment.datasets)
        return self.datasets or experiment.datasets

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

    def _trained(self, experiment: Experiment, cells: Sequence[Cell], path: Path) -> Sequence[Result]:
        """A row per cell; a cell that fails has its reason in place of numbers, and the others go on."""
        rows: Any = []
        problems: dict[str, Problem] = {}
        make_folder(path.parent)
        with ProgressReporter(len(cells), unit="cells", quiet=self.quiet) as progress:
            for cell in cells:
                progress.advance(0, str(cell))
                try:
                    if cell.dataset not in problems:
                        problems = {cell.dataset: self._problem(experiment, cell.dataset)}  # one at a time
                    rows.append(self._row(experiment, cell, problems[cell.dataset]))
                except (DataError, ConfigError) as error:
                    nothing = dict.fromkeys(COLUMNS)
                    rows.append({"dataset": cell.dataset, **cell.options, **nothing, "error": str(error)})
                progress.advance(1, str(cell))
                write_durably(path, _csv(rows).encode())
        return rows

    def _problem(self, experiment: Experiment, dataset: str) -> Problem:
        source = Source(dataset, protocol=experiment.protocol, splits=self.splits, device=self.device)
        return source.problem()

    def _row(self, experiment: Experiment, cell: Cell, problem: Problem) -> Result:
        model, training = cell.configuration
        if self.fast:
            training = replace(training, epochs=FAST_EPOCHS, patience=FAST_EPOCHS)
        folder = self._folder(experiment) / cell.folder
        result = ProtocolRun(problem, Configuration(model, training), cell.rules).run(folder)
        epochs = [row["epochs"] for row in result["splits"]]
        known = {
            **result,
            "splits": len(epochs),
            "epochs": max(epochs),
            "seconds": read_run(folder).timings.get("seconds"),
        }
        numbers = {name: known[name] for name in COLUMNS}
        return {"dataset": cell.dataset, **cell.options, **numbers, "error": None}


def _csv(rows: Sequence[Result]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _print(experiment: Experiment, rows: Sequence[Result], path: Path) -> None:
    """A row per dataset and all axes but the last, a column per value of the last."""
    *others, across = experiment.axes
    values = [value for value in experiment.axes[across] if any(row[across] == value for row in rows)]
    table: dict[tuple[str, ...], dict[Any, str]] = {}
    for row in rows:
        key = (row["dataset"], *(str(row[name]) for name in others))
        if row["error"] is None:
            table.setdefault(key, {})[row[across]] = f"{100 * row['mean']:.2f} ± {100 * row['std']:.2f}"
    header = ("dataset", *others, *(f"{across}={value}" for value in values))
    cells = [[*key, *(numbers.get(value, "—") for value in values)] for key, numbers in table.items()]
    print_table(f"{experiment.name}: {experiment.title}; {experiment.protocol} splits", header, cells)
    seconds = sum(row["seconds"] or 0.0 for row in rows)
    for reason, count in Counter(row["error"] for row in rows if row["error"]).items():
        print(f"{count} of {len(rows)} cells failed: {reason}")  # noqa: T201
    print(f"{len(rows)} cells, {seconds:.1f} s of training\ntable: {path}")  # noqa: T201


def _print_list(out: Path) -> None:
    rows = [
        (name, experiment.title, f"{_done(out / name, experiment)} of {len(_all(experiment))} cells")
        for name, experiment in EXPERIMENTS.items()
    ]
    print_table(f"experiments; results in {out}", ("name", "what", "done"), rows)
    for experiment in EXPERIMENTS.values():
        print(f"{experiment.name} needs: {', '.join(experiment.datasets)}")  # noqa: T201


def _all(experiment: Experiment) -> list[Cell]:
    return experiment.cells(experiment.datasets, experiment.axes)


def _done(folder: Path, experiment: Experiment) -> int:
    return sum((folder / cell.folder / "result.json").exists() for cell in _all(experiment))
