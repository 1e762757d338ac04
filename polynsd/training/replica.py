"""What is trained together, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from torch import Tensor, nn

from polynsd.config import TrainConfig
from polynsd.data import Split
from polynsd.nn import PolyNSD

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class Replica:
    """One of the models that train together.

    Args:
        build: makes the model; called under the seed. The models of a batch have the same shape and differ
            in nothing but their parameters and dropout rates.
        split: the nodes to train on, to select on and to test on.
        seed: of the weights and the dropout.
        config: the training rules; `select`, `precision` and `capture` are the same for all.
    """

    build: Callable[[], nn.Module]
    split: Split
    seed: int = 0
    config: TrainConfig = field(default_factory=TrainConfig)


@dataclass(frozen=True)
class Epoch:
    """What happened in one epoch."""

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


class Snapshots(Protocol):
    """Where the state of a training is kept while it goes."""

    def load(self) -> Mapping[str, Tensor] | None:
        """What was kept last, if anything."""
        ...

    def offer(self, state: Callable[[], dict[str, Tensor]]) -> None:
        """Keeps `state()` if it is time to; every epoch in it has been reported."""
        ...


def output_of(model: nn.Module, data: Data) -> Tensor:
    """What a model says of the data; it sees edge features if it was built to (`edge_dim`)."""
    extra = {}
    if data.edge_weight is not None:
        extra["edge_weight"] = data.edge_weight
    if data.edge_attr is not None and isinstance(model, PolyNSD) and model.config.edge_dim:
        extra["edge_attr"] = data.edge_attr
    return model(data.x, data.edge_index, **extra)
