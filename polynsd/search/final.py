"""The end of a search: the best configuration by validation, trained afresh, and tested once.

Nothing before this has scored the test set. The seeds are new, too: the validation score that won was the
largest of many and owes part of that to luck, which new seeds do not repeat.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from polynsd.runs.files import write_json
from polynsd.search.optional import yaml
from polynsd.search.study import Search, best_trials, state_of, write_trials
from polynsd.search.trials import Trial
from polynsd.training.configuration import plain_configuration
from polynsd.training.protocol import fit_splits

SEED_OFFSET = 10_000  # of the final training; more than any number of splits


def write_choice(folder: Path, search: Search) -> Trial:
    """Writes `space.yaml`, `trials.csv` and `best.yaml`; returns the best trial."""
    write = yaml().safe_dump
    folder.mkdir(parents=True, exist_ok=True)
    search.space.save(folder / "space.yaml")
    write_trials(folder / "trials.csv", search.study)
    best = best_trials(search)[0]
    text = write(plain_configuration(best.configuration), sort_keys=False)
    (folder / "best.yaml").write_text(text, encoding="utf-8")
    return best


def conclude(folder: Path, search: Search, seconds: float = 0.0) -> dict[str, Any]:
    """Trains the chosen configuration on all splits with new seeds, tests it, and writes `result.json`.

    The training is a run folder, `final-trial-N`: it resumes where it was interrupted, and is not repeated
    where it is done.

    Args:
        folder: of the search.
        search: whose trials have all ended.
        seconds: that this worker has spent on trials.
    """
    start = time.perf_counter()
    best = write_choice(folder, search)
    problem = replace(search.problem, seed=search.problem.seed + SEED_OFFSET)
    out = folder / f"final-trial-{best.number}"
    final = fit_splits(problem, best.configuration, rules="search", out=out)
    states = Counter(state_of(trial) for trial in search.study.get_trials(deepcopy=False))
    result = {
        "study": search.study.study_name,
        **search.problem.about,
        "metric": search.problem.task.metric,
        "trials": sum(states[state] for state in ("complete", "pruned", "failed")),
        **{state: states[state] for state in ("complete", "pruned", "failed", "lost")},
        "chosen": {
            "trial": best.number,
            "val_mean": best.value,
            **plain_configuration(best.configuration),
        },
        "final": final.to_dict(),
        "seconds": {"trials": round(seconds, 3), "final": round(time.perf_counter() - start, 3)},
    }
    write_json(folder / "result.json", result)
    return result
