"""The rows that replicas begin with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from polynsd.config import TrainConfig
from polynsd.data.splits import PARTS
from polynsd.errors import ConfigError
from polynsd.nn.models import sheaf_parameters
from polynsd.training.population import Layout, Rows, beside, trainable
from polynsd.training.probe import Probe
from polynsd.training.replica import Replica

CHANGING = (
    "theta", "mean", "square", "moving", "active",
    "best_theta", "best_moving", "best_score", "best_loss", "best_metric", "best_epoch", "ended",
)  # fmt: skip


def first_rows(
    models: Sequence[nn.Module], replicas: Sequence[Replica], moving: Sequence[str], probes: Sequence[Probe]
) -> Rows:
    """Before the first epoch."""
    theta = _stacked([trainable(model) for model in models])
    count, device = len(models), theta.device
    state = _stacked([beside(model, moving) for model in models]).double().reshape(count, -1).to(device)
    train, val, test = (torch.stack([getattr(r.split, part) for r in replicas]).to(device) for part in PARTS)

    def column(value: Callable[[TrainConfig], float], dtype: torch.dtype = torch.long) -> Tensor:
        return torch.tensor([value(r.config) for r in replicas], dtype=dtype, device=device)

    never = torch.full((count,), torch.nan, dtype=torch.float64, device=device)
    return Rows(
        train=train,
        val=val,
        test=test,
        seed=torch.tensor([r.seed for r in replicas], device=device),
        rate=column(lambda config: config.learning_rate, torch.float64),
        decay=torch.stack([decays(m, r.config) for m, r in zip(models, replicas, strict=True)]).to(theta),
        dropout=torch.tensor([found.rates for found in probes], dtype=torch.float64, device=device),
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


def own_state(models: Sequence[nn.Module], probes: Sequence[Probe]) -> tuple[str, ...]:
    """Names of what replicas have of their own beside trained parameters, after making sure that the
    models have the same shape.
    """
    for number, (model, found) in enumerate(zip(models, probes, strict=True)):
        if _shape(model) != _shape(models[0]) or len(found.rates) != len(probes[0].rates):
            raise ConfigError(
                f"the models of a batch must have the same shape; that of replica {number} is not that of "
                "replica 0. Train models of different shapes in different calls."
            )
    changing = {name for found in probes for name in found.moving}
    frozen = {name for name, p in models[0].named_parameters() if not p.requires_grad}
    constant = {name: b for name, b in models[0].named_buffers() if name not in changing}
    different = {name for model in models[1:] for name in _differences(constant, model)}
    return tuple(sorted(changing | frozen | different))


def _differences(buffers: Mapping[str, Tensor], model: nn.Module) -> list[str]:
    others = dict(model.named_buffers())
    return [name for name, buffer in buffers.items() if not torch.equal(buffer, others[name])]


def _shape(model: nn.Module) -> list[tuple[object, ...]]:
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return [(name, t.shape, t.dtype, t.requires_grad) for name, t in tensors]


def _stacked(tensors: Sequence[Mapping[str, Tensor]]) -> Tensor:
    """A flat row per model."""
    if not tensors[0]:
        return torch.zeros(len(tensors), 0)
    dtype = next(iter(tensors[0].values())).dtype
    rows = [Layout(named).join([t.detach()[None] for t in named.values()], dtype) for named in tensors]
    return torch.cat(rows)


def decays(model: nn.Module, config: TrainConfig) -> Tensor:
    """The weight decay of every parameter: the map learners have one of their own."""
    sheaf = {id(p) for p in sheaf_parameters(model)}
    own = config.weight_decay if config.sheaf_decay is None else config.sheaf_decay
    parts = [
        torch.full((p.numel(),), own if id(p) in sheaf else config.weight_decay)
        for p in trainable(model).values()
    ]
    return torch.cat(parts)
