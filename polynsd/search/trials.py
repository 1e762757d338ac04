"""Trials: configurations and their validation scores, whoever proposes them.

Trials of one shape train together as replicas, and are ranked by the mean of the validation metric over the
splits. Nothing here scores the test set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from polynsd.training.configuration import Configuration, shape_key
from polynsd.training.problem import Problem
from polynsd.training.replica import FitResult, Snapshots
from polynsd.training.replicas import OnEpoch, Stop, fit_replicas


@dataclass(eq=False)
class Trial:
    """One configuration of a search, with a validation score per split that it was trained on."""

    number: int
    configuration: Configuration
    params: Mapping[str, Any] = field(default_factory=dict)
    """The options that the search varies, as its study stores them."""
    state: str = "complete"
    """complete, pruned, failed, running, waiting; lost with its worker, or surplus."""
    reason: str | None = None
    """Why it failed."""
    val: list[float] = field(default_factory=list)
    val_loss: list[float] = field(default_factory=list)
    """Empty for a trial that was read from a study, which does not store it."""
    best_epoch: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    """How many were trained."""
    handle: Any = field(default=None, repr=False)
    """The trial in Optuna's study, while it is trained."""

    @property
    def value(self) -> float:
        """Mean validation metric over the splits."""
        return fmean(self.val)

    def fail(self, reason: str) -> None:
        self.state, self.reason = "failed", reason

    def add(self, fits: Iterable[FitResult]) -> None:
        """Appends the validation scores of more splits."""
        for fit in fits:
            self.val.append(fit.val_metric)
            self.val_loss.append(fit.val_loss)
            self.best_epoch.append(fit.best_epoch)
            self.epochs.append(fit.epochs)


def rank_trials(trials: Iterable[Trial]) -> list[Trial]:
    """Best first: complete, highest validation metric, lowest validation loss; ties in order."""

    def rank(trial: Trial) -> tuple[bool, float, float]:
        loss = fmean(trial.val_loss) if trial.val_loss else 0.0
        return trial.state == "complete", trial.value, -loss

    return sorted(trials, key=rank, reverse=True)


def group_by_shape(trials: Iterable[Trial]) -> list[list[Trial]]:
    """Trials that can train as replicas of each other, in the order in which their shapes first occur."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(shape_key(trial.configuration), []).append(trial)
    return list(groups.values())


def train_together(
    problem: Problem,
    configurations: Sequence[Configuration],
    splits: Sequence[int],
    on_epoch: OnEpoch | None = None,
    stop: Stop | None = None,
    snapshots: Snapshots | None = None,
) -> list[list[FitResult]]:
    """Trains configurations of one shape on some splits in one call; the test set is not scored.

    Split i has seed `problem.seed` + i in every configuration, so that they differ by their options alone.
    With S splits, replica r (of `on_epoch` and `stop`) is split r mod S of configuration r div S.
    """
    replicas = [r for c in configurations for r in problem.replicas(c, splits, problem.seed)]
    fits = fit_replicas(
        replicas,
        problem.data,
        problem.task,
        on_epoch=on_epoch,
        stop=stop,
        snapshots=snapshots,
        score_test=False,
    )
    return [fits[start : start + len(splits)] for start in range(0, len(fits), len(splits))]
