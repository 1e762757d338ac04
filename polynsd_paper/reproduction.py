"""What `polynsd reproduce` does: trains cells of an experiment that have no record, then writes its table."""

from __future__ import annotations

import sys
import time
from collections import Counter, deque
from collections.abc import Collection, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import torch

from polynsd.data.datasets.catalogue import locate
from polynsd.devices import get_device
from polynsd.errors import ConfigError, DataError, PolyNSDError, require_at_least, require_choice
from polynsd.report import ProgressReporter
from polynsd_paper.experiment import Cell, Experiment, Matched, fast, with_budget
from polynsd_paper.experiments import EXPERIMENTS, get_experiment
from polynsd_paper.records import FOLDER, differences, is_current, read_record, resolve
from polynsd_paper.runner import CellInUseError, Runner

if TYPE_CHECKING:
    from polynsd_paper.commands.reproduce import Reproduce

WAIT = 1.0  # seconds between two looks at cells that other processes work on
LIST_WIDTH = 80
INDENT = " " * 13


def reproduce(options: Reproduce) -> tuple[Path, dict[str, str]]:
    """Trains what is missing, prints and writes the table; its path, and the reasons of cells that failed."""
    from polynsd_paper.tables.writer import NoRecordsError, write_tables

    if options.splits is not None:
        require_at_least("splits", options.splits, 1)
    experiment = get_experiment(options.name or "")
    experiment = with_budget(
        fast(experiment) if options.fast else experiment, options.trials, options.seconds
    )
    for dataset in options.datasets:
        require_choice(f"dataset of {experiment.name}", dataset, experiment.datasets)
    cells = experiment.cells(options.datasets, _wanted_axes(experiment, options.only))
    failures = {} if options.table else _train(options, _make_runner(options, experiment), cells)
    try:
        path = write_tables(experiment, options.out)
    except NoRecordsError as error:
        reasons = "; ".join(dict.fromkeys(failures.values()))
        raise DataError(f"{error} {reasons or 'Leave --table out to train.'}") from error
    _print_failures(failures)
    return path, failures


def _wanted_axes(experiment: Experiment, only: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """What is varied; of an axis that `only` names (`maps=diagonal,general`) just those values."""
    axes = dict(experiment.axes)
    for condition in only:
        name, _, texts = condition.partition("=")
        require_choice("axis", name, axes)
        values = {str(value): value for value in experiment.axes[name]}
        for text in texts.split(","):
            require_choice(name, text, values)
        axes[name] = tuple(values[text] for text in texts.split(","))
    return axes


def _make_runner(options: Reproduce, experiment: Experiment) -> Runner:
    device = get_device(options.device)  # one that is not there is told once, not by every cell
    if options.tf32 and device.type != "cuda":
        raise ConfigError(f"--tf32 is for GPUs; the device is {device}. Leave it out.")
    if options.tf32:
        torch.set_float32_matmul_precision("high")
    if options.retrain and options.rescore:
        raise ConfigError("--retrain and --rescore are two ways to train again; leave one of them out.")
    return Runner(
        experiment,
        options.out,
        options.work,
        options.device,
        options.splits,
        options.retrain,
        options.rescore,
    )


def _train(options: Reproduce, runner: Runner, cells: Sequence[Cell]) -> dict[str, str]:
    """The reasons of cells that failed; the others go on. Those that other processes have come last."""
    failures: dict[str, str] = {}
    wanted = {cell.path for cell in cells}
    queue = deque(
        cell
        for cell in cells
        if (options.retrain or runner.find_record(cell) is None)
        and (runner.path(cell).exists() or not options.rescore)
        and _has_winner(runner, cell, wanted)
    )
    _print_stale(runner, queue)
    busy = 0  # cells in a row that other processes have
    with ProgressReporter(len(queue), unit="cells", quiet=options.quiet) as progress:
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


def _has_winner(runner: Runner, cell: Cell, wanted: Collection[Path]) -> bool:
    """Whether what a control depends on is recorded or comes in the same run; true of all other cells."""
    if not isinstance(cell.plan, Matched):
        return True
    winner = cell.plan.winner
    return winner.path in wanted or runner.path(winner).exists()


def _print_stale(runner: Runner, cells: Sequence[Cell]) -> None:
    """Which records are replaced because they have other settings."""
    names = []
    for cell in cells:
        if runner.path(cell).exists():
            known = resolve(cell, runner.path(cell).parents[1])
            others = differences(read_record(runner.path(cell)), runner.experiment, known)
            names += [f"{cell} ({', '.join(others)})"] if others else []
    if names and not runner.rescore:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        print(f"trained with other settings before, and now anew: {names[0]}{more}", file=sys.stderr)  # noqa: T201


def _print_failures(failures: dict[str, str]) -> None:
    for reason, count in Counter(failures.values()).items():
        first = next(cell for cell, other in failures.items() if other == reason)
        which = first if count == 1 else f"{count} cells ({first} and so on)"
        print(f"not trained: {which}: {reason}", file=sys.stderr)  # noqa: T201


def describe_experiments(out: Path) -> str:
    """All experiments, with the state of their records in a folder."""
    parts = [_describe(experiment, out / FOLDER / experiment.name) for experiment in EXPERIMENTS.values()]
    head = f"experiments; results in {out}"
    return "\n\n".join([head, *parts, "run one: polynsd reproduce NAME"])


def _describe(experiment: Experiment, folder: Path) -> str:
    cells = experiment.cells()
    trained = [cell for cell in cells if (folder / cell.path).exists()]
    done = sum(is_current(folder / cell.path, experiment, cell) for cell in trained)
    stale = f", {len(trained) - done} with other settings" if done < len(trained) else ""
    lines = [
        f"{experiment.name:<{len(INDENT)}}{experiment.title}",
        f"{INDENT}state: {done} of {len(cells)} cells done{stale}",
        f"{INDENT}takes: {experiment.minutes}",
        *(_wrapped(line) for line in _needs(experiment, cells)),
    ]
    return "\n".join(lines)


def _needs(experiment: Experiment, cells: list[Cell]) -> list[str]:
    """The graphs, and those of them that are not here."""
    generated = {cell.dataset for cell in cells if any(source.dataset is None for source in cell.sources)}
    wanted = [name for name in experiment.datasets if name not in generated]
    if not wanted:
        return [f"needs: nothing; makes its graphs itself ({', '.join(experiment.datasets)})"]
    missing = [name for name in wanted if locate(name) is None]
    if len(missing) == len(wanted):
        return [f"needs: {', '.join(missing)} (none is here yet)"]
    return [
        f"needs: {', '.join(wanted)}",
        *([f"not here yet: {', '.join(missing)}"] * bool(missing)),
    ]


def _wrapped(text: str) -> str:
    return fill(
        text, LIST_WIDTH, break_on_hyphens=False, initial_indent=INDENT, subsequent_indent=INDENT + "  "
    )
