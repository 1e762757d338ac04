"""Pruning: trials that fall behind are ended early, by their mean validation over all splits.

Every few epochs a trial reports the value it would have if it ended there: the mean over its splits of the
validation metric at the epoch selected so far. A split that stopped early keeps its value, so trials are
always compared at equal epochs and over the same splits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from polynsd.config import TrainConfig
from polynsd.errors import ConfigError
from polynsd.optional import load_optuna
from polynsd.search.storage import one_transaction
from polynsd.search.trials import Trial
from polynsd.spec import parse_spec, resolve
from polynsd.training.replica import Epoch

WARMUP_REPORTS = 2  # nothing is pruned before


def get_pruner(name: str, startup: int, interval: int) -> Any:
    """`median`, `percentile(q)` (ends the trials outside the best q percent) or `none`."""
    pruners = load_optuna().pruners
    options = {"n_startup_trials": startup, "n_warmup_steps": WARMUP_REPORTS * interval}

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
class ValidationCurve:
    """The validation metric of one split at the epoch selected so far, epoch by epoch."""

    config: TrainConfig
    best: list[float] = field(default_factory=list)
    best_epoch: int = 0

    def add(self, epoch: Epoch) -> None:
        if epoch.is_best or not self.best:
            self.best_epoch = epoch.epoch
            self.best.append(epoch.val_metric)
        else:
            self.best.append(self.best[-1])

    @property
    def has_ended(self) -> bool:
        """Whether training is over by its rules."""
        epochs = len(self.best)
        return epochs >= self.config.epochs or epochs - self.best_epoch >= self.config.patience

    def has_value_at(self, epoch: int) -> bool:
        """Whether it was trained so far, or will not be trained further."""
        return len(self.best) >= epoch or (self.has_ended and bool(self.best))

    def value_at(self, epoch: int) -> float:
        """The value if training had ended at the epoch."""
        return self.best[min(epoch, len(self.best)) - 1]


class BatchPruning:
    """Stops trials of a batch while it trains, through `on_epoch` and `stop` of `fit_replicas`.

    Args:
        trials: with the trials of Optuna as their `handle`.
        splits: how many each is trained on.
        interval: epochs between two reports.
        study: of the trials. What they report at one moment is stored in one go, and its complete trials are
            read once for all of them.

    Attributes:
        pruned: positions in the batch of the trials that fell behind.
        diverged: positions of those whose loss was not finite on some split; they end, too.
    """

    def __init__(self, trials: Sequence[Trial], splits: int, interval: int, study: Any = None) -> None:
        self.pruned: set[int] = set()
        self.diverged: set[int] = set()
        self._splits, self._handles, self._study = splits, [trial.handle for trial in trials], study
        rules = [trial.configuration.training for trial in trials]
        self._curves = [[ValidationCurve(config) for _ in range(splits)] for config in rules]
        self._due = [[*range(interval, config.epochs, interval), config.epochs] for config in rules]

    def on_epoch(self, replica: int, epoch: Epoch) -> None:
        index, split = divmod(replica, self._splits)
        if not math.isfinite(epoch.train_loss):
            self.diverged.add(index)
        self._curves[index][split].add(epoch)

    def stop(self, _: int = 0) -> list[int]:
        """The replicas of all trials that are to end."""
        going = [index for index in range(len(self._handles)) if index not in self.pruned | self.diverged]
        due = [index for index in going if self._is_due(index)]
        if due:
            with _read_once(self._study):
                self.pruned.update([index for index in due if self._is_behind(index)])
        ended = self.pruned | self.diverged
        return [index * self._splits + split for index in ended for split in range(self._splits)]

    def _is_due(self, index: int) -> bool:
        """Whether the next value to report is known."""
        due = self._due[index]
        return bool(due) and all(curve.has_value_at(due[0]) for curve in self._curves[index])

    def _is_behind(self, index: int) -> bool:
        """Reports the values that are known by now; whether the trial should end.

        A trial that another worker has finished, because it took this worker for dead, ends as well.
        """
        handle, curves, due = self._handles[index], self._curves[index], self._due[index]
        try:
            while self._is_due(index):
                epoch = due.pop(0)
                handle.report(fmean(curve.value_at(epoch) for curve in curves), epoch)
                # of a trial that has ended on all splits there is nothing left to save
                if not all(curve.has_ended for curve in curves) and handle.should_prune():
                    return True
        except load_optuna().exceptions.UpdateFinishedTrialError:
            return True
        return False


@contextmanager
def _read_once(study: Any) -> Iterator[None]:
    """Within the block complete trials are those of its beginning; what it reports is stored in one go.

    A pruner reads all trials from the storage for every trial that it is asked about, which takes longer than
    the epochs in between.
    """
    if study is None:
        yield
        return
    with one_transaction(study._storage):
        complete = study.get_trials(deepcopy=False, states=(load_optuna().trial.TrialState.COMPLETE,))
        study.get_trials = lambda deepcopy=True, states=None: complete
        try:
            yield
        finally:
            del study.get_trials


def fails_screening(study: Any, screened: Sequence[float], startup: int) -> bool:
    """Whether the mean over the first splits is below the median of complete trials on the same splits."""
    complete = study.get_trials(deepcopy=False, states=(load_optuna().trial.TrialState.COMPLETE,))
    others = [fmean(trial.user_attrs["val"][: len(screened)]) for trial in complete]
    return len(others) >= startup and fmean(screened) < median(others)
