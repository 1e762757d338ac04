"""What can be trained; everything else is refused before anything is built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor, nn

from polynsd.data import Split, check_graph
from polynsd.data.splits import PARTS
from polynsd.errors import ConfigError, DataError, require_at_least
from polynsd.training.population import METRIC_OF
from polynsd.training.replica import Replica
from polynsd.training.task import Task

if TYPE_CHECKING:
    from torch_geometric.data import Data

SEEDS = 2**32  # what generators of weights and hashes of dropout tell apart


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
    for replica in replicas:
        if not 0 <= replica.seed < SEEDS:
            raise ConfigError(f"a seed must be at least 0 and below 2³²; got {replica.seed}.")
    _check_classes(data, task, replicas[0].config.select)
    for split in {id(replica.split): replica.split for replica in replicas}.values():
        check_trainable(data, split, task)


def _check_classes(data: Data, task: Task, select: str) -> None:
    """ROC-AUC, as metric or as what selects, is for two classes."""
    if data.y is None or task.is_regression or not data.y.numel():
        return
    count = task.num_outputs(data.y)
    if count != 2 and "roc_auc" in (task.metric, METRIC_OF.get(select)):
        option = "metric='roc_auc'" if task.metric == "roc_auc" else f"select='{select}'"
        raise DataError(f"{option} needs two classes; the labels have {count}. Use accuracy (acc).")


def check_model(model: nn.Module, data: Data) -> None:
    """Raises unless there is something to train, in the dtype of the features."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise ConfigError("the model has no parameters to train.")
    if parameters[0].dtype != data.x.dtype:
        raise DataError(
            f"the features are {data.x.dtype}, the model is {parameters[0].dtype}. Convert one of them: "
            "data.x = data.x.float(), or build().double()."
        )


def check_output(output: Tensor, y: Tensor, task: Task) -> None:
    """Raises unless a model's output can be compared with the labels."""
    width = task.num_outputs(y)
    fits = output.dim() == 2 and len(output) == len(y) and output.size(1) >= width
    if not fits or (task.is_regression and output.size(1) != width):
        raise ConfigError(
            f"the model must return [{len(y)}, {width}] for these labels; it returns {list(output.shape)}. "
            "Build it with as many outputs as there are classes or targets."
        )


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
