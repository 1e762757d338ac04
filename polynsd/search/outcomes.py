"""What became of the trials of a study: their states, and outcomes stored so that no kill tears them apart.

Trials that train together end together. Their outcomes are stored in one write before the study is told of
each: whoever finds the trials of a worker that died in between tells the rest, and none is trained again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from polynsd.optional import load_optuna
from polynsd.search.storage import one_transaction
from polynsd.search.trials import Trial

SURPLUS = "surplus: other workers were quicker"
OUTCOMES = "outcomes"  # the attribute of one trial of a group that holds those of all
LISTS = ("val", "best_epoch", "epochs")  # attributes of a trial with a value per split
OPTUNA_STATES = {"complete": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL"}
FINISHED = tuple(OPTUNA_STATES)

Outcome = dict[str, Any]


def state_of(trial: Any) -> str:
    """complete, pruned, failed, running, waiting; lost with its worker, or surplus; of a trial of Optuna."""
    if trial.state.name != "FAIL":
        return str(trial.state.name.lower())
    reason = trial.user_attrs.get("reason")
    return "lost" if reason is None else ("surplus" if reason == SURPLUS else "failed")


def is_counted(trial: Any) -> bool:
    """Whether a trial is one of those ordered: neither lost with its worker nor surplus."""
    return state_of(trial) not in ("lost", "surplus")


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


def find_outcome(trials: Sequence[Any], number: int) -> Outcome | None:
    """The outcome of a trial that its worker stored, but may not have told."""
    stored = (trial.user_attrs.get(OUTCOMES, {}).get(str(number)) for trial in trials)
    return next((outcome for outcome in stored if outcome is not None), None)


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


@contextmanager
def ignore_finished() -> Iterator[list[Exception]]:
    """Ends the block quietly where another worker has finished the trial; the list then holds the error."""
    errors: list[Exception] = []
    try:
        yield errors
    except (ValueError, load_optuna().exceptions.UpdateFinishedTrialError) as error:
        errors.append(error)
