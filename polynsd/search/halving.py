"""Successive halving over a fixed list of configurations, on one split; needs no Optuna.

Every configuration trains for a few epochs, the best of them for more, the best of those to the end. A rung
starts from fresh weights, so a configuration's result does not depend on what else was tried. Configurations
are compared as `rank_trials` does, at the epoch that their training rules select.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from polynsd.errors import DataError
from polynsd.search.trials import Trial, group_by_shape, rank_trials, train_together
from polynsd.training.configuration import Configuration
from polynsd.training.problem import Problem
from polynsd.training.replica import NOT_FINITE, Epoch

RUNGS = ((30, None), (100, 3), (None, 1))  # (epochs at most, configurations at most)
SHARES = (0.35, 0.6, 1.0)  # of a budget in seconds that has passed when a rung ends

OnTrialEpoch = Callable[[Trial, Epoch], None]


def successive_halving(
    problem: Problem,
    configurations: Sequence[Configuration],
    seconds: float | None = None,
    on_epoch: OnTrialEpoch | None = None,
) -> list[Trial]:
    """Trains the configurations on the problem's first split; all trials, the best first.

    Args:
        problem: its test set is not scored.
        configurations: what is tried.
        seconds: when to end at the latest; every batch trains at least one epoch. None: epochs alone decide.
        on_epoch: called with the trial and its epoch.

    Raises:
        DataError: the loss of the best trial is not finite.
    """
    start = time.monotonic()
    trials = [Trial(number, configuration) for number, configuration in enumerate(configurations)]
    remaining = trials
    for rung, (epochs, count) in enumerate(RUNGS):
        if epochs is not None and len(trials) == 1:
            continue
        remaining = remaining[:count]
        deadline = None if seconds is None else start + SHARES[rung] * seconds
        groups = group_by_shape(remaining)
        for number, group in enumerate(groups):
            _train(problem, group, rung, epochs, _share(deadline, len(groups) - number), on_epoch)
        remaining = rank_trials(remaining)
    ranked = rank_trials(trials)
    if ranked[0].state != "complete":
        raise DataError(NOT_FINITE)
    return ranked


def most_epochs(configurations: Sequence[Configuration]) -> int:
    """How many epochs all replicas train together, if none stops early."""
    longest, total = max(configuration.training.epochs for configuration in configurations), 0
    for epochs, count in RUNGS:
        if epochs is None or len(configurations) > 1:
            total += len(configurations[:count]) * min(longest, epochs or longest)
    return total


def _share(deadline: float | None, parts: int) -> float | None:
    """The deadline of the first of `parts` that divide the time left."""
    now = time.monotonic()
    return None if deadline is None else now + max(deadline - now, 0.0) / parts


def _train(
    problem: Problem,
    trials: Sequence[Trial],
    rung: int,
    epochs: int | None,
    deadline: float | None,
    on_epoch: OnTrialEpoch | None,
) -> None:
    """Trains trials of one shape anew and replaces their scores by those of this rung."""

    def stop(_: int) -> Collection[int]:
        return range(len(trials)) if deadline is not None and time.monotonic() >= deadline else ()

    def report(number: int, epoch: Epoch) -> None:
        if on_epoch is not None:
            on_epoch(trials[number], epoch)

    configurations = [_shorten(trial.configuration, epochs) for trial in trials]
    for trial, fits in zip(
        trials, train_together(problem, configurations, range(1), report, stop), strict=True
    ):
        trial.val, trial.val_loss, trial.best_epoch, trial.epochs = [], [], [], []
        trial.add(fits)
        trial.rung, trial.models = rung, [fit.model for fit in fits]
        trial.state = "failed" if any(fit.diverged for fit in fits) else "complete"


def _shorten(configuration: Configuration, epochs: int | None) -> Configuration:
    if epochs is None:
        return configuration
    epochs = min(epochs, configuration.training.epochs)
    return configuration._replace(training=replace(configuration.training, epochs=epochs, patience=epochs))
