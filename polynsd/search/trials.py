"""Trials: configurations and their validation scores, whoever proposes them.

Trials of one shape train together as replicas, and are ranked by the mean of the validation metric over the
splits. Nothing here scores the test set. Filters of different degrees K have one shape: shorter ones are
padded with coefficients that have no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from torch import nn

from polynsd.spectral.filter import PolynomialFilter
from polynsd.training.configuration import FREE, Configuration, shape_key
from polynsd.training.problem import Problem
from polynsd.training.replica import FitResult, Replica, Snapshots
from polynsd.training.replicas import OnEpoch, Stop, fit_replicas

DEGREE = "model.layer.degree"
FREE_IN_TRIALS = FREE | {DEGREE}  # what trials of one shape may differ in


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
        groups.setdefault(_shape_of(trial.configuration), []).append(trial)
    return list(groups.values())


def _shape_of(configuration: Configuration) -> str:
    """As `shape_key`, but equal for any K, unless every K has coefficients of its own kind."""
    model = configuration.model
    if model.layer.coefficients == "interpolation":
        return shape_key(configuration)
    return shape_key(configuration._replace(model=replace(model, layer=replace(model.layer, degree=0))))


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
    groups = [problem.replicas(c, splits, problem.seed) for c in configurations]
    degrees = {configuration.model.layer.degree for configuration in configurations}
    if len(degrees) > 1:
        pairs = zip(configurations, groups, strict=True)
        groups = [_with_room(group, max(degrees), _shape_of(configuration)) for configuration, group in pairs]
    replicas = [replica for group in groups for replica in group]
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


def _with_room(replicas: Sequence[Replica], degree: int, start: str) -> list[Replica]:
    """The replicas of one configuration, with filters that have room for this degree."""

    def build() -> nn.Module:
        model = replicas[0].build()
        for module in model.modules():
            if isinstance(module, PolynomialFilter):
                module.pad(degree)
        return model

    return [replace(replica, build=build, start=start) for replica in replicas]
