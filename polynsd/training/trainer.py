"""A small honest trainer: full-batch Adam, early stopping on validation, the test set read once.

Each epoch takes one step and evaluates on validation only. The state of the best validation epoch
is kept; when training ends it is restored and the test set is scored for the first and only time.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from polynsd.config import TrainConfig
from polynsd.data import Split, check_graph
from polynsd.errors import DataError
from polynsd.nn import PolyNSD
from polynsd.training.capture import captured
from polynsd.training.task import Task, evaluate

if TYPE_CHECKING:
    from torch_geometric.data import Data


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


OnEpoch = Callable[[Epoch], None]


def fit(
    build: Callable[[], nn.Module],
    data: Data,
    split: Split,
    task: Task,
    config: TrainConfig | None = None,
    seed: int = 0,
    on_epoch: OnEpoch | None = None,
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
    config = TrainConfig() if config is None else config
    check_trainable(data, split, task)
    with torch.random.fork_rng(), _current(data.x.device):
        torch.manual_seed(seed)
        model = build().to(data.x.device)
        best, last = _train(model, data, split, task, config, on_epoch)
        model.load_state_dict(best.state)
        _, test = evaluate(_predict(model, data), data.y, _nodes(split.test, data), task)
    return FitResult(model, best.epoch.epoch, last, best.epoch.val_metric, test)


def check_trainable(data: Data, split: Split, task: Task) -> None:
    """Raises unless the graph, its labels and the split can be trained on."""
    check_graph(data, regression=task.is_regression)
    if data.y is None:
        raise DataError("the graph has no labels y; training needs them.")
    if split.train.numel() != data.num_nodes:
        raise DataError(f"the split is for {split.train.numel()} nodes, the graph has {data.num_nodes}.")
    used = split.train | split.val | split.test
    if not task.is_regression and bool((data.y[used.to(data.y.device)] < 0).any()):
        raise DataError("the split contains nodes without a label (y = -1); leave them out of its masks.")


@dataclass
class _Best:
    epoch: Epoch
    state: dict[str, Tensor]


def _train(
    model: nn.Module, data: Data, split: Split, task: Task, config: TrainConfig, on_epoch: OnEpoch | None
) -> tuple[_Best, int]:
    _predict(model, data)  # lets lazy layers learn their size before the optimiser looks at them
    train, val, device = _nodes(split.train, data), _nodes(split.val, data), data.x.device
    optimizer = _adam(model, config, device)
    step = captured(partial(_step, model, data, train, task, optimizer), config.capture, device)
    predict = captured(partial(_predict, model, data), config.capture, device)
    best: _Best | None = None
    for number in range(1, config.epochs + 1):
        train_loss = _finite(float(step()))
        val_loss, val_metric = evaluate(predict(), data.y, val, task)
        epoch = Epoch(number, train_loss, val_loss, val_metric, best is None)
        if best is None or _improves(epoch, best.epoch, config.select):
            epoch = Epoch(number, train_loss, val_loss, val_metric, True)
            best = _Best(epoch, copy.deepcopy(model.state_dict()))
        if on_epoch is not None:
            on_epoch(epoch)
        if number - best.epoch.epoch >= config.patience:
            break
    optimizer.zero_grad()
    assert best is not None  # epochs >= 1
    return best, number


def _adam(model: nn.Module, config: TrainConfig, device: torch.device) -> torch.optim.Optimizer:
    """On a GPU it counts its steps there, captured or not, so that both give the same numbers."""
    groups = parameter_groups(model, config)
    optimizer = torch.optim.Adam(groups, lr=config.learning_rate, capturable=device.type == "cuda")
    vars(optimizer)["_warned_capturable_if_run_uncaptured"] = True  # or it would, though that is meant
    return optimizer


def parameter_groups(model: nn.Module, config: TrainConfig) -> list[dict[str, object]]:
    """Adam's groups: the map learners have a weight decay of their own."""
    sheaf = model.sheaf_parameters() if isinstance(model, PolyNSD) else []
    taken = {id(p) for p in sheaf}
    others = [p for p in model.parameters() if id(p) not in taken]
    sheaf_decay = config.weight_decay if config.sheaf_decay is None else config.sheaf_decay
    groups: list[dict[str, object]] = [{"params": others, "weight_decay": config.weight_decay}]
    return groups + ([{"params": sheaf, "weight_decay": sheaf_decay}] if sheaf else [])


def _step(
    model: nn.Module, data: Data, nodes: Tensor, task: Task, optimizer: torch.optim.Optimizer
) -> Tensor:
    """One step of Adam; the loss before it."""
    model.train()
    optimizer.zero_grad()
    loss = task.loss(_output(model, data).index_select(0, nodes), data.y.index_select(0, nodes))
    loss.backward()
    optimizer.step()
    return loss.detach()


def _finite(loss: float) -> float:
    if not math.isfinite(loss):
        raise DataError("the training loss is not finite; lower learning_rate or check the features' scale.")
    return loss


@torch.no_grad()
def _predict(model: nn.Module, data: Data) -> Tensor:
    model.eval()
    return _output(model, data)


def _output(model: nn.Module, data: Data) -> Tensor:
    """What the model says of the data; it sees edge features if it was built to (`edge_dim`)."""
    extra = {}
    if data.edge_weight is not None:
        extra["edge_weight"] = data.edge_weight
    if data.edge_attr is not None and isinstance(model, PolyNSD) and model.config.edge_dim:
        extra["edge_attr"] = data.edge_attr
    return model(data.x, data.edge_index, **extra)


def _nodes(mask: Tensor, data: Data) -> Tensor:
    """The numbers of the nodes of a mask: a mask as an index would make a GPU count them every time."""
    return mask.nonzero().squeeze(-1).to(data.x.device)


def _current(device: torch.device) -> AbstractContextManager[object]:
    """CUDA's streams belong to its current device."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _improves(new: Epoch, old: Epoch, select: str) -> bool:
    if select == "loss":
        return new.val_loss < old.val_loss
    return new.val_metric > old.val_metric
