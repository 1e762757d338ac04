"""Workers that share a study: heartbeats of running trials, their outcomes, and what becomes of lost ones.

Each worker writes a heartbeat for its running trials every 20 s. A trial whose heartbeat has not changed for
120 s, by the clock of the worker that checks, is lost; so is at once a trial whose process on this machine is
dead. A lost trial is marked as such, and one with its parameters and its place is queued. A trial that was
training when its worker died may be the cause: after three deaths it trains alone, after three more it has
failed.

Trials that train together end together. Their outcomes are stored in one write before the study is told of
each: whoever finds the trials of a worker that died in between tells the rest, and none is trained again.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Event, Thread
from typing import Any

from polynsd.optional import load_optuna
from polynsd.search.storage import one_transaction
from polynsd.search.study import LISTS, PLACE, START, Search, find_places
from polynsd.search.trials import Trial

HEARTBEAT_SECONDS = 20.0
TIMEOUT_SECONDS = 120.0
CLAIM_SECONDS = 10.0  # a worker names itself as it begins a trial; if it died before, nobody ever will
DEATHS_TOGETHER, DEATHS = 3, 6  # of workers, while they trained a trial in company, and at all
TRAINING, DEATHS_SO_FAR = "training", "deaths"  # attributes of trials
OUTCOMES = "outcomes"  # the attribute of one trial of a group that holds those of all
OPTUNA_STATES = {"complete": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL"}

Outcome = dict[str, Any]


@cache
def machine_id() -> str:
    """Host name, boot and container: where a process number identifies a process.

    Containers may share the name of the host and have processes of equal numbers.
    """
    parts = [platform.node()]
    with suppress(OSError):  # Linux has both, others neither
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return "/".join(parts)


def claim_trial(study: Any, trial: Any) -> None:
    """Stores which process trains a trial."""
    study._storage.set_trial_user_attr(trial._trial_id, "worker", f"{machine_id()}:{os.getpid()}")


@contextmanager
def heartbeat(trials: Sequence[Any], seconds: float = HEARTBEAT_SECONDS) -> Iterator[None]:
    """Writes heartbeats for trials as long as the block runs."""
    done = Event()

    def write() -> None:
        count = 0
        while not done.wait(seconds):
            count += 1
            with one_transaction(trials[0].storage):
                for trial in trials:
                    with ignore_finished():
                        trial.set_user_attr("heartbeat", count)

    thread = Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def ignore_finished() -> Iterator[list[Exception]]:
    """Ends the block quietly where another worker has finished the trial; the list then holds the error."""
    errors: list[Exception] = []
    try:
        yield errors
    except (ValueError, load_optuna().exceptions.UpdateFinishedTrialError) as error:
        errors.append(error)


def store_outcomes(trials: Sequence[Trial], seconds: float) -> dict[str, Outcome]:
    """The outcomes of trials that were trained together, by number; stored all or none. Validation only."""
    outcomes = {
        str(trial.number): {
            "state": trial.state,
            "value": trial.value if trial.state == "complete" else None,
            "attributes": {
                "seconds": round(seconds, 3),
                **({} if trial.reason is None else {"reason": trial.reason}),
                **({name: getattr(trial, name) for name in LISTS} if trial.val else {}),
            },
        }
        for trial in trials
    }
    for trial in trials:
        with ignore_finished() as errors:  # what another worker has ended cannot hold them
            trial.handle.set_user_attr(OUTCOMES, outcomes)
        if not errors:
            break
    return outcomes


def tell_outcome(study: Any, number: int, outcome: Outcome) -> bool:
    """Ends a trial; False if another worker has ended it meanwhile."""
    storage = study._storage
    identifier = storage.get_trial_id_from_study_id_trial_number(study._study_id, number)
    with ignore_finished() as errors, one_transaction(storage):
        for name, value in outcome["attributes"].items():
            storage.set_trial_user_attr(identifier, name, value)
        state = load_optuna().trial.TrialState[OPTUNA_STATES[outcome["state"]]]
        study.tell(number, outcome["value"], state=state)
    return not errors


class LostTrials:
    """Finds running trials whose workers are gone.

    Args:
        search: from `open_study`.
        timeout: seconds without a new heartbeat after which a trial is lost.
    """

    def __init__(self, search: Search, timeout: float = TIMEOUT_SECONDS) -> None:
        self._search, self._timeout = search, timeout
        self._seen: dict[int, tuple[object, float]] = {}  # the last heartbeat, and when it was first seen

    def requeue(self) -> list[int]:
        """Ends lost trials and queues others in their places; returns their numbers."""
        lost = [trial.number for trial in self._running() if self._is_lost(trial)]
        return [number for number in lost if requeue_trial(self._search, number)]

    def has_unclaimed(self) -> bool:
        """Whether a trial has begun that no worker has named itself for: it will in a moment, or it died."""
        return any("worker" not in trial.user_attrs for trial in self._running())

    def _running(self) -> Sequence[Any]:
        states = (load_optuna().trial.TrialState.RUNNING,)
        return self._search.study.get_trials(deepcopy=False, states=states)

    def _is_lost(self, trial: Any) -> bool:
        worker, count = trial.user_attrs.get("worker"), trial.user_attrs.get("heartbeat")
        if worker is not None and _is_dead_here(worker):
            return True
        if trial.number not in self._seen or self._seen[trial.number][0] != count:
            self._seen[trial.number] = (count, time.monotonic())
        timeout = self._timeout if worker is not None else min(self._timeout, CLAIM_SECONDS)
        return time.monotonic() - self._seen[trial.number][1] > timeout


def requeue_trial(search: Search, number: int, blame: bool = True) -> bool:
    """Ends a trial whose worker gave it up, and queues one in its place; False if it has ended meanwhile.

    Args:
        search: from `open_study`.
        number: of the trial.
        blame: whether the trial may be what ended its worker.
    """
    study, trials = search.study, search.study.get_trials(deepcopy=False)
    trial = trials[number]
    if trial.state.name != "RUNNING":
        return False
    for other in trials:  # its worker may have stored the outcome, and died before it was told
        if str(number) in other.user_attrs.get(OUTCOMES, {}):
            return tell_outcome(study, number, other.user_attrs[OUTCOMES][str(number)])
    attributes = trial.user_attrs
    deaths = attributes.get(DEATHS_SO_FAR, 0) + (blame and TRAINING in attributes)
    if deaths >= DEATHS:
        reason = f"{deaths} workers died while they trained it; it may need more memory than there is."
        failed = {"state": "failed", "value": None, "attributes": {"reason": reason}}
        return tell_outcome(study, number, failed)
    kept = {name: value for name, value in attributes.items() if name == START}
    kept |= {PLACE: find_places(trials)[number], "retry_of": number, DEATHS_SO_FAR: deaths}
    params = trial.params
    if set(params) != set(search.space.distributions()):  # its worker died while it asked
        params = trial.system_attrs.get("fixed_params", {})  # the rest is drawn again, from the same seed
    study.enqueue_trial(params, user_attrs=kept)  # first: of two in one place, one is surplus
    with ignore_finished() as errors:
        study.tell(number, state=load_optuna().trial.TrialState.FAIL)  # failed without a reason means lost
    return not errors


def _is_dead_here(worker: str) -> bool:
    """Whether the worker was a process of this machine, or container, that has ended."""
    machine, _, pid = worker.rpartition(":")
    if machine != machine_id() or os.name != "posix":
        return False
    try:
        os.kill(int(pid), 0)  # signal 0 only checks
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
