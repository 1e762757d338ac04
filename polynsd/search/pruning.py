"""Trials that fall behind are ended early, by their mean validation over all splits.

At a look a trial reports the value it would have if it ended there: the mean over its splits of the
validation metric at the epoch selected so far. A split that stopped early keeps its value, so trials
are always compared at equal epochs and over the same splits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from polynsd.config import TrainConfig
from polynsd.errors import ConfigError
from polynsd.search.optional import optuna
from polynsd.spec import parse_spec, resolve
from polynsd.training import Epoch

WARMUP_LOOKS = 2  # nothing is pruned before


def get_pruner(name: str, startup: int, look: int) -> Any:
    """`median`, `percentile(q)` (ends the trials outside the best q percent) or `none`."""
    pruners = optuna().pruners
    options = {"n_startup_trials": startup, "n_warmup_steps": WARMUP_LOOKS * look}

    def percentile(q: float) -> Any:
        if not 0 < q < 100:
            raise ConfigError(f"percentile(q) needs 0 < q < 100; got {q}.")
        return pruners.PercentilePruner(q, **options)

    choices = {
        "median": lambda: pruners.MedianPruner(**options),
        "percentile": percentile,
        "none": pruners.NopPruner,
    }
    return resolve("pruner", parse_spec(name), choices)


@dataclass
class Curve:
    """The validation metric at the selected epoch, as training goes on."""

    config: TrainConfig
    best: list[float] = field(default_factory=list)
    best_epoch: int = 0

    def add(self, epoch: Epoch) -> None:
        """One more epoch."""
        if epoch.is_best or not self.best:
            self.best_epoch = epoch.epoch
            self.best.append(epoch.val_metric)
        else:
            self.best.append(self.best[-1])

    @property
    def ended(self) -> bool:
        """Whether training is over by the rules."""
        epochs = len(self.best)
        return epochs >= self.config.epochs or epochs - self.best_epoch >= self.config.patience

    def reaches(self, epoch: int) -> bool:
        """Whether the value at an epoch is known: it was trained so far, or will not be trained further."""
        return len(self.best) >= epoch or (self.ended and bool(self.best))

    def at(self, epoch: int) -> float:
        """The value if training had ended at the epoch."""
        return self.best[min(epoch, len(self.best)) - 1]


class TrialCurves:
    """The curves of one trial, one per split, and what was reported of them."""

    def __init__(self, trial: Any, config: TrainConfig, num_splits: int, look: int) -> None:
        self.trial = trial
        self.curves = [Curve(config) for _ in range(num_splits)]
        self._looks = [*range(look, config.epochs, look), config.epochs]

    def is_behind(self) -> bool:
        """Reports what is known by now; whether the trial should end."""
        while self._looks and all(curve.reaches(self._looks[0]) for curve in self.curves):
            epoch = self._looks.pop(0)
            self.trial.report(fmean(curve.at(epoch) for curve in self.curves), epoch)
            if not self._is_complete and self.trial.should_prune():
                return True
        return False

    @property
    def _is_complete(self) -> bool:
        """Then its final value stands for all looks to come, and there is nothing left to save."""
        return all(curve.ended for curve in self.curves)


class Watch:
    """Follows a batch as it trains, through `on_epoch` and `stop` of `fit_replicas`.

    Attributes:
        pruned: the places in the batch of the trials that fell behind.
        diverged: the places of those whose loss was not finite on some split; they end, too.
    """

    def __init__(self, trials: Sequence[Any], configs: Sequence[TrainConfig], splits: int, look: int) -> None:
        self.pruned: set[int] = set()
        self.diverged: set[int] = set()
        self._splits = splits
        self._trials = [
            TrialCurves(trial, config, splits, look) for trial, config in zip(trials, configs, strict=True)
        ]

    def on_epoch(self, replica: int, epoch: Epoch) -> None:
        """One epoch of one replica."""
        place, split = divmod(replica, self._splits)
        if not math.isfinite(epoch.train_loss):
            self.diverged.add(place)
        self._trials[place].curves[split].add(epoch)

    def stop(self, _: int = 0) -> list[int]:
        """The replicas of all trials that are to end."""
        for place, trial in enumerate(self._trials):
            if place not in self.pruned | self.diverged and _is_out(trial):
                self.pruned.add(place)
        ended = self.pruned | self.diverged
        return [place * self._splits + split for place in ended for split in range(self._splits)]


def _is_out(trial: TrialCurves) -> bool:
    """Also true if the trial was taken from us: another worker believes that we are dead."""
    try:
        return trial.is_behind()
    except optuna().exceptions.UpdateFinishedTrialError:
        return True


def fails_screening(study: Any, screened: Sequence[float], startup: int) -> bool:
    """Is the mean over the first splits below the median of the complete trials, on the same splits?"""
    complete = study.get_trials(deepcopy=False, states=(optuna().trial.TrialState.COMPLETE,))
    others = sorted(fmean(trial.user_attrs["val"][: len(screened)]) for trial in complete)
    if len(others) < startup:
        return False
    middle = len(others) // 2
    median = (others[middle] + others[-middle - 1]) / 2
    return fmean(screened) < median
