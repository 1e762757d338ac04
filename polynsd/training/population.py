"""A population: replicas of one model that train together on one graph, and what an epoch does to them.

The parameters of replica r are row r of one matrix `[R, P]`; `torch.vmap` runs the model on all rows,
and the kernels take the rows as replicas. Nothing couples the rows, and dropout depends on the
replica's seed only, so each trains as it would alone. An epoch, with its evaluation on validation and
the bookkeeping of early stopping, runs on the device without a word to the host: a GPU can replay it
as one recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from polynsd.kernels.ops.training import adam, copy_rows
from polynsd.nn.precision import autocast
from polynsd.training.streams import DropoutStream
from polynsd.training.task import Task, get_task
from polynsd.training.vectorise import over_replicas

Predict = Callable[[nn.Module], Tensor]  # what a model says of the graph

METRIC_OF = {"acc": "accuracy", "auc": "roc_auc"}
TRAIN_LOSS, VAL_LOSS, VAL_METRIC, IS_BEST, WAS_ACTIVE = range(5)  # columns of the history


@dataclass
class Rows:
    """A row per replica, of everything; float64 where nothing else is said."""

    train: Tensor  # bool [R, N]
    val: Tensor
    test: Tensor
    seed: Tensor  # int64 [R]
    rate: Tensor  # [R] of learning
    decay: Tensor  # float [R, P]
    dropout: Tensor  # [R, calls]
    patience: Tensor  # int64 [R] and below
    last_epoch: Tensor
    theta: Tensor  # float [R, P] parameters
    mean: Tensor  # of Adam
    square: Tensor
    moving: Tensor  # [R, M] what a model has of its own beside these, e.g. running means
    active: Tensor  # bool [R]
    best_theta: Tensor
    best_moving: Tensor
    best_score: Tensor  # [R] of what chooses the epoch, and the
    best_loss: Tensor  # and
    best_metric: Tensor  # on validation there
    best_epoch: Tensor  # int64 [R], 0 before the first
    ended: Tensor  # the epochs that it trained

    def take(self, rows: Tensor) -> Rows:
        """Some of the replicas."""
        return Rows(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def put(self, rows: Tensor, others: Rows) -> None:
        """Overwrites some of the replicas."""
        for field in fields(self):
            getattr(self, field.name)[rows] = getattr(others, field.name)


class Population:
    """Replicas in training.

    Args:
        model: any of the models; its code is run with everyone's parameters.
        rows: the replicas.
        moving: names of what replicas have of their own beside trained parameters.
        y: labels of the graph.
        task: loss and metric.
        predict: calls a model on the graph.
        select: what chooses the epoch, and
        precision: that of linear maps; see `TrainConfig`.
        window: how many epochs the history holds.
        is_vectorised: whether `torch.vmap` takes the model.
    """

    def __init__(
        self,
        model: nn.Module,
        rows: Rows,
        moving: Sequence[str],
        y: Tensor,
        task: Task,
        predict: Predict,
        select: str,
        precision: str,
        window: int,
        is_vectorised: bool = True,
    ) -> None:
        self.rows, self.y, self.task, self.select, self.precision = rows, y, task, select, precision
        self._call, self.is_vectorised = _Call(model, predict), is_vectorised
        self._parameters, self._moving = Layout(trainable(model)), Layout(beside(model, moving))
        self._drops = (rows.dropout > 0).any(0).tolist()
        self._gradient = torch.empty_like(rows.theta)
        self.epoch = torch.zeros((), dtype=torch.long, device=rows.theta.device)
        self.history = rows.rate.new_zeros(window, len(rows.seed), 5)

    def run_epoch(self) -> Tensor:
        """A step of every replica, its evaluation on validation, and early stopping; the history."""
        rows = self.rows
        train_loss = self._step()
        self.epoch += 1
        output = self.outputs(rows.theta, rows.moving)
        val_loss = self.task.losses(output, self.y, rows.val).double()
        val_metric = self.task.metrics(output, self.y, rows.val)
        was_active = rows.active.clone()
        improved = self._keep_best(self._scores(output, val_loss, val_metric), val_loss, val_metric)
        rows.active.logical_and_(train_loss.isfinite() & val_loss.isfinite())
        seen = torch.stack(
            [train_loss.double(), val_loss, val_metric, improved.double(), was_active.double()], -1
        )
        self.history.index_copy_(0, ((self.epoch - 1) % len(self.history)).reshape(1), seen[None])
        return self.history

    def _step(self) -> Tensor:
        """One update of every replica; `[R]` the losses before it."""
        rows = self.rows
        parameters = {name: p.requires_grad_() for name, p in self._parameters.split(rows.theta).items()}
        moving = {name: t.clone() for name, t in self._moving.split(rows.moving).items()}
        with autocast(self.precision, rows.theta.device):
            output = self._train_pass(parameters, moving)
            loss = self.task.losses(output.to(rows.theta.dtype), self.y, rows.train)
        gradients = torch.autograd.grad(loss.sum(), list(parameters.values()), materialize_grads=True)
        gradient = self._parameters.join(gradients, rows.theta.dtype, out=self._gradient)
        adam(rows.theta, gradient, rows.mean, rows.square, rows.decay, rows.rate, self.epoch + 1)
        if self._moving:
            rows.moving.copy_(self._moving.join(moving.values(), rows.moving.dtype))
        return loss.detach()

    def _train_pass(self, theta: dict[str, Tensor], moving: dict[str, Tensor]) -> Tensor:
        train = over_replicas(self._train_one, self.is_vectorised)
        return train(theta, moving, self.rows.seed, self.rows.dropout)

    def try_pass(self) -> None:
        """A pass in training mode that changes nothing."""
        moving = {name: t.clone() for name, t in self._moving.split(self.rows.moving).items()}
        self._train_pass(self._parameters.split(self.rows.theta), moving)

    def _train_one(
        self, theta: dict[str, Tensor], moving: dict[str, Tensor], seed: Tensor, rates: Tensor
    ) -> Tensor:
        self._call.train()
        with DropoutStream(seed, self.epoch, rates, self._drops):
            return functional_call(self._call, self._call.named({**theta, **moving}), ())

    @torch.no_grad()
    def outputs(self, theta: Tensor, moving: Tensor) -> Tensor:
        """`[R, N, O]`, in evaluation mode."""
        self._call.eval()
        state = {**self._parameters.split(theta), **self._moving.split(moving)}
        call = over_replicas(
            lambda one: functional_call(self._call, self._call.named(one), ()), self.is_vectorised
        )
        return call(state)

    def _scores(self, output: Tensor, loss: Tensor, metric: Tensor) -> Tensor:
        """`[R]` what chooses the epoch: the higher the better."""
        if self.select == "loss":
            return -loss
        if self.select == "metric":
            return metric
        return get_task(METRIC_OF[self.select]).metrics(output, self.y, self.rows.val)

    def _keep_best(self, score: Tensor, loss: Tensor, metric: Tensor) -> Tensor:
        rows = self.rows
        improved = rows.active & loss.isfinite() & ((score > rows.best_score) | (rows.best_epoch == 0))
        copy_rows(rows.best_theta, rows.theta, improved)
        copy_rows(rows.best_moving, rows.moving, improved)
        for best, new in (
            (rows.best_score, score),
            (rows.best_loss, loss),
            (rows.best_metric, metric),
            (rows.best_epoch, self.epoch),
        ):
            best.copy_(torch.where(improved, new, best))
        rows.ended.copy_(torch.where(rows.active, self.epoch, rows.ended))
        going = (self.epoch - rows.best_epoch < rows.patience) & (self.epoch < rows.last_epoch)
        rows.active.logical_and_(going)
        return improved


class Layout:
    """Where the tensors of a model are in a flat row; matrices are transposed there, as products want."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.kinds = {name: (_transposed(t).shape, t.dtype) for name, t in tensors.items()}

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def split(self, flat: Tensor) -> dict[str, Tensor]:
        """`[R, P]` → named `[R, …]`, views of the rows where they have the right dtype."""
        parts = flat.detach().split([shape.numel() for shape, _ in self.kinds.values()], -1)
        pairs = zip(self.kinds.items(), parts, strict=True) if self.kinds else ()
        return {name: _part(part, *kind) for (name, kind), part in pairs}

    def join(self, named: Iterable[Tensor], dtype: torch.dtype, out: Tensor | None = None) -> Tensor:
        """The inverse: `[R, …]` each → `[R, P]`."""
        pairs = zip(named, self.kinds.values(), strict=True)
        parts = [_transposed(t, len(shape)).reshape(len(t), -1).to(dtype) for t, (shape, _) in pairs]
        return torch.cat(parts, -1, out=out)


def _part(flat: Tensor, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    named = flat.unflatten(-1, shape) if shape else flat.squeeze(-1)
    return _transposed(named, len(shape)).to(dtype)


def _transposed(t: Tensor, dim: int | None = None) -> Tensor:
    """A matrix, or as many as there are replicas, the other way round; everything else as it is."""
    return t.mT if (t.dim() if dim is None else dim) == 2 else t


class _Call(nn.Module):
    """A model whose call is `predict(model)`."""

    def __init__(self, model: nn.Module, predict: Predict) -> None:
        super().__init__()
        self.model, self._predict = model, predict

    def forward(self) -> Any:
        return self._predict(self.model)

    @staticmethod
    def named(state: dict[str, Tensor]) -> dict[str, Tensor]:
        return {f"model.{name}": value for name, value in state.items()}


def trainable(model: nn.Module) -> dict[str, Tensor]:
    """The parameters that are trained."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def beside(model: nn.Module, names: Iterable[str]) -> dict[str, Tensor]:
    """Buffers and frozen parameters by name."""
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: state[name] for name in names}


def load_row(tensors: Mapping[str, Tensor], row: Tensor) -> None:
    """Writes a flat row back into tensors of a model."""
    with torch.no_grad():
        for name, part in Layout(tensors).split(row[None]).items():
            tensors[name].copy_(part[0])
