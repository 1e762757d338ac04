"""What every trial is trained on, and how a batch of configurations becomes replicas of one training."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from polynsd.data import Split
from polynsd.errors import DataError
from polynsd.training import Epoch, FitResult, Replica, Task, fit_replicas
from polynsd.training.configuration import Configuration
from polynsd.zoo import build_model

if TYPE_CHECKING:
    from torch_geometric.data import Data

OnEpoch = Callable[[int, Epoch], None]
Stop = Callable[[int], Collection[int]]


@dataclass(frozen=True)
class Problem:
    """A graph, its splits and how they are scored.

    Args:
        data: the graph, on the device to train on.
        splits: a trial is trained on all of them.
        task: loss and metric.
        seed: split i is trained with seed + i in every trial, so that trials differ by their options alone.
        about: what a person wants to know of it: dataset, protocol, features.
    """

    data: Data
    splits: tuple[Split, ...]
    task: Task
    seed: int = 0
    about: Mapping[str, Any] = field(default_factory=dict)

    def identity(self) -> dict[str, Any]:
        """All that a trial's value depends on, besides its options."""
        return {
            **self.about,
            "graph": fingerprint(self.data),
            "splits": [split.fingerprint for split in self.splits],
            "metric": self.task.metric,
            "seed": self.seed,
        }

    def replicas(self, one: Configuration, splits: Sequence[int], seed: int) -> list[Replica]:
        """One replica per split."""
        outputs = self.task.num_outputs(self.data.y)
        build = partial(build_model, one.model, self.data.num_features, outputs)
        return [Replica(build, self.splits[i], seed + i, one.training) for i in splits]


@dataclass(frozen=True)
class Scores:
    """What a search may know of a trained configuration: validation only, split by split."""

    val: list[float]
    best_epoch: list[int]
    epochs: list[int]
    diverged: list[int]
    """Numbers of the splits where the loss was not finite."""

    def __add__(self, other: Scores) -> Scores:
        return Scores(
            self.val + other.val,
            self.best_epoch + other.best_epoch,
            self.epochs + other.epochs,
            self.diverged + other.diverged,
        )


def train(
    problem: Problem,
    configurations: Sequence[Configuration],
    splits: Sequence[int],
    on_epoch: OnEpoch | None = None,
    stop: Stop | None = None,
) -> list[Scores]:
    """Trains configurations of one shape on the given splits, all in one call.

    Replica r is split r mod S of configuration r div S, S being the number of splits.
    """
    replicas = [r for one in configurations for r in problem.replicas(one, splits, problem.seed)]
    fits = fit_replicas(replicas, problem.data, problem.task, on_epoch=on_epoch, stop=stop)
    count = len(splits)
    return [_scores(fits[at : at + count], splits) for at in range(0, len(fits), count)]


def _scores(fits: Sequence[FitResult], splits: Sequence[int]) -> Scores:
    return Scores(
        [fit.val_metric for fit in fits],
        [fit.best_epoch for fit in fits],
        [fit.epochs for fit in fits],
        [split for split, fit in zip(splits, fits, strict=True) if fit.diverged],
    )


def fingerprint(data: Data) -> str:
    """SHA-256 of edges, features, labels and edge weights: equal for equal graphs, on every device."""
    if data.y is None:
        raise DataError("the graph has no labels y; a search needs them.")
    digest = hashlib.sha256()
    for name in ("edge_index", "x", "y", "edge_weight", "edge_attr"):
        value = data.get(name)
        if isinstance(value, Tensor):
            digest.update(f"{name}{tuple(value.shape)}{value.dtype}".encode())
            digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
