"""A population: replicas of one model that train together on one graph, and what an epoch does to them.

The parameters of replica r are row r of one matrix `[R, P]`; `torch.vmap` runs the model on all rows,
and the kernels take the rows as replicas. Nothing couples the rows, and dropout depends on the
replica's seed only, so each trains as it would alone. An epoch, with its evaluation on validation and
the bookkeeping of early stopping, runs on the device without synchronising with the host: a GPU can replay it
as one CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._pytree import tree_leaves, tree_map

from polynsd.config import TrainConfig
from polynsd.data.splits import PARTS
from polynsd.errors import ConfigError
from polynsd.kernels.ops.training import adam, copy_rows
from polynsd.nn.models import sheaf_parameters
from polynsd.nn.precision import autocast
from polynsd.training.dropout import DropoutStream
from polynsd.training.probe import Predict, Probe
from polynsd.training.replica import Replica
from polynsd.training.task import METRIC_OF, Task, get_task

CHANGING = (
    "theta", "mean", "square", "moving", "active",
    "best_theta", "best_moving", "best_score", "best_loss", "best_metric", "best_epoch", "ended",
)  # fmt: skip
TRAIN_LOSS, VAL_LOSS, VAL_METRIC, IS_BEST, WAS_ACTIVE = range(5)  # columns of the history


@dataclass
class Rows:
    """All numbers of the replicas, a row per replica; float64 unless noted."""

    train: Tensor  # bool [R, N]
    val: Tensor
    test: Tensor
    seed: Tensor  # int64 [R]
    rate: Tensor  # [R] learning rate
    decay: Tensor  # float [R, P]
    dropout: Tensor  # [R, calls]
    patience: Tensor  # int64 [R] and below
    last_epoch: Tensor
    theta: Tensor  # float [R, P] parameters
    mean: Tensor  # first and second moment of Adam
    square: Tensor
    moving: Tensor  # [R, M] buffers and frozen parameters that differ between replicas, e.g. running means
    active: Tensor  # bool [R]
    best_theta: Tensor
    best_moving: Tensor
    best_score: Tensor  # [R] the score that selects the epoch
    best_loss: Tensor  # on validation, at that epoch
    best_metric: Tensor  # on validation, at that epoch
    best_epoch: Tensor  # int64 [R], 0 before the first
    ended: Tensor  # number of epochs trained

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
        model: any of the models; its code runs with the parameters of all.
        rows: the replicas.
        moving: names of buffers and frozen parameters that differ between replicas.
        y: labels of the graph.
        task: loss and metric.
        predict: calls a model on the graph.
        select: what selects the epoch; see `TrainConfig`.
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
        self._parameters, self._moving = Layout(trainable(model)), Layout(named_state(model, moving))
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
        train = map_replicas(self._train_replica, self.is_vectorised)
        return train(theta, moving, self.rows.seed, self.rows.dropout)

    def try_pass(self) -> None:
        """A pass in training mode that changes nothing."""
        moving = {name: t.clone() for name, t in self._moving.split(self.rows.moving).items()}
        self._train_pass(self._parameters.split(self.rows.theta), moving)

    def _train_replica(
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
        call = map_replicas(
            lambda row: functional_call(self._call, self._call.named(row), ()), self.is_vectorised
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
    """The positions of a model's tensors in a flat row, where matrices are stored transposed."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.kinds = {name: (_transpose(t).shape, t.dtype) for name, t in tensors.items()}

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def split(self, flat: Tensor) -> dict[str, Tensor]:
        """`[R, P]` → named `[R, …]`, views of the rows where they have the right dtype."""
        if not self.kinds:
            return {}
        named = {}
        parts = flat.detach().split([shape.numel() for shape, _ in self.kinds.values()], -1)
        for (name, (shape, dtype)), part in zip(self.kinds.items(), parts, strict=True):
            tensor = part.unflatten(-1, shape) if shape else part.squeeze(-1)
            named[name] = _transpose(tensor, len(shape)).to(dtype)
        return named

    def join(self, named: Iterable[Tensor], dtype: torch.dtype, out: Tensor | None = None) -> Tensor:
        """The inverse: `[R, …]` each → `[R, P]`."""
        pairs = zip(named, self.kinds.values(), strict=True)
        parts = [_transpose(t, len(shape)).reshape(len(t), -1).to(dtype) for t, (shape, _) in pairs]
        return torch.cat(parts, -1, out=out)


def _transpose(t: Tensor, dim: int | None = None) -> Tensor:
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


def named_state(model: nn.Module, names: Iterable[str]) -> dict[str, Tensor]:
    """Buffers and frozen parameters by name."""
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: state[name] for name in names}


def load_row(tensors: Mapping[str, Tensor], row: Tensor) -> None:
    """Writes a flat row back into tensors of a model."""
    with torch.no_grad():
        for name, part in Layout(tensors).split(row[None]).items():
            tensors[name].copy_(part[0])


def make_rows(
    models: Sequence[nn.Module], replicas: Sequence[Replica], moving: Sequence[str], probes: Sequence[Probe]
) -> Rows:
    """The rows of all replicas before the first epoch."""
    theta = _stack_rows([trainable(model) for model in models])
    count, device = len(models), theta.device
    state = _stack_rows([named_state(model, moving) for model in models])
    state = state.double().reshape(count, -1).to(device)
    train, val, test = (torch.stack([getattr(r.split, part) for r in replicas]).to(device) for part in PARTS)

    def column(value: Callable[[TrainConfig], float], dtype: torch.dtype = torch.long) -> Tensor:
        return torch.tensor([value(r.config) for r in replicas], dtype=dtype, device=device)

    decay = torch.stack([weight_decays(m, r.config) for m, r in zip(models, replicas, strict=True)])
    never = torch.full((count,), torch.nan, dtype=torch.float64, device=device)
    return Rows(
        train=train,
        val=val,
        test=test,
        seed=torch.tensor([r.seed for r in replicas], device=device),
        rate=column(lambda config: config.learning_rate, torch.float64),
        decay=decay.to(theta),
        dropout=torch.tensor([probe.rates for probe in probes], dtype=torch.float64, device=device),
        patience=column(lambda config: config.patience),
        last_epoch=column(lambda config: config.epochs),
        theta=theta,
        mean=torch.zeros_like(theta),
        square=torch.zeros_like(theta),
        moving=state,
        active=torch.ones(count, dtype=torch.bool, device=device),
        best_theta=theta.clone(),
        best_moving=state.clone(),
        best_score=never.clone(),
        best_loss=never.clone(),
        best_metric=never.clone(),
        best_epoch=torch.zeros(count, dtype=torch.long, device=device),
        ended=torch.zeros(count, dtype=torch.long, device=device),
    )


def find_replica_state(models: Sequence[nn.Module], probes: Sequence[Probe]) -> tuple[str, ...]:
    """Names of buffers and frozen parameters that differ between replicas or change in training.

    Raises:
        ConfigError: the models do not have the same shape.
    """
    for number, (model, probe) in enumerate(zip(models, probes, strict=True)):
        if _shape(model) != _shape(models[0]) or len(probe.rates) != len(probes[0].rates):
            raise ConfigError(
                f"the models of a batch must have the same shape; that of replica {number} is not that of "
                "replica 0. Train models of different shapes in different calls."
            )
    changing = {name for probe in probes for name in probe.moving}
    frozen = {name for name, p in models[0].named_parameters() if not p.requires_grad}
    constant = {name: b for name, b in models[0].named_buffers() if name not in changing}
    different = {
        name
        for model in models[1:]
        for name, buffer in model.named_buffers()
        if name in constant and not torch.equal(constant[name], buffer)
    }
    return tuple(sorted(changing | frozen | different))


def _shape(model: nn.Module) -> list[tuple[object, ...]]:
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return [(name, t.shape, t.dtype, t.requires_grad) for name, t in tensors]


def _stack_rows(tensors: Sequence[Mapping[str, Tensor]]) -> Tensor:
    """A flat row per model."""
    if not tensors[0]:
        return torch.zeros(len(tensors), 0)
    dtype = next(iter(tensors[0].values())).dtype
    rows = [Layout(named).join([t.detach()[None] for t in named.values()], dtype) for named in tensors]
    return torch.cat(rows)


def weight_decays(model: nn.Module, config: TrainConfig) -> Tensor:
    """The weight decay of every parameter; map learners have `sheaf_decay`, if it is given."""
    sheaf = {id(p) for p in sheaf_parameters(model)}
    sheaf_decay = config.weight_decay if config.sheaf_decay is None else config.sheaf_decay
    parts = [
        torch.full((p.numel(),), sheaf_decay if id(p) in sheaf else config.weight_decay)
        for p in trainable(model).values()
    ]
    return torch.cat(parts)


def map_replicas(function: Callable[..., Tensor], is_vectorised: bool) -> Callable[..., Tensor]:
    """The function on arguments with a leading dimension of replicas."""
    if is_vectorised:
        return torch.vmap(function)

    def loop(*args: Any) -> Tensor:
        count = len(tree_leaves(args)[0])
        return torch.stack([function(*tree_map(lambda t, r=r: t[r], args)) for r in range(count)])

    return loop
