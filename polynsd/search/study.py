"""A study: trials proposed by Optuna, stored where any number of workers can reach them.

    search = open_study("sqlite:///study.db", "mine", get_space("default"), problem, SearchConfig(trials=50))
    work(search)
    result = conclude(Path("runs/mine"), search)

The storage holds parameters, states and validation scores, never a test score. `conclude` (`final.py`) is the
first to score the test set.

Every trial has a place, from which its draws follow. Optuna numbers trials as they are begun, and a trial
that is lost returns under a new number. Its place stays: trial n of a search that nothing interrupts has
place n, and so has the trial that stands in for a lost one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polynsd.errors import ConfigError
from polynsd.optional import load_optuna
from polynsd.runs.table import write_rows
from polynsd.search.config import SearchConfig
from polynsd.search.pruning import get_pruner
from polynsd.search.space import Space
from polynsd.search.storage import hide_password, open_storage, tell_damage
from polynsd.search.trials import Trial, rank_trials
from polynsd.training.problem import Problem

START = "start"  # the attribute of a trial that says which start it belongs to
PLACE = "place"  # that of a trial that stands in for a lost one
LISTS = ("val", "best_epoch", "epochs")  # those with a value per split
SURPLUS = "surplus: other workers were quicker"  # the reason of a trial that is one too many
FINISHED = ("complete", "pruned", "failed")
COLUMNS = (
    *("trial", "place", "state", "value", "best_so_far", "seconds"),
    *LISTS,
    "reason",
)
OPTION_OF = {"look": "prune_interval"}  # a stored name that differs from its option


@dataclass(frozen=True)
class Search:
    """An open study, with all that a worker needs to train its trials."""

    study: Any
    """Optuna's."""
    space: Space
    problem: Problem
    config: SearchConfig


def open_study(url: str, name: str, space: Space, problem: Problem, config: SearchConfig) -> Search:
    """Begins a study, or resumes the one of this name.

    Raises:
        ConfigError: the stored study has another space, graph, split, metric, seed or screening.
        DataError: the storage is damaged.
    """
    from polynsd.search.sampler import BatchSampler

    config.stages(len(problem.splits))
    startup = max(config.startup, config.batch)
    identity = {
        "space": space.to_dict(),
        **problem.identity(),
        "screen": config.screen,
        "look": config.prune_interval,
    }
    with tell_damage(url):
        study = load_optuna().create_study(
            storage=open_storage(url),
            study_name=name,
            direction="maximize",
            sampler=BatchSampler(space, config.sampler, config.batch, startup, config.seed),
            pruner=get_pruner(config.pruner, startup, config.prune_interval),
            load_if_exists=True,
        )
        _require_same(study, json.loads(json.dumps(identity)), url)
        for trial in study.get_trials(deepcopy=False):
            _check_trial(trial, space)
    return Search(study, space, problem, config)


def _check_trial(trial: Any, space: Space) -> None:
    """Raises unless a stored trial holds what the search relies on."""
    if trial.state.name == "COMPLETE":
        space.configuration(trial.params)
        lists = [trial.user_attrs[name] for name in LISTS]
        if not all(math.isfinite(value) for values in lists for value in values) or not all(map(len, lists)):
            raise ValueError(f"trial {trial.number} has no validation scores")
    place, start = (trial.user_attrs.get(name, 0) for name in (PLACE, START))
    if not isinstance(place, int) or not isinstance(start, int) or not 0 <= place <= trial.number:
        raise ValueError(f"trial {trial.number} has the place {place!r}")


def _require_same(study: Any, identity: dict[str, Any], url: str) -> None:
    stored = study.user_attrs.get("question")  # the name in studies since the first version
    if stored is None:
        study.set_user_attr("question", identity)
        return
    differing = [key for key in {**stored, **identity} if stored.get(key) != identity.get(key)]
    if differing:
        raise ConfigError(
            f"the study '{study.study_name}' in {hide_password(url)} was begun with other values of: "
            f"{', '.join(OPTION_OF.get(key, key) for key in differing)}. Give these as before, or begin "
            "another study (--study NAME, or another --storage)."
        )


def begin_with(
    search: Search, starts: Sequence[Mapping[str, Any]], each: int = 4, share: float = 0.25
) -> None:
    """Gives the first trials of a new study to these starts, `each` trials to every one of them.

    What a start does not name is drawn: its shape once for all its trials, free options for each. A start
    that names everything is tried once as it is, and then in its shape alone.

    Args:
        search: from `open_study`.
        starts: values of options by their dotted names, the best known first.
        each: trials of one start; they train together, whatever the size of a batch.
        share: of the study's trials that all starts may take together; those that do not fit are left out.
    """
    first = [trial for trial in search.study.get_trials(deepcopy=False) if PLACE not in trial.user_attrs]
    if any(START not in trial.user_attrs for trial in first):
        return
    varying = set(search.space.distributions())
    turns = [(number, turn) for number in range(len(starts)) for turn in range(each)]
    # those of a worker that died here are there already
    for number, turn in turns[len(first) : int(share * search.config.trials)]:
        values = search.space.stored(starts[number])
        if turn and set(values) == varying:
            values = search.space.shape(values)
        search.study.enqueue_trial(values, user_attrs={START: number})


def state_of(trial: Any) -> str:
    """complete, pruned, failed, running, waiting; lost with its worker, or surplus; of a trial of Optuna."""
    if trial.state.name != "FAIL":
        return str(trial.state.name.lower())
    reason = trial.user_attrs.get("reason")
    return "lost" if reason is None else ("surplus" if reason == SURPLUS else "failed")


def is_counted(trial: Any) -> bool:
    """Whether a trial is one of those ordered: neither lost with its worker nor surplus."""
    return state_of(trial) not in ("lost", "surplus")


def find_places(trials: Sequence[Any]) -> list[int]:
    """The places of all trials of a study, in the order of their numbers; surplus trials use none up."""
    places, free = [], 0
    for trial in trials:
        place = trial.user_attrs.get(PLACE, free)
        places.append(place)
        free += PLACE not in trial.user_attrs and state_of(trial) != "surplus"
    return places


def count_finished(study: Any) -> int:
    """How many trials have ended and count: lost and surplus ones do not."""
    trials = study.get_trials(deepcopy=False)
    return sum(state_of(trial) in FINISHED for trial in trials)


def seconds_spent(study: Any) -> float:
    """Seconds that the trials of a study have taken, whoever trained them and whenever."""
    return sum(trial.user_attrs.get("seconds", 0.0) for trial in study.get_trials(deepcopy=False))


def best_trials(search: Search) -> list[Trial]:
    """The complete trials, best mean validation first; ties in the order of their places.

    Raises:
        ConfigError: no trial is complete; the message has the reasons of those that failed.
    """
    stored = search.study.get_trials(deepcopy=False)
    complete = [
        Trial(
            trial.number,
            search.space.configuration(trial.params),
            dict(trial.params),
            val=trial.user_attrs["val"],
            best_epoch=trial.user_attrs["best_epoch"],
            epochs=trial.user_attrs["epochs"],
        )
        for _, trial in sorted(zip(find_places(stored), stored, strict=True), key=lambda pair: pair[0])
        if trial.state.name == "COMPLETE"
    ]
    if not complete:
        reasons = {trial.user_attrs.get("reason") for trial in stored} - {None}
        because = f" Reasons: {'; '.join(sorted(reasons))}" if reasons else ""
        raise ConfigError(f"no trial is complete, so there is nothing to choose.{because}")
    return rank_trials(complete)


def trial_rows(study: Any) -> list[dict[str, Any]]:
    """One row per trial, in the order of their numbers; lists are written as JSON.

    `best_so_far` is the best value of all complete trials up to that row.
    """
    rows, best, trials = [], None, study.get_trials(deepcopy=False)
    for place, trial in zip(find_places(trials), trials, strict=True):
        if trial.state.name == "COMPLETE":
            best = trial.value if best is None else max(best, trial.value)
        lists = {name: trial.user_attrs.get(name) for name in LISTS}
        rows.append(
            {
                "trial": trial.number,
                "place": place,
                "state": state_of(trial),
                "value": trial.value,
                "seconds": trial.user_attrs.get("seconds"),
                "reason": trial.user_attrs.get("reason"),
                **{name: None if values is None else json.dumps(values) for name, values in lists.items()},
                "best_so_far": best,
                **trial.params,
            }
        )
    return rows


def write_trials(path: Path, study: Any) -> Path:
    """Writes the rows as CSV, all or nothing."""
    rows = trial_rows(study)
    params = sorted({name for row in rows for name in row} - set(COLUMNS))
    return write_rows(path, [{name: row.get(name) for name in (*COLUMNS, *params)} for row in rows])
