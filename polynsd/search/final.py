"""The end of a search: the best configuration by validation, trained afresh, and tested once.

Nothing before this has seen a test score. The seeds are new, too: the validation score that won was
the largest of many and owes part of that to luck, which new seeds do not repeat.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from functools import partial
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from polynsd.config import to_dict
from polynsd.errors import ConfigError
from polynsd.report import write_json
from polynsd.runs import Run
from polynsd.search.batch import Search
from polynsd.search.optional import yaml
from polynsd.search.table import state_of, write_trials
from polynsd.training import ProtocolResult, run_splits
from polynsd.training.configuration import Configuration
from polynsd.zoo import build_model

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

    The training is a run of its own in `final/trial-N`: it resumes where it was interrupted, and is
    not repeated where it is done.

    Args:
        folder: of the search.
        search: all trials of which are done.
        seconds: that this worker has spent on trials.
    """
    start = time.perf_counter()
    trial, chosen = best_trial(search.study), write_choice(folder, search)
    final = _final_run(folder / "final" / f"trial-{trial.number}", search, chosen)
    states = Counter(state_of(one) for one in search.study.get_trials(deepcopy=False))
    result = {
        "study": search.study.study_name,
        **search.problem.about,
        "metric": search.problem.task.metric,
        "trials": sum(states[state] for state in ("complete", "pruned", "failed")),
        **{state: states[state] for state in ("complete", "pruned", "failed", "lost")},
        "chosen": {"trial": trial.number, "val_mean": trial.value, **plain_configuration(chosen)},
        "final": final,
        "seconds": {"trials": round(seconds, 3), "final": round(time.perf_counter() - start, 3)},
    }
    write_json(folder / "result.json", result)
    return result


def _final_run(folder: Path, search: Search, chosen: Configuration) -> dict[str, Any]:
    problem, seed = search.problem, search.problem.seed + SEED_OFFSET
    config = {**plain_configuration(chosen), "seed": seed}
    with Run.start(folder, kind="search", config=config, inputs=problem.identity()) as run:
        if run.result is None:
            outputs = problem.task.num_outputs(problem.data.y)
            build = partial(build_model, chosen.model, problem.data.num_features, outputs)
            fits = run_splits(
                build,
                problem.data,
                problem.splits,
                problem.task,
                chosen.training,
                seed,
                on_epoch=lambda split, epoch: run.log({"split": split, **vars(epoch)}),
                snapshots=run.snapshots,
            )
            run.finish(_summary(fits, seed), _weights(fits))
        assert run.result is not None
        return dict(run.result)


def _summary(result: ProtocolResult, seed: int) -> dict[str, Any]:
    val = [fit.val_metric for fit in result.fits]
    return {
        "seed": seed,
        "val_mean": fmean(val),
        "test_mean": result.mean,
        "test_std": pstdev(result.tests),
        "std": "population",
        "val": val,
        "test": result.tests,
        "best_epoch": [fit.best_epoch for fit in result.fits],
    }


def _weights(result: ProtocolResult) -> dict[str, Any]:
    return {
        f"split-{number}.{name}": tensor
        for number, fit in enumerate(result.fits)
        for name, tensor in fit.model.state_dict().items()
    }
