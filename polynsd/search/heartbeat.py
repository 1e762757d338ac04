"""Workers that share a study: heartbeats of running trials, and what becomes of lost ones.

Each worker writes a heartbeat for its running trials every 20 s. A trial whose heartbeat has not changed for
120 s, by the clock of the worker that checks, is lost; so is at once a trial whose process on this machine is
dead. A lost trial is marked as failed and its parameters are queued again, three times at most.
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
from polynsd.search.study import START

HEARTBEAT_SECONDS = 20.0
TIMEOUT_SECONDS = 120.0
MAX_ATTEMPTS = 3  # with one set of parameters: it may be what kills its workers


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


def claim_trial(trial: Any) -> None:
    """Stores which process trains a trial."""
    trial.set_user_attr("worker", f"{machine_id()}:{os.getpid()}")


@contextmanager
def heartbeat(trials: Sequence[Any], seconds: float = HEARTBEAT_SECONDS) -> Iterator[None]:
    """Writes heartbeats for trials as long as the block runs."""
    done = Event()

    def write() -> None:
        count = 0
        while not done.wait(seconds):
            count += 1
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


class LostTrials:
    """Finds running trials whose workers are gone.

    Args:
        study: of Optuna.
        timeout: seconds without a new heartbeat after which a trial is lost.
    """

    def __init__(self, study: Any, timeout: float = TIMEOUT_SECONDS) -> None:
        self._study, self._timeout = study, timeout
        self._seen: dict[int, tuple[object, float]] = {}  # the last heartbeat, and when it was first seen

    def requeue(self) -> list[int]:
        """Fails lost trials and queues their parameters again; returns their numbers."""
        running = self._study.get_trials(deepcopy=False, states=(load_optuna().trial.TrialState.RUNNING,))
        lost = [trial.number for trial in running if self._is_lost(trial)]
        return [number for number in lost if requeue_trial(self._study, number)]

    def _is_lost(self, trial: Any) -> bool:
        worker, count = trial.user_attrs.get("worker"), trial.user_attrs.get("heartbeat")
        if worker is not None and _is_dead_here(worker):
            return True
        if trial.number not in self._seen or self._seen[trial.number][0] != count:
            self._seen[trial.number] = (count, time.monotonic())
        return time.monotonic() - self._seen[trial.number][1] > self._timeout


def requeue_trial(study: Any, number: int) -> bool:
    """Marks a trial as lost and queues its parameters; False if it ended meanwhile."""
    trial = study.trials[number]
    attempt = trial.user_attrs.get("attempt", 1)
    with ignore_finished() as errors:
        study.tell(number, state=load_optuna().trial.TrialState.FAIL)  # failed without a reason means lost
        if trial.params and attempt < MAX_ATTEMPTS:
            start = {name: value for name, value in trial.user_attrs.items() if name == START}
            attributes = {**start, "retry_of": number, "attempt": attempt + 1}
            study.enqueue_trial(trial.params, user_attrs=attributes)
    return not errors


@contextmanager
def ignore_finished() -> Iterator[list[Exception]]:
    """Ends the block quietly where another worker has finished the trial; the list then holds the error."""
    errors: list[Exception] = []
    try:
        yield errors
    except (ValueError, load_optuna().exceptions.UpdateFinishedTrialError) as error:
        errors.append(error)


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
