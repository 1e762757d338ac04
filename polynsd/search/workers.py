"""Workers that share a study: who is alive, and what becomes of the trials of those who are not.

A worker signs its trials and lets them beat while they train. A trial whose beat stands still for
GRACE seconds, on the watch of who looks, is lost; on the same machine a dead process is seen at once.
A lost trial is marked as failed and its parameters are queued again, a few times at most.
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

from polynsd.search.optional import optuna

BEAT_SECONDS = 20.0
GRACE = 120.0
ATTEMPTS = 3  # at one set of parameters: it may be what kills its workers


@cache
def place() -> str:
    """Where a process number means this process: the machine since its start, and the container in it.

    Containers may share the name of the host and have processes of equal numbers.
    """
    parts = [platform.node()]
    with suppress(OSError):  # Linux has both, others neither
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return "/".join(parts)


def sign(trial: Any) -> None:
    """Notes whose trial it is."""
    trial.set_user_attr("worker", f"{place()}:{os.getpid()}")


@contextmanager
def beating(trials: Sequence[Any], seconds: float = BEAT_SECONDS) -> Iterator[None]:
    """Lets trials beat for as long as the block runs."""
    over = Event()

    def beat() -> None:
        count = 0
        while not over.wait(seconds):
            count += 1
            for trial in trials:
                with unless_taken():
                    trial.set_user_attr("beat", count)

    thread = Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Watchman:
    """Finds the trials whose workers are gone."""

    def __init__(self, study: Any, grace: float = GRACE) -> None:
        self._study, self._grace = study, grace
        self._seen: dict[int, tuple[object, float]] = {}

    def recover(self) -> list[int]:
        """Fails and queues again what is lost; the numbers of those trials."""
        running = self._study.get_trials(deepcopy=False, states=(optuna().trial.TrialState.RUNNING,))
        lost = [trial.number for trial in running if self._is_lost(trial)]
        return [number for number in lost if release(self._study, number)]

    def _is_lost(self, trial: Any) -> bool:
        worker, beat = trial.user_attrs.get("worker"), trial.user_attrs.get("beat")
        if worker is not None and _died_here(worker):
            return True
        last, since = self._seen.get(trial.number, (None, 0.0))
        if trial.number not in self._seen or last != beat:
            since = time.monotonic()
            self._seen[trial.number] = (beat, since)
        return time.monotonic() - since > self._grace


def release(study: Any, number: int) -> bool:
    """Marks a trial of a gone worker as lost and queues its parameters; False if it ended meanwhile."""
    trial = study.trials[number]
    attempt = trial.user_attrs.get("attempt", 1)
    with unless_taken() as taken:
        study.tell(number, state=optuna().trial.TrialState.FAIL)  # without a reason of its own: lost
        if trial.params and attempt < ATTEMPTS:
            study.enqueue_trial(trial.params, user_attrs={"retry_of": number, "attempt": attempt + 1})
    return not taken


@contextmanager
def unless_taken() -> Iterator[list[Exception]]:
    """Lets the block fail where another worker has ended the trial."""
    taken: list[Exception] = []
    try:
        yield taken
    except (ValueError, optuna().exceptions.UpdateFinishedTrialError) as error:
        taken.append(error)


def _died_here(worker: str) -> bool:
    """Whether the worker was a process of this machine, or container, that is no more."""
    where, _, pid = worker.rpartition(":")
    if where != place() or os.name != "posix":
        return False
    try:
        os.kill(int(pid), 0)  # asks only
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
