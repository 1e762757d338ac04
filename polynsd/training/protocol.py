"""Several splits, one after another, and their mean ± std."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from torch import nn

from polynsd.config import TrainConfig
from polynsd.data import Split
from polynsd.errors import ConfigError
from polynsd.training.task import Task
from polynsd.training.trainer import Epoch, FitResult, fit

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class ProtocolResult:
    """One result per split. `std` is the population's (ddof = 0), as in the literature on these graphs."""

    metric: str
    fits: tuple[FitResult, ...]

    @property
    def tests(self) -> list[float]:
        """Test metric of every split."""
        return [result.test_metric for result in self.fits]

    @property
    def mean(self) -> float:
        """Of the test metric."""
        return fmean(self.tests)

    @property
    def std(self) -> float:
        """Population standard deviation of the test metric."""
        return pstdev(self.tests)

    @property
    def val_mean(self) -> float:
        """Of the validation metric at the selected epochs."""
        return fmean(result.val_metric for result in self.fits)

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f} ± {100 * self.std:.1f}"


def run_splits(
    build: Callable[[], nn.Module],
    data: Data,
    splits: Sequence[Split],
    task: Task,
    config: TrainConfig | None = None,
    seed: int = 0,
    on_epoch: Callable[[int, Epoch], None] | None = None,
) -> ProtocolResult:
    """Trains a fresh model on every split; split i uses seed + i, so it does not depend on the others."""
    if not splits:
        raise ConfigError("at least one split is needed; got none.")
    fits = []
    for i, split in enumerate(splits):
        report = None if on_epoch is None else (lambda epoch, i=i: on_epoch(i, epoch))
        fits.append(fit(build, data, split, task, config, seed + i, report))
    return ProtocolResult(task.metric, tuple(fits))
