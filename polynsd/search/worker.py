"""`work`: one worker of a study asks for trials, trains them in batches and tells the study their scores."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from polynsd.errors import PolyNSDError
from polynsd.optional import load_optuna
from polynsd.search.heartbeat import (
    DEATHS_SO_FAR,
    DEATHS_TOGETHER,
    TIMEOUT_SECONDS,
    TRAINING,
    LostTrials,
    claim_trial,
    heartbeat,
    ignore_finished,
    requeue_trial,
    store_outcomes,
    tell_outcome,
)
from polynsd.search.pruning import BatchPruning, fails_screening
from polynsd.search.storage import one_transaction
from polynsd.search.study import (
    PLACE,
    SURPLUS,
    Search,
    count_finished,
    find_places,
    is_counted,
    seconds_spent,
    state_of,
)
from polynsd.search.trials import Trial, group_by_shape, train_together
from polynsd.training.callback import TrialStatus
from polynsd.training.configuration import Configuration

logger = logging.getLogger("polynsd")

POLL_SECONDS = 0.5

OnTrial = Callable[[TrialStatus], None]


def work(
    search: Search,
    on_trial: OnTrial | None = None,
    wait: bool = True,
    timeout: float = TIMEOUT_SECONDS,
    seconds: float = math.inf,
) -> None:
    """Trains trials until `search.config.trials` have ended, by this worker and all others.

    Args:
        search: from `open_study`.
        on_trial: called with every trial that this worker finished.
        wait: also for running trials of other workers.
        timeout: seconds without a heartbeat after which a trial of another worker is lost.
        seconds: no batch is begun once the trials of the study have taken so long together.
    """
    lost = LostTrials(search, timeout)
    while True:
        lost.requeue()
        if seconds_spent(search.study) >= seconds:
            return
        trials = [] if lost.has_unclaimed() else ask_batch(search)
        if trials:
            run_batch(search, trials, on_trial)
        elif not wait or count_finished(search.study) >= search.config.trials:
            return
        else:
            time.sleep(POLL_SECONDS)


def ask_batch(search: Search) -> list[Any]:
    """Trials of Optuna, in places of one batch, up to the number ordered; none if all are taken."""
    trials: list[Any] = []
    study, distributions = search.study, search.space.distributions()
    total, size, batch = search.config.trials, search.config.batch, 0
    known = study.get_trials(deepcopy=False)
    while _count_taken(known) < total:
        if trials and _next_place(known) // size != batch:
            break
        with one_transaction(study._storage):
            trial = _ask_by_place(study, known, distributions)
            known = study.get_trials(deepcopy=False)
            if "worker" not in known[trial.number].user_attrs:  # nothing was drawn for it
                claim_trial(study, trial)
        place = find_places(known)[trial.number]
        if place >= total or not _holds_place(known, trial.number):  # another worker asked at the same moment
            trial.set_user_attr("reason", SURPLUS)
            study.tell(trial, state=load_optuna().trial.TrialState.FAIL)
            if place >= total:
                break
            known = study.get_trials(deepcopy=False)
            continue
        trials.append(trial)
        batch = place // size
    return trials


def _count_taken(trials: Sequence[Any]) -> int:
    """How many of the trials ordered have ended or are running; queued ones are still to be asked for."""
    return sum(is_counted(trial) and trial.state.name != "WAITING" for trial in trials)


def _next_place(trials: Sequence[Any]) -> int:
    """The place of the trial that is begun next: the first that is queued, or a new one."""
    queued = _sort_queued(trials)
    new = sum(PLACE not in trial.user_attrs and state_of(trial) != "surplus" for trial in trials)
    return queued[0][0] if queued else new


def _sort_queued(trials: Sequence[Any]) -> list[tuple[int, Any]]:
    """Places and trials that wait for a worker, the first place first."""
    placed = zip(find_places(trials), trials, strict=True)
    return sorted((pair for pair in placed if pair[1].state.name == "WAITING"), key=lambda pair: pair[0])


def _holds_place(trials: Sequence[Any], number: int) -> bool:
    """Whether no trial of a lower number that counts has the place of this one."""
    places = find_places(trials)
    before = zip(places[:number], trials, strict=False)
    return not any(place == places[number] and is_counted(trial) for place, trial in before)


def _ask_by_place(study: Any, trials: Sequence[Any], distributions: Mapping[str, Any]) -> Any:
    """Begins a trial of Optuna: of those queued, the one of the first place, not of the lowest number."""
    running = load_optuna().trial.TrialState.RUNNING

    def pop() -> int | None:
        for _, trial in _sort_queued(trials):
            with ignore_finished():  # another worker may have been quicker
                if study._storage.set_trial_state_values(trial._trial_id, state=running):
                    return int(trial._trial_id)
        return None

    study._pop_waiting_trial_id = pop
    return study.ask(distributions)


def run_batch(search: Search, handles: Sequence[Any], on_trial: OnTrial | None = None) -> None:
    """Trains trials of Optuna and tells the study; those of one shape train together.

    Whatever interrupts it, Ctrl-C included, queues the running trials again.
    """
    try:
        with heartbeat(handles):
            for group in _configure(search, handles):
                start = time.perf_counter()
                with one_transaction(search.study._storage):
                    for trial in group:
                        with ignore_finished():
                            trial.handle.set_user_attr(TRAINING, True)
                _train_in_stages(search, group)
                outcomes = store_outcomes(group, (time.perf_counter() - start) / len(group))
                for trial in group:
                    if not tell_outcome(search.study, trial.number, outcomes[str(trial.number)]):
                        logger.warning(
                            "trial %d was given to another worker; its result is not used.", trial.number
                        )
                    if on_trial is not None:
                        on_trial(_trial_status(search.study, trial))
    except BaseException:
        for handle in handles:
            requeue_trial(search, handle.number, blame=False)
        raise


def _configure(search: Search, handles: Sequence[Any]) -> list[list[Trial]]:
    """Groups of trials of one shape; a trial whose configuration is not valid has failed.

    Trials during which several workers died train alone, after all others.
    """
    failed: list[Trial] = []
    valid: list[Trial] = []
    alone: list[Trial] = []
    for handle in handles:
        trial = Trial(handle.number, Configuration(), handle.params, handle=handle)
        try:
            trial.configuration = search.space.configuration(handle.params)
        except PolyNSDError as error:
            trial.fail(str(error))
        deaths = handle.user_attrs.get(DEATHS_SO_FAR, 0)
        group = alone if deaths >= DEATHS_TOGETHER else valid
        (group if trial.reason is None else failed).append(trial)
    return [[trial] for trial in failed] + group_by_shape(valid) + [[trial] for trial in alone]


def _train_in_stages(search: Search, trials: Sequence[Trial]) -> None:
    """A trial that was pruned, screened out or has failed is not in the next stage."""
    for stage, splits in enumerate(search.config.stages(len(search.problem.splits))):
        remaining = [trial for trial in trials if trial.state == "complete"]
        if stage:
            for trial in remaining:
                if fails_screening(search.study, trial.val, search.config.startup):
                    trial.state = "pruned"
            remaining = [trial for trial in remaining if trial.state == "complete"]
        if remaining:
            _train(search, remaining, splits, prune=stage == 0)


def _train(search: Search, trials: Sequence[Trial], splits: range, prune: bool) -> None:
    """Trains trials of one shape together; halves of them where that raises, until the cause is alone."""
    configurations = [trial.configuration for trial in trials]
    pruning = BatchPruning(trials, len(splits), search.config.prune_interval, search.study)
    callbacks = (pruning.on_epoch, pruning.stop) if prune else (None, None)
    reason = None
    try:
        fits = train_together(search.problem, configurations, splits, *callbacks)
    except (PolyNSDError, torch.OutOfMemoryError) as error:
        reason = str(error).splitlines()[0]
    if reason is not None:  # only here: while an error is handled, the memory of what raised it is held
        if len(trials) == 1:
            trials[0].fail(reason)
            return
        middle = len(trials) // 2
        for half in (trials[:middle], trials[middle:]):
            _train(search, half, splits, prune=False)
        return
    for index, (trial, new) in enumerate(zip(trials, fits, strict=True)):
        trial.add(new)
        diverged = [split for split, fit in zip(splits, new, strict=True) if fit.diverged]
        val = [fit.val_metric for fit in new]
        if diverged:
            trial.fail(f"the loss was not finite on splits {diverged}; a lower learning_rate may help.")
        elif not all(map(math.isfinite, val)):
            trial.fail(f"the validation metric is not finite: {val}.")
        elif index in pruning.pruned:
            trial.state = "pruned"


def _trial_status(study: Any, trial: Trial) -> TrialStatus:
    """The trial as the study has it, which another worker may have ended meanwhile."""
    trials = study.get_trials(deepcopy=False)
    stored = trials[trial.number]
    others = [other.value for other in trials if other.state.name == "COMPLETE" and other is not stored]
    is_best = stored.state.name == "COMPLETE" and stored.value > max(others, default=-math.inf)
    state = "failed" if stored.state.name == "FAIL" else stored.state.name.lower()
    return TrialStatus(trial.number, state, stored.value, dict(stored.params), is_best)
