"""A population: replicas of one model that train together on one graph, and what an epoch does to them.

The parameters of replica r are row r of one matrix `[R, P]`; `torch.vmap` runs the model on all rows,
and the kernels take the rows as replicas. Nothing couples the rows, and dropout depends on the
replica's seed only, so each trains as it would alone. An epoch, with its evaluation on validation and
the bookkeeping of early stopping, runs on the device without synchronising with the host: a GPU can replay it
as one CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._pytree import tree_leaves, tree_map

from polynsd.devices import to_wide
from polynsd.kernels.ops.training import adam, copy_rows
from polynsd.nn.precision import autocast
from polynsd.training.dropout import DropoutStream
from polynsd.training.optimizer import trainable
from polynsd.training.probe import Predict
from polynsd.training.rows import Layout, Rows, named_state
from polynsd.training.task import METRIC_OF, Task, get_task

TRAIN_LOSS, VAL_LOSS, VAL_METRIC, IS_BEST, WAS_ACTIVE = range(5)  # columns of the history


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
        val_loss = to_wide(self.task.losses(output, self.y, rows.val))
        val_metric = self.task.metrics(output, self.y, rows.val)
        was_active = rows.active.clone()
        improved = self._keep_best(self._scores(output, val_loss, val_metric), val_loss, val_metric)
        rows.active.logical_and_(train_loss.isfinite() & val_loss.isfinite())
        seen = torch.stack([to_wide(t) for t in (train_loss, val_loss, val_metric, improved, was_active)], -1)
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
        state = (rows.theta, gradient, rows.mean, rows.square, rows.decay, rows.scale)
        adam(*state, rows.rate, self.epoch + 1)
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
            return self._call.run({**theta, **moving})

    @torch.no_grad()
    def outputs(self, theta: Tensor, moving: Tensor) -> Tensor:
        """`[R, N, O]`, in evaluation mode."""
        self._call.eval()
        state = {**self._parameters.split(theta), **self._moving.split(moving)}
        call = map_replicas(self._call.run, self.is_vectorised)
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


class _Call(nn.Module):
    """A model whose call is `predict(model)`, with any parameters and buffers.

    Tensors that several modules share are given to each of them. PyTorch would do so by itself, but it also
    does it where the module itself is shared, and then loses the module's parameters.
    """

    def __init__(self, model: nn.Module, predict: Predict) -> None:
        super().__init__()
        self.model, self._predict = model, predict
        first: dict[int, str] = {}
        self._shared: list[tuple[str, str]] = []  # (another name, the first name) of a tensor
        for path, module in model.named_modules():
            own = (*module.named_parameters(path, False), *module.named_buffers(path, False))
            for name, tensor in own:
                if first.setdefault(id(tensor), name) != name:
                    self._shared.append((name, first[id(tensor)]))

    def forward(self) -> Any:
        return self._predict(self.model)

    def run(self, state: dict[str, Tensor]) -> Any:
        """The output with these parameters and buffers in place of the model's own."""
        shared = {name: state[first] for name, first in self._shared if first in state}
        named = {f"model.{name}": value for name, value in (state | shared).items()}
        return functional_call(self, named, (), tie_weights=False)


def map_replicas(function: Callable[..., Tensor], is_vectorised: bool) -> Callable[..., Tensor]:
    """The function on arguments with a leading dimension of replicas."""
    if is_vectorised:
        return torch.vmap(function)

    def loop(*args: Any) -> Tensor:
        count = len(tree_leaves(args)[0])
        return torch.stack([function(*tree_map(lambda t, r=r: t[r], args)) for r in range(count)])

    return loop
