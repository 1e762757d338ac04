"""The same experiment, asked otherwise: in a hurry, or with another budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from polynsd.errors import ConfigError, require_at_least
from polynsd.search.space import Space
from polynsd.training.configuration import Configuration
from polynsd_paper.experiment import Budget, Cell, Experiment

FAST_EPOCHS = 30
FAST = Budget(trials=2, seconds=20.0, splits=1, batch=2)


def fast(experiment: Experiment) -> Experiment:
    """A few epochs and trials, one seed, files of its own: a look at times and shapes, not at results."""

    def configure(dataset: str, **axes: Any) -> Cell | None:
        cell = experiment.configure(dataset, **axes)
        return None if cell is None else replace(cell, plan=_shortened(cell.plan))

    return replace(
        experiment,
        name=f"{experiment.name}-fast",
        configure=configure,
        seeds=1,
        budgets=dict.fromkeys(experiment.datasets, FAST),
    )


def with_budget(experiment: Experiment, trials: int | None, seconds: float | None) -> Experiment:
    """Searches may spend so much on every cell; what is None stays as it is."""
    changes: dict[str, Any] = {}
    if trials is not None:
        require_at_least("trials", trials, 1)
        changes["trials"] = trials
    if seconds is not None:
        if not seconds > 0:
            raise ConfigError(f"seconds must be greater than 0; got {seconds!r}.")
        changes["seconds"] = seconds
    budgets = {name: replace(experiment.budget(name), **changes) for name in experiment.datasets}
    return replace(experiment, budgets=budgets)


def _shortened(plan: Configuration | Space) -> Configuration | Space:
    if isinstance(plan, Space):
        short = {"training.epochs": FAST_EPOCHS, "training.patience": FAST_EPOCHS}
        return Space.from_dict({**plan.to_dict(), **short})
    epochs = min(FAST_EPOCHS, plan.training.epochs)
    return Configuration(plan.model, replace(plan.training, epochs=epochs, patience=epochs))
