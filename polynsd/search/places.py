"""The place of a trial in its search, from which its draws follow, whatever its number.

Optuna numbers trials as they are begun, and a trial that is lost returns under a new number. Its place stays:
trial n of a search that nothing interrupts has place n, and so has the trial that stands in for a lost one.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

from polynsd.optional import load_optuna
from polynsd.search.outcomes import ignore_finished, state_of

PLACE = "place"  # the attribute of a trial that stands in for a lost one


def find_places(trials: Sequence[Any]) -> list[int]:
    """The places of all trials of a study, in the order of their numbers; surplus trials use none up."""
    places, free = [], 0
    for trial in trials:
        place = trial.user_attrs.get(PLACE, free)
        places.append(place)
        free += PLACE not in trial.user_attrs and state_of(trial) != "surplus"
    return places


def next_place(study: Any) -> int:
    """Of the trial that is begun next: the first that waits, or a new one."""
    trials = study.get_trials(deepcopy=False)
    placed = zip(find_places(trials), trials, strict=True)
    waiting = [place for place, trial in placed if trial.state.name == "WAITING"]
    new = sum(PLACE not in trial.user_attrs and state_of(trial) != "surplus" for trial in trials)
    return min(waiting, default=new)


def holds_place(trials: Sequence[Any], number: int) -> bool:
    """Whether no trial of a lower number that counts has the place of this one."""
    places = find_places(trials)
    rivals = zip(places[:number], trials, strict=False)
    return not any(
        place == places[number] and state_of(trial) not in ("lost", "surplus") for place, trial in rivals
    )


def queue_by_place(study: Any) -> None:
    """Makes a study of Optuna begin its queued trials in the order of their places, not of their numbers."""
    running, waiting = (load_optuna().trial.TrialState[name] for name in ("RUNNING", "WAITING"))

    def pop() -> int | None:
        trials = study.get_trials(deepcopy=False)
        for _, trial in sorted(zip(find_places(trials), trials, strict=True), key=lambda pair: pair[0]):
            if trial.state == waiting:
                with ignore_finished():  # another worker may have been quicker
                    if study._storage.set_trial_state_values(trial._trial_id, state=running):
                        return int(trial._trial_id)
        return None

    study._pop_waiting_trial_id = pop


class InPlaceOrder:
    """A study for samplers, in which the number of a trial is its place."""

    def __init__(self, study: Any) -> None:
        self._study = study

    def __getattr__(self, name: str) -> Any:
        return getattr(self._study, name)

    def renumber(self, trial: Any) -> Any:
        """A copy of the trial whose number is its place."""
        return _with_number(trial, find_places(self._study.get_trials(deepcopy=False))[trial.number])

    def _get_trials(self, deepcopy: bool = True, states: Any = None, use_cache: bool = False) -> list[Any]:
        """As samplers of Optuna ask for them; those that failed or were lost are left out."""
        trials = self._study._get_trials(deepcopy=False, use_cache=use_cache)
        placed = [
            _with_number(trial, place)
            for place, trial in zip(find_places(trials), trials, strict=True)
            if trial.state.name != "FAIL" and (states is None or trial.state in states)
        ]
        return sorted(placed, key=lambda trial: int(trial.number))


def _with_number(trial: Any, number: int) -> Any:
    renumbered = copy(trial)
    renumbered.number = number
    return renumbered
