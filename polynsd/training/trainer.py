"""One model on one split: full-batch Adam, early stopping on validation, the test set read once.

Each epoch takes one step and evaluates on validation only. The state of the best validation epoch
is kept; when training ends it is restored and the test set is scored for the first and only time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import nn

from polynsd.config import TrainConfig
from polynsd.data import Split
from polynsd.errors import DataError
from polynsd.training.replica import Epoch, FitResult, Replica
from polynsd.training.replicas import fit_replicas
from polynsd.training.task import Task

if TYPE_CHECKING:
    from torch_geometric.data import Data


def fit(
    build: Callable[[], nn.Module],
    data: Data,
    split: Split,
    task: Task,
    config: TrainConfig | None = None,
    seed: int = 0,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> FitResult:
    """Trains one model on one split.

    Args:
        build: makes the model; called under the seed, so that initial weights and dropout depend on it
            alone.
        data: a PyG graph with `x`, `edge_index` and `y`. Edge weights are used if present, edge features
            if the model was built for them (`edge_dim`).
        split: masks of the nodes to train on, to select on and to test on.
        task: loss and metric.
        config: the training rules.
        seed: of the weights and the dropout; the global random state is left as it was.
        on_epoch: called after every epoch, e.g. to move a progress bar.
    """
    replica = Replica(build, split, seed, TrainConfig() if config is None else config)
    report = None if on_epoch is None else (lambda _, epoch: on_epoch(epoch))
    (result,) = fit_replicas([replica], data, task, on_epoch=report)
    return require_finite(result)


def require_finite(result: FitResult) -> FitResult:
    """Raises if the loss was not finite at some point of the training."""
    if result.diverged:
        raise DataError("the training loss is not finite; lower learning_rate or check the features' scale.")
    return result
