"""The end of a search: the best configuration by validation, trained afresh, and tested once.

Nothing before this has seen a test score. The seeds are new, too: the validation score that won was
the largest of many and owes part of that to luck, which new seeds do not repeat.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from polynsd.config import to_dict
from polynsd.errors import ConfigError
from polynsd.runs.files import write_json
from polynsd.search.batch import Search
from polynsd.search.optional import yaml
from polynsd.search.table import state_of, write_trials
from polynsd.training import Configuration, fit_splits

SEED_OFFSET = 10_000  # of the final training; more than any number of splits


def best_trial(study: Any) -> Any:
    """The complete trial with the best validation; the first of equals."""
    complete = [trial for trial in study.get_trials(deepcopy=False) if trial.state.name == "COMPLETE"]
    if not complete:
        reasons = {trial.user_attrs.get("reason") for trial in study.get_trials(deepcopy=False)} - {None}
        because = f" Reasons: {'; '.join(sorted(reasons))}" if reasons else ""
        raise ConfigError(f"no trial is complete, so there is nothing to choose.{because}")
    return max(complete, key=lambda trial: (trial.value, -trial.number))


def write_choice(folder: Path, search: Search) -> Configuration:
    """Writes `space.yaml`, `trials.csv` and `best.yaml`; returns the configuration chosen."""
    write = yaml().safe_dump
    folder.mkdir(parents=True, exist_ok=True)
    search.space.save(folder / "space.yaml")
    write_trials(folder / "trials.csv", search.study)
    chosen = search.space.configuration(best_trial(search.study).params)
    text = write(plain_configuration(chosen), sort_keys=False)
    (folder / "best.yaml").write_text(text, encoding="utf-8")
    return chosen


def plain_configuration(chosen: Configuration) -> dict[str, Any]:
    """{model: …, training: …} as plain data."""
    return json.loads(json.dumps({"model": to_dict(chosen.model), "training": to_dict(chosen.training)}))


def conclude(folder: Path, search: Search, seconds: float = 0.0) -> dict[str, Any]:
    """Trains the chosen configuration on all splits with new seeds, tests it, and writes `result.json`.

    The training is a run of its own in `final-trial-N`: it resumes where it was interrupted, and is
    not repeated where it is done.

    Args:
        folder: of the search.
        search: all trials of which are done.
        seconds: that this worker has spent on trials.
    """
    start = time.perf_counter()
    trial, chosen = best_trial(search.study), write_choice(folder, search)
    problem = replace(search.problem, seed=search.problem.seed + SEED_OFFSET)
    final = fit_splits(problem, chosen, rules="search", out=folder / f"final-trial-{trial.number}")
    states = Counter(state_of(one) for one in search.study.get_trials(deepcopy=False))
    result = {
        "study": search.study.study_name,
        **search.problem.about,
        "metric": search.problem.task.metric,
        "trials": sum(states[state] for state in ("complete", "pruned", "failed")),
        **{state: states[state] for state in ("complete", "pruned", "failed", "lost")},
        "chosen": {"trial": trial.number, "val_mean": trial.value, **plain_configuration(chosen)},
        "final": final.to_dict(),
        "seconds": {"trials": round(seconds, 3), "final": round(time.perf_counter() - start, 3)},
    }
    write_json(folder / "result.json", result)
    return result
