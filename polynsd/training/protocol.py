"""Several splits, trained together, and their mean ± std."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev, stdev
from typing import TYPE_CHECKING

from torch import nn

from polynsd.config import TrainConfig
from polynsd.data import Split
from polynsd.errors import ConfigError
from polynsd.training.replica import Epoch, FitResult, Replica, Snapshots
from polynsd.training.replicas import fit_replicas
from polynsd.training.task import Task
from polynsd.training.trainer import require_finite

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class ProtocolResult:
    """One result per split. `std` is the population's (ddof = 0) unless asked for otherwise, as in the
    literature on these graphs.
    """

    metric: str
    fits: tuple[FitResult, ...]
    ddof: int = 0

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
        """Standard deviation of the test metric: the population's, or with ddof = 1 the sample's."""
        return stdev(self.tests) if self.ddof and len(self.tests) > 1 else pstdev(self.tests)

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
    snapshots: Snapshots | None = None,
) -> ProtocolResult:
    """Trains a fresh model on every split, all together; split i has seed + i and depends on no other."""
    if not splits:
        raise ConfigError("at least one split is needed; got none.")
    config = TrainConfig() if config is None else config
    replicas = [Replica(build, split, seed + i, config) for i, split in enumerate(splits)]
    fits = fit_replicas(replicas, data, task, on_epoch=on_epoch, snapshots=snapshots)
    return ProtocolResult(task.metric, tuple(require_finite(result) for result in fits))
