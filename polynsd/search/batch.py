"""Trials are asked for, trained and told in batches."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from polynsd.config import ModelConfig, TrainConfig
from polynsd.errors import PolyNSDError
from polynsd.search.optional import optuna
from polynsd.search.pruning import Watch, fails_screening
from polynsd.search.settings import SearchConfig
from polynsd.search.space import Space
from polynsd.search.workers import beating, release, sign, unless_taken
from polynsd.training.configuration import Configuration
from polynsd.training.problem import Problem, Scores, train

logger = logging.getLogger("polynsd")

SURPLUS = "surplus: other workers were quicker"


@dataclass(frozen=True)
class Search:
    """Everything a worker needs to know."""

    study: Any
    space: Space
    problem: Problem
    config: SearchConfig


@dataclass
class Candidate:
    """A trial on its way."""

    trial: Any
    configuration: Configuration
    scores: Scores | None = None
    state: str = "COMPLETE"
    reason: str | None = None

    def fail(self, reason: str) -> None:
        """It cannot be trained."""
        self.state, self.reason = "FAIL", reason


def counts(trial: Any) -> bool:
    """Whether a trial is one of those that were ordered: lost and surplus ones are not."""
    if trial.state.name != "FAIL":
        return True
    return trial.user_attrs.get("reason", SURPLUS) != SURPLUS


def is_finished(trial: Any) -> bool:
    """Whether a trial has come to its end and counts."""
    return trial.state.is_finished() and counts(trial)


def ask_batch(search: Search) -> list[Any]:
    """New trials up to the end of a batch or the number ordered; none if all are taken."""
    trials: list[Any] = []
    total, size = search.config.trials, search.config.batch
    while len(trials) < size and _num_taken(search.study) < total:
        trial = search.study.ask(search.space.distributions())
        sign(trial)
        if _num_before(search.study, trial.number) >= total:
            trial.set_user_attr("reason", SURPLUS)
            search.study.tell(trial, state=optuna().trial.TrialState.FAIL)
            break
        trials.append(trial)
        if (trial.number + 1) % size == 0:
            break
    return trials


def _num_taken(study: Any) -> int:
    """How many of the trials ordered are done or under way; those queued again wait to be asked for."""
    trials = study.get_trials(deepcopy=False)
    return sum(counts(trial) and trial.state.name != "WAITING" for trial in trials)


def _num_before(study: Any, number: int) -> int:
    """The trial's place in the order; two workers that ask at once cannot both have the last place."""
    return sum(counts(trial) for trial in study.get_trials(deepcopy=False) if trial.number < number)


def run_batch(
    search: Search, trials: Sequence[Any], on_told: Callable[[Candidate], None] | None = None
) -> None:
    """Trains trials and tells the study, then `on_told`; those of one shape train together."""
    with _released_on_failure(search.study, trials), beating(trials):
        for alike in _by_shape(search, trials):
            start = time.perf_counter()
            _train(search, alike)
            seconds = (time.perf_counter() - start) / len(alike)
            for candidate in alike:
                tell(search.study, candidate, seconds)
                if on_told is not None:
                    on_told(candidate)


@contextmanager
def _released_on_failure(study: Any, trials: Sequence[Any]) -> Iterator[None]:
    """Whatever interrupts us, Ctrl-C included: the trials under way are for others, or for later."""
    try:
        yield
    except BaseException:
        for trial in trials:
            release(study, trial.number)
        raise


def _by_shape(search: Search, trials: Sequence[Any]) -> list[list[Candidate]]:
    groups: dict[str, list[Candidate]] = {}
    for trial in trials:
        key = json.dumps(search.space.shape(trial.params), sort_keys=True)
        candidate = Candidate(trial, Configuration(ModelConfig(), TrainConfig()))
        try:
            candidate.configuration = search.space.configuration(trial.params)
        except PolyNSDError as error:
            candidate.fail(str(error))
        groups.setdefault(key, []).append(candidate)
    return list(groups.values())


def _train(search: Search, candidates: Sequence[Candidate]) -> None:
    """In stages: who is pruned, screened out or has failed is not in the next one."""
    for number, splits in enumerate(search.config.stages(len(search.problem.splits))):
        going = [one for one in candidates if one.state == "COMPLETE"]
        if number:
            going = [one for one in going if not _screened_out(search, one)]
        if going:
            _train_on(search, going, splits, watched=number == 0)


def _screened_out(search: Search, candidate: Candidate) -> bool:
    assert candidate.scores is not None
    if fails_screening(search.study, candidate.scores.val, search.config.startup):
        candidate.state = "PRUNED"
    return candidate.state == "PRUNED"


def _train_on(search: Search, candidates: Sequence[Candidate], splits: range, watched: bool) -> None:
    configurations = [one.configuration for one in candidates]
    rules = [one.training for one in configurations]
    watch = Watch([one.trial for one in candidates], rules, len(splits), search.config.look)
    try:
        callbacks = (watch.on_epoch, watch.stop) if watched else (None, None)
        scores = train(search.problem, configurations, splits, *callbacks)
    except (PolyNSDError, torch.OutOfMemoryError) as error:
        _train_alone(search, candidates, splits, str(error).splitlines()[0])
        return
    for place, (one, new) in enumerate(zip(candidates, scores, strict=True)):
        one.scores = new if one.scores is None else one.scores + new
        if new.diverged:
            one.fail(f"the loss was not finite on splits {new.diverged}; a lower learning_rate may help.")
        elif not all(map(math.isfinite, new.val)):
            one.fail(f"the validation metric is not finite: {new.val}.")
        elif place in watch.pruned:
            one.state = "PRUNED"


def _train_alone(search: Search, candidates: Sequence[Candidate], splits: range, reason: str) -> None:
    """The batch could not be trained; the fault may lie with one of its trials."""
    if len(candidates) == 1:
        candidates[0].fail(reason)
        return
    for one in candidates:
        _train_on(search, [one], splits, watched=False)


def tell(study: Any, candidate: Candidate, seconds: float) -> None:
    """Stores what came out: validation only."""
    trial, scores, state = candidate.trial, candidate.scores, candidate.state
    with unless_taken() as taken:
        trial.set_user_attr("seconds", round(seconds, 3))
        if candidate.reason is not None:
            trial.set_user_attr("reason", candidate.reason)
        if scores is not None:
            for name in ("val", "best_epoch", "epochs"):
                trial.set_user_attr(name, getattr(scores, name))
        value = fmean(scores.val) if scores is not None and state == "COMPLETE" else None
        study.tell(trial, value, state=optuna().trial.TrialState[state])
    if taken:
        logger.warning("trial %d was given to another worker; its result is not used.", trial.number)
