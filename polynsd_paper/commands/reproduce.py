"""`polynsd reproduce`: the experiments of the paper, cell by cell; what is done is not done again."""

from __future__ import annotations

import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from tyro.conf import Positional, arg

from polynsd.devices import get_device
from polynsd.errors import ConfigError, DataError, PolyNSDError, require_at_least, require_choice
from polynsd.report import ProgressReporter
from polynsd_paper.described import describe_all
from polynsd_paper.experiment import Cell, Experiment, fast, with_budget
from polynsd_paper.experiments import get_experiment
from polynsd_paper.records import current_records, differences, read_record
from polynsd_paper.runner import CellInUseError, Runner

WAIT = 1.0  # seconds between two looks at cells that other processes work on


@dataclass(frozen=True)
class Reproduce:
    """Run an experiment of the paper: train what is missing, resume what was interrupted, write its table."""

    name: Annotated[str | None, Positional, arg(metavar="[NAME]")] = None
    """The experiment; --list names them."""
    list: bool = False
    """Say what there is, what it needs, how long it takes and how far it is."""
    datasets: tuple[str, ...] = ()
    """Only these; all of the experiment unless given."""
    only: tuple[str, ...] = ()
    """Only some values of what is varied, e.g. --only maps=diagonal K=1,16."""
    splits: Annotated[int | None, arg(metavar="INT")] = None
    """Only the first so many splits: a partial result, marked as one until a run without this trains all."""
    trials: Annotated[int | None, arg(metavar="INT")] = None
    """At most so many in a search; the experiment's own budget unless given. Another budget asks another
    question: records of the old one are trained anew."""
    seconds: Annotated[float | None, arg(metavar="FLOAT")] = None
    """No trial of a search begins after so many; the experiment's own budget unless given."""
    fast: bool = False
    """Thirty epochs, two trials, one seed, in files of its own: a look at times and shapes, no result."""
    again: bool = False
    """Train cells that have a record once more; what a search chose is kept."""
    table: bool = False
    """Train nothing; write tables and figures of what is there."""
    device: str = "cpu"
    """Where to train: cpu, cuda, cuda:N, or auto."""
    tf32: bool = False
    """On a GPU: multiply matrices in TF32, which is faster. The record says so; filters stay in float32."""
    out: Path = Path("results")
    """Where records, tables and figures go."""
    work: Path = Path("runs/reproduce")
    """Where searches and trainings under way are kept."""
    quiet: bool = False
    """No progress."""

    def run(self) -> Path | None:
        """Trains, prints the table and writes it; its path. Exits with 1 if a cell failed."""
        if self.list or self.name is None:
            print(describe_all(self.out))  # noqa: T201
            return None
        experiment = self._experiment(get_experiment(self.name))
        cells = self._cells(experiment)
        folder = self.out / "records" / experiment.name
        failures = {} if self.table else self._train(self._runner(experiment, folder), cells)
        records, left_out = current_records(experiment, folder)
        if not records:
            raise DataError(_nothing(experiment, failures, left_out))
        from polynsd_paper.tables import write_tables

        path = write_tables(experiment, records, self.out, left_out)
        _print_failures(failures)
        if failures:
            sys.exit(1)
        return path

    def _experiment(self, experiment: Experiment) -> Experiment:
        """As the options ask for it."""
        if self.splits is not None:
            require_at_least("splits", self.splits, 1)
        asked = fast(experiment) if self.fast else experiment
        return with_budget(asked, self.trials, self.seconds)

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

    def _runner(self, experiment: Experiment, folder: Path) -> Runner:
        device = get_device(self.device)  # one that is not there is told once, not by every cell
        if self.tf32 and device.type != "cuda":
            raise ConfigError(f"--tf32 is for GPUs; the device is {device}. Leave it out.")
        if self.tf32:
            torch.set_float32_matmul_precision("high")
        work = self.work / experiment.name
        return Runner(experiment, folder, work, self.device, self.splits, again=self.again)

    def _train(self, runner: Runner, cells: Sequence[Cell]) -> dict[str, str]:
        """The reasons of cells that failed; the others go on. Those that other processes have come last."""
        failures: dict[str, str] = {}
        queue = deque(cell for cell in cells if self.again or runner.answer(cell) is None)
        _print_stale(runner, queue)
        busy = 0  # cells in a row that other processes have
        with ProgressReporter(len(queue), unit="cells", quiet=self.quiet) as progress:
            runner.on_step = lambda text: progress.advance(0, text)
            while queue:
                cell = queue.popleft()
                try:
                    runner.record(cell)
                except CellInUseError:
                    queue.append(cell)
                    busy += 1
                    if busy >= len(queue):
                        progress.advance(0, f"{cell}: another process trains it; waiting")
                        time.sleep(WAIT)
                    continue
                except (PolyNSDError, torch.OutOfMemoryError) as error:
                    failures[str(cell)] = str(error)
                busy = 0
                progress.advance(1, str(cell))
        return failures


def _nothing(experiment: Experiment, failures: dict[str, str], left_out: int) -> str:
    older = f" Records that answer an older question: {left_out}." if left_out else ""
    reasons = "; ".join(dict.fromkeys(failures.values()))
    return f"{experiment.name} has no results yet.{older} {reasons or 'Leave --table out to train.'}"


def _print_stale(runner: Runner, cells: Sequence[Cell]) -> None:
    """Which records are replaced because they answer something else."""
    stale = {}
    for cell in cells:
        if runner.path(cell).exists():
            stale[str(cell)] = differences(read_record(runner.path(cell)), runner.experiment, cell)
    names = [f"{cell} ({', '.join(other)})" for cell, other in stale.items() if other]
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        print(f"trained with another plan before, and now anew: {names[0]}{more}", file=sys.stderr)  # noqa: T201


def _print_failures(failures: dict[str, str]) -> None:
    for reason, count in Counter(failures.values()).items():
        first = next(cell for cell, other in failures.items() if other == reason)
        which = first if count == 1 else f"{count} cells ({first} and so on)"
        print(f"not trained: {which}: {reason}", file=sys.stderr)  # noqa: T201
