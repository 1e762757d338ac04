"""The place of a trial in its search, from which its draws follow, whatever its number.

Optuna numbers trials as they are begun, and a trial that is lost returns under a new number. Its place stays:
trial n of a search that nothing interrupts has place n, and so has the trial that stands in for a lost one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from polynsd.optional import load_optuna
from polynsd.search.outcomes import ignore_finished, is_counted, state_of

PLACE = "place"  # the attribute of a trial that stands in for a lost one


def find_places(trials: Sequence[Any]) -> list[int]:
    """The places of all trials of a study, in the order of their numbers; surplus trials use none up."""
    places, free = [], 0
    for trial in trials:
        place = trial.user_attrs.get(PLACE, free)
        places.append(place)
        free += PLACE not in trial.user_attrs and state_of(trial) != "surplus"
    return places


def next_place(trials: Sequence[Any]) -> int:
    """Of the trial of a study that is begun next: the first that waits, or a new one."""
    placed = zip(find_places(trials), trials, strict=True)
    waiting = [place for place, trial in placed if trial.state.name == "WAITING"]
    new = sum(PLACE not in trial.user_attrs and state_of(trial) != "surplus" for trial in trials)
    return min(waiting, default=new)


def holds_place(trials: Sequence[Any], number: int) -> bool:
    """Whether no trial of a lower number that counts has the place of this one."""
    places = find_places(trials)
    before = zip(places[:number], trials, strict=False)
    return not any(place == places[number] and is_counted(trial) for place, trial in before)


def ask_by_place(study: Any, trials: Sequence[Any], distributions: Mapping[str, Any]) -> Any:
    """Begins a trial of Optuna: of those that wait, the one of the first place, not of the lowest number.

    Args:
        study: Optuna's.
        trials: all that it has.
        distributions: of what is drawn.
    """
    running, waiting = (load_optuna().trial.TrialState[name] for name in ("RUNNING", "WAITING"))

    def pop() -> int | None:
        for _, trial in sorted(zip(find_places(trials), trials, strict=True), key=lambda pair: pair[0]):
            if trial.state == waiting:
                with ignore_finished():  # another worker may have been quicker
                    if study._storage.set_trial_state_values(trial._trial_id, state=running):
                        return int(trial._trial_id)
        return None

    study._pop_waiting_trial_id = pop
    return study.ask(distributions)


class InPlaceOrder:
    """A study for samplers, as it is now, in which the number of a trial is its place.

    Attributes:
        trials: in the order of their numbers in the storage.
    """

    def __init__(self, study: Any) -> None:
        self._study = study
        stored = study.get_trials(deepcopy=False)
        self.trials = [_with_number(*pair) for pair in zip(stored, find_places(stored), strict=True)]
        tried = [trial for trial in self.trials if trial.state.name != "FAIL"]
        self._in_place_order = sorted(tried, key=lambda trial: int(trial.number))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._study, name)

    def _get_trials(self, deepcopy: bool = True, states: Any = None, use_cache: bool = False) -> list[Any]:
        """As samplers of Optuna ask for them; those that failed or were lost are left out."""
        return [trial for trial in self._in_place_order if states is None or trial.state in states]


def _with_number(trial: Any, number: int) -> Any:
    renumbered = copy(trial)
    renumbered.number = number
    return renumbered
