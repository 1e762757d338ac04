"""`Replica`: one of the models that train together, its result, and what is refused before it is built."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from torch import Tensor, nn

from polynsd.config import TrainConfig
from polynsd.data import Split, check_graph
from polynsd.data.splits import PARTS
from polynsd.errors import ConfigError, DataError, require_at_least
from polynsd.nn import SheafModel
from polynsd.training.task import METRIC_OF, Task

if TYPE_CHECKING:
    from torch_geometric.data import Data

NOT_FINITE = (
    "the training loss is not finite; lower learning_rate, check the features' scale or, in continuous "
    "time, use a shorter horizon or more steps."
)
SEEDS = 2**32  # that generators of weights and hashes of dropout distinguish


@dataclass(frozen=True)
class Replica:
    """One of the models that train together.

    Args:
        build: makes the model; called under the seed. The models of a batch have the same shape and differ
            in nothing but their parameters and dropout rates.
        split: the nodes to train on, to select on and to test on.
        seed: of the weights and the dropout.
        config: the training rules; `select`, `precision` and `capture` are the same for all.
        start: models of an equal `start` and seed begin with equal numbers, filters of different degrees
            apart, and are given those of the first of them: to draw and orthogonalise wide matrices takes
            longer than a short training. Nor is it checked that they are alike, so say so only of models
            whose options differ in dropout rates and degrees alone.
    """

    build: Callable[[], nn.Module]
    split: Split
    seed: int = 0
    config: TrainConfig = field(default_factory=TrainConfig)
    start: str | None = None


@dataclass(frozen=True)
class Epoch:
    """The losses and the validation metric of one epoch."""

    epoch: int
    train_loss: float
    val_loss: float
    val_metric: float
    is_best: bool


@dataclass(frozen=True)
class FitResult:
    """The model at its best validation epoch, and its scores there."""

    model: nn.Module
    best_epoch: int
    epochs: int
    val_metric: float
    test_metric: float
    """NaN where the test set was not scored."""
    val_loss: float
    seed: int
    diverged: bool = False
    """Whether training ended because the loss was not finite."""
    train_loss: float = math.nan
    """In evaluation mode at the best epoch; NaN, like the metric, where the test set was not scored."""
    train_metric: float = math.nan


class Snapshots(Protocol):
    """Where the state of a training is kept, to resume from."""

    def load(self) -> Mapping[str, Tensor] | None:
        """The last state that was kept, if any."""
        ...

    def offer(self, state: Callable[[], dict[str, Tensor]]) -> None:
        """Keeps `state()` if a snapshot is due; every epoch in it has been reported."""
        ...


def call_model(model: nn.Module, data: Data) -> Tensor:
    """Calls a model on a graph, with edge features if it was built for them (`edge_dim`)."""
    extra = {}
    if data.edge_weight is not None:
        extra["edge_weight"] = data.edge_weight
    if data.edge_attr is not None and isinstance(model, SheafModel) and model.config.edge_dim:
        extra["edge_attr"] = data.edge_attr
    return model(data.x, data.edge_index, **extra)


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode; afterwards it is in the mode it was in."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def check_replicas(replicas: Sequence[Replica], data: Data, task: Task, chunk: int | None) -> None:
    """Raises unless these replicas can be trained together on this graph."""
    if not replicas:
        raise ConfigError("at least one replica is needed; got none.")
    if chunk is not None:
        require_at_least("chunk", chunk, 1)
    for name in ("select", "precision", "capture"):
        values = sorted({getattr(replica.config, name) for replica in replicas})
        if len(values) > 1:
            raise ConfigError(f"replicas of one batch need the same {name}; got {' and '.join(values)}.")
    if task.is_regression and replicas[0].config.select in METRIC_OF:
        raise ConfigError(
            f"select='{replicas[0].config.select}' is for classes; the targets are numbers. Use 'metric'."
        )
    for replica in replicas:
        if not 0 <= replica.seed < SEEDS:
            raise ConfigError(f"a seed must be at least 0 and below 2³²; got {replica.seed}.")
    for split in {id(replica.split): replica.split for replica in replicas}.values():
        check_trainable(data, split, task)


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
