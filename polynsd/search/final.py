"""The end of a search: a run-off of the best few, and one test of its winner.

The best of many trials owes part of its score to luck. So the best few are trained again with seeds that no
trial has had, and their validation there decides. The winner is trained once more, with seeds that nothing
before has used, and only then is the test set scored.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from polynsd.documents import to_yaml
from polynsd.optional import load_yaml
from polynsd.runs import Run
from polynsd.runs.files import make_folder, to_json, write_durably, write_json
from polynsd.search.study import FINISHED, Search, best_trials, state_of, write_trials
from polynsd.search.trials import Trial, group_by_shape, train_together
from polynsd.training.configuration import plain_configuration
from polynsd.training.problem import Problem
from polynsd.training.protocol import fit_splits
from polynsd.training.replica import Snapshots

# The first seeds, counted from that of the search; further apart than there are splits.
RUN_OFF_SEED = 5_000
FINAL_SEED = 10_000


@dataclass(frozen=True)
class Finalist:
    """One of the best trials of a search, and its mean validation in the run-off."""

    trial: Trial
    val: float
    """−∞ where it is not finite; that of the search where there was no other finalist."""

    def to_dict(self) -> dict[str, Any]:
        """The trial's number and its mean validation, in the search and in the run-off."""
        return {"trial": self.trial.number, "search": self.trial.value, "val": self.val}


def run_off(search: Search, problem: Problem | None = None, folder: Path | None = None) -> list[Finalist]:
    """Trains the best `search.config.finalists` trials again on all splits; the winner comes first.

    Args:
        search: whose trials have ended.
        problem: with the splits of the run-off; that of the search unless given.
        folder: gets a run folder for each shape, so that a run-off resumes; None keeps nothing.

    Raises:
        ConfigError: no trial is complete.
    """
    trials = best_trials(search)[: search.config.finalists]
    if len(trials) == 1:
        return [Finalist(trials[0], trials[0].value)]
    fresh = replace(problem or search.problem, seed=search.problem.seed + RUN_OFF_SEED)
    values: dict[int, float] = {}
    for group in group_by_shape(trials):
        values |= _mean_validations(fresh, group, folder)
    return sorted((Finalist(trial, values[trial.number]) for trial in trials), key=lambda each: -each.val)


def _mean_validations(problem: Problem, trials: Sequence[Trial], folder: Path | None) -> dict[int, float]:
    """The mean validation scores of trials of one shape, by their numbers."""
    numbers = [trial.number for trial in trials]
    configurations = [trial.configuration for trial in trials]

    def train(snapshots: Snapshots | None = None) -> list[list[float | None]]:
        fits = train_together(problem, configurations, range(len(problem.splits)), snapshots=snapshots)
        return [[fit.val_metric for fit in each] for each in fits]

    if folder is None:
        return dict(zip(numbers, map(_mean, train()), strict=True))
    name = f"run-off-trial-{'-'.join(map(str, numbers))}"
    config = {"configurations": [plain_configuration(each) for each in configurations]}
    with Run.start(folder / name, "run-off", config, problem.identity()) as run:
        vals = train(run.snapshots) if run.result is None else run.result["val"]
        if run.result is None:
            run.finish({"trials": numbers, "val": vals}, weights={})
    return dict(zip(numbers, map(_mean, vals), strict=True))


def _mean(values: Sequence[float | None]) -> float:
    """−∞ where a value is not finite; files hold None for it."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    return fmean(finite) if len(finite) == len(values) else -math.inf


def conclude(folder: Path, search: Search, seconds: float = 0.0) -> dict[str, Any]:
    """Holds the run-off, trains its winner afresh and scores the test set for the first time.

    Run-off and final training are run folders, `run-off-trial-…` and `final-trial-N`: they resume where they
    were interrupted, and are not repeated where they are done.

    Args:
        folder: of the search; gets `space.yaml`, `trials.csv`, `best.yaml` and `result.json`.
        search: whose trials have all ended.
        seconds: that this worker has spent on trials.

    Returns:
        What `result.json` holds.
    """
    load_yaml()  # a missing package is reported first
    start = time.perf_counter()
    make_folder(folder)
    search.space.save(folder / "space.yaml")
    write_trials(folder / "trials.csv", search.study)
    finalists = run_off(search, folder=folder)
    best = finalists[0].trial
    configuration = plain_configuration(best.configuration)
    text = _describe(finalists) + to_yaml(configuration)
    write_durably(folder / "best.yaml", text.encode())
    problem = replace(search.problem, seed=search.problem.seed + FINAL_SEED)
    out = folder / f"final-trial-{best.number}"
    final = fit_splits(problem, best.configuration, rules="search", out=out)
    states = Counter(state_of(trial) for trial in search.study.get_trials(deepcopy=False))
    result = {
        "study": search.study.study_name,
        **search.problem.about,
        "metric": search.problem.task.metric,
        "trials": sum(states[state] for state in FINISHED),
        **{state: states[state] for state in (*FINISHED, "lost")},
        "finalists": to_json([finalist.to_dict() for finalist in finalists], "finalists"),
        "chosen": {"trial": best.number, "val_mean": best.value, **configuration},
        "final": final.to_dict(),
        "seconds": {"trials": round(seconds, 3), "final": round(time.perf_counter() - start, 3)},
    }
    write_json(folder / "result.json", result)
    return result


def _describe(finalists: Sequence[Finalist]) -> str:
    """How the finalists did, as comments."""
    lines = ["# Mean validation of the finalists, the winner first; its configuration follows."]
    for each in finalists:
        again = f", {each.val:.4f} in the run-off" if len(finalists) > 1 else ""
        lines.append(f"# trial {each.trial.number}: {each.trial.value:.4f} in the search{again}")
    return "\n".join([*lines, ""])
