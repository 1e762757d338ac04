"""The configuration of a searched cell: a search on a few splits, then a run-off of its best on all of them.

The best of many trials on few splits owes much to luck. So the best few are trained once more, on all splits
and with other seeds, and their validation there decides. Nothing looks at a test score.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from polynsd.search import SearchConfig, Space, Trial, group_by_shape, train_together
from polynsd.training import Configuration, Problem
from polynsd_paper.experiment import Budget, Cell
from polynsd_paper.records import digest

if TYPE_CHECKING:
    from polynsd.search import Search

RUN_OFF = 5_000  # the first seed of the run-off; searches use those from 0 on
ENDED = ("complete", "pruned", "failed")  # not lost with an interruption

OnStep = Callable[[str], None]


def choose(
    cell: Cell, budget: Budget, problem: Problem, folder: Path, on_step: OnStep
) -> tuple[Configuration, dict[str, Any]]:
    """The configuration with the best validation, and what was spent on finding it.

    Args:
        cell: whose plan is a space.
        budget: of the search.
        problem: with all splits.
        folder: of the study; a search that was interrupted goes on.
        on_step: is told what goes on.
    """
    from polynsd.search import seconds_spent, trial_rows

    search = _searched(cell, budget, problem, folder, on_step)
    rows = [row for row in trial_rows(search.study) if row["state"] in ENDED]
    start = time.perf_counter()
    configuration, run_off = _decided(search, budget, problem, lambda text: on_step(f"{cell}: {text}"))
    about = {
        "trials": len(rows),
        "seconds": round(seconds_spent(search.study) + time.perf_counter() - start, 1),
        "splits": len(search.problem.splits),
        "val": run_off[0]["val"],
        "run_off": run_off,
        "best_so_far": [row["best_so_far"] and round(row["best_so_far"], 5) for row in rows],
        "space": json.loads(json.dumps(search.space.to_dict())),
    }
    return configuration, about


def _searched(cell: Cell, budget: Budget, problem: Problem, folder: Path, on_step: OnStep) -> Search:
    """The study, with all trials that the budget allows."""
    from polynsd.search import begin_with, open_study, work

    assert isinstance(cell.plan, Space)
    config = SearchConfig(
        trials=budget.trials, batch=budget.batch, screen=budget.screen, startup=max(budget.trials // 2, 1)
    )
    few = replace(problem, splits=problem.splits[: budget.splits], seed=0)
    asked = [cell.plan.to_dict(), [dict(start) for start in cell.starts], asdict(budget), few.identity()]
    storage = f"sqlite:///{folder / f'study-{digest(asked)}.db'}"
    search = open_study(storage, cell.name, cell.plan, few, config)
    begin_with(search, cell.starts)
    work(search, on_trial=lambda told: on_step(_told(cell, told)), seconds=budget.seconds)
    return search


def _decided(
    search: Search, budget: Budget, problem: Problem, on_step: OnStep
) -> tuple[Configuration, list[dict[str, Any]]]:
    """The winner of the run-off, and how the finalists did, best first."""
    from polynsd.search import best_trials

    finalists = best_trials(search)[: budget.finalists]
    values = [trial.value for trial in finalists]
    if len(finalists) > 1:
        on_step(f"the best {len(finalists)} on {len(problem.splits)} splits")
        values = _validations(finalists, problem)
    order = sorted(range(len(finalists)), key=lambda i: (-values[i], i))
    run_off = [{"trial": finalists[i].number, "search": finalists[i].value, "val": values[i]} for i in order]
    return finalists[order[0]].configuration, run_off


def _validations(trials: Sequence[Trial], problem: Problem) -> list[float]:
    """Mean validation over all splits, −∞ where it is not finite; trials of one shape train together."""
    fresh, splits, values = replace(problem, seed=RUN_OFF), range(len(problem.splits)), {}
    for group in group_by_shape(trials):
        fits = train_together(fresh, [trial.configuration for trial in group], splits)
        for trial, results in zip(group, fits, strict=True):
            mean = fmean(fit.val_metric for fit in results)
            values[trial.number] = mean if math.isfinite(mean) else -math.inf
    return [values[trial.number] for trial in trials]


def _told(cell: Cell, told: dict[str, Any]) -> str:
    best = "—" if told["best"] is None else f"{100 * told['best']:.2f}"
    return f"{cell}: trial {told['finished']} of {told['total']}, best validation {best}"
