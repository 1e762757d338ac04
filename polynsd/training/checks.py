"""What can be trained; everything else is refused before anything is built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from polynsd.data import Split, check_graph
from polynsd.data.splits import PARTS
from polynsd.errors import ConfigError, DataError, require_at_least
from polynsd.training.population import METRIC_OF
from polynsd.training.replica import Replica
from polynsd.training.task import Task

if TYPE_CHECKING:
    from torch_geometric.data import Data


def check_replicas(replicas: Sequence[Replica], data: Data, task: Task, chunk: int | None) -> None:
    """Raises unless these replicas can be trained together on this graph."""
    if not replicas:
        raise ConfigError("at least one replica is needed; got none.")
    if chunk is not None:
        require_at_least("chunk", chunk, 1)
    for name in ("select", "precision", "capture"):
        found = sorted({getattr(replica.config, name) for replica in replicas})
        if len(found) > 1:
            raise ConfigError(f"replicas of one batch need the same {name}; got {' and '.join(found)}.")
    if task.is_regression and replicas[0].config.select in METRIC_OF:
        raise ConfigError(
            f"select='{replicas[0].config.select}' is for classes; the targets are numbers. Use 'metric'."
        )
    for split in {id(replica.split): replica.split for replica in replicas}.values():
        check_trainable(data, split, task)


def check_trainable(data: Data, split: Split, task: Task) -> None:
    """Raises unless the graph, its labels and the split can be trained on."""
    check_graph(data, regression=task.is_regression)
    if data.y is None:
        raise DataError("the graph has no labels y; training needs them.")
    if split.train.numel() != data.num_nodes:
        raise DataError(f"the split is for {split.train.numel()} nodes, the graph has {data.num_nodes}.")
    for part in PARTS:
        labels = data.y[getattr(split, part).to(data.y.device)]
        if bool((labels.isnan() if task.is_regression else labels < 0).any()):
            raise DataError(
                "the split contains nodes without a label (y = -1 or NaN); leave them out of its masks."
            )
        if part != "train" and len(labels):
            task.check(labels)
