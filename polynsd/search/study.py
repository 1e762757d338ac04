"""A study: opened or resumed, worked on by one or many processes, read back as a table."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from polynsd.errors import ConfigError
from polynsd.search.batch import Candidate, Search, ask_batch, is_finished, run_batch
from polynsd.search.optional import optuna
from polynsd.search.pruning import get_pruner
from polynsd.search.settings import SearchConfig
from polynsd.search.space import Space
from polynsd.search.storage import open_storage, shown
from polynsd.search.workers import GRACE, Watchman
from polynsd.training.problem import Problem

POLL_SECONDS = 0.5

OnTrial = Callable[[dict[str, Any]], None]


def open_study(url: str, name: str, space: Space, problem: Problem, config: SearchConfig) -> Search:
    """Begins a study, or goes on with the one of this name if it is the same question.

    Raises:
        ConfigError: the stored study has another space, graph, split, metric, seed or screening.
    """
    from polynsd.search.sampler import BatchSampler

    config.stages(len(problem.splits))
    startup = max(config.startup, config.batch)
    study = optuna().create_study(
        storage=open_storage(url),
        study_name=name,
        direction="maximize",
        sampler=BatchSampler(space, config.sampler, config.batch, startup, config.seed),
        pruner=get_pruner(config.pruner, startup, config.look),
        load_if_exists=True,
    )
    question = {"space": space.to_dict(), **problem.identity(), "screen": config.screen, "look": config.look}
    _require_same(study, json.loads(json.dumps(question)), url)
    return Search(study, space, problem, config)


def _require_same(study: Any, question: dict[str, Any], url: str) -> None:
    stored = study.user_attrs.get("question")
    if stored is None:
        study.set_user_attr("question", question)
        return
    differing = [key for key in {**stored, **question} if stored.get(key) != question.get(key)]
    if differing:
        raise ConfigError(
            f"the study '{study.study_name}' in {shown(url)} was begun with other values of: "
            f"{', '.join(differing)}. Give these as before, or begin another study (--study NAME, or "
            "another --storage)."
        )


def work(
    search: Search,
    on_trial: OnTrial | None = None,
    wait: bool = True,
    grace: float = GRACE,
    seconds: float = math.inf,
) -> None:
    """Trains trials until the number ordered is reached, by this worker and all others.

    Args:
        search: from `open_study`.
        on_trial: called with a record of every trial that this worker finished.
        wait: also for the trials of other workers that are still under way.
        grace: seconds without a sign of life after which another worker is taken for dead.
        seconds: no batch is begun once the trials of the study have taken so long together.
    """
    watchman = Watchman(search.study, grace)
    told = None if on_trial is None else lambda candidate: on_trial(record(search, candidate))
    while True:
        watchman.recover()
        if spent(search.study) >= seconds:
            return
        trials = ask_batch(search)
        if trials:
            run_batch(search, trials, told)
        elif not wait or finished(search.study) >= search.config.trials:
            return
        else:
            time.sleep(POLL_SECONDS)


def finished(study: Any) -> int:
    """How many of the trials ordered have come to their end."""
    return sum(is_finished(trial) for trial in study.get_trials(deepcopy=False))


def begin_with(search: Search, starts: Sequence[Mapping[str, Any]]) -> None:
    """Lets a study that has no trials begin with these shapes: one batch of trials for each."""
    if search.study.get_trials(deepcopy=False):
        return
    for start in starts:
        for _ in range(search.config.batch):
            search.study.enqueue_trial(search.space.stored(start))


def spent(study: Any) -> float:
    """Seconds that the trials of a study have taken, whoever trained them and whenever."""
    return sum(trial.user_attrs.get("seconds", 0.0) for trial in study.get_trials(deepcopy=False))


def record(search: Search, candidate: Candidate) -> dict[str, Any]:
    """What a progress view shows of a trial and of the search so far."""
    trials = search.study.get_trials(deepcopy=False)
    trial = trials[candidate.trial.number]
    others = [one.value for one in trials if one.state.name == "COMPLETE" and one.number != trial.number]
    is_best = trial.state.name == "COMPLETE" and trial.value > max(others, default=-math.inf)
    return {
        "trial": trial.number,
        "state": trial.state.name,
        "value": trial.value,
        "params": dict(trial.params),
        "reason": candidate.reason,
        "seconds": trial.user_attrs.get("seconds"),
        "is_best": is_best,
        "best": trial.value if is_best else max(others, default=None),
        "finished": sum(map(is_finished, trials)),
        "pruned": sum(one.state.name == "PRUNED" for one in trials),
        "total": search.config.trials,
    }
