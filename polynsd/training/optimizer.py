"""What a step of Adam takes beside the gradient: rates and decays, their schedule, clipping, averages.

Learning rates and decays belong to parameters, everything else to replicas, as tensors `[R]`. All of it is
computed on the device, from the number of the epoch, so that a CUDA graph can hold it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from polynsd.config import TrainConfig
from polynsd.devices import to_wide, wide_dtype
from polynsd.nn.models import filter_parameters, sheaf_parameters


class ParameterRule(NamedTuple):
    """How one parameter is trained."""

    rate: float
    decay: float


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def parameter_rules(model: nn.Module, config: TrainConfig) -> dict[str, ParameterRule]:
    """The rule of every parameter that is trained: map learners and filters may have their own."""
    sheaf, filters = ({id(p) for p in group(model)} for group in (sheaf_parameters, filter_parameters))
    rules = {}
    for name, p in trainable(model).items():
        rate = config.sheaf_rate if id(p) in sheaf else None
        rate = config.filter_rate if id(p) in filters else rate
        decay = config.sheaf_decay if id(p) in sheaf else None
        rules[name] = ParameterRule(
            config.learning_rate if rate is None else rate, config.weight_decay if decay is None else decay
        )
    return rules


def weight_decays(model: nn.Module, config: TrainConfig) -> Tensor:
    """`[P]` the weight decay of every number that is trained."""
    return _row(model, {name: rule.decay for name, rule in parameter_rules(model, config).items()})


def rate_scales(model: nn.Module, config: TrainConfig) -> Tensor:
    """`[P]` the learning rate of every number that is trained, relative to `learning_rate`."""
    rules = parameter_rules(model, config)
    return _row(model, {name: rule.rate / config.learning_rate for name, rule in rules.items()})


def _row(model: nn.Module, values: dict[str, float]) -> Tensor:
    parts = [
        torch.full((p.numel(),), values[name], dtype=torch.float64) for name, p in trainable(model).items()
    ]
    return torch.cat(parts)


def schedule_factors(epoch: Tensor, warmup: Tensor, last_epoch: Tensor, is_cosine: Tensor) -> Tensor:
    """`[R]` the factor on all learning rates in the step that follows n epochs.

        min(1, (n + 1) / w) · ½ (1 + cos π t),   t = (n − w) / (E − w) in [0, 1],

    with w epochs of warm-up out of E; the second factor is 1 unless the schedule is the cosine.
    """
    n = to_wide(epoch)
    rise = ((n + 1) / warmup.clamp(min=1)).clamp(max=1)
    t = ((n - warmup) / (last_epoch - warmup).clamp(min=1)).clamp(0, 1)
    return rise * torch.where(is_cosine, (1 + torch.cos(math.pi * t)) / 2, 1.0)


@torch.no_grad()
def clip_rows(gradient: Tensor, limit: Tensor) -> None:
    """Shortens every row of `[R, P]` in place to a norm of limit `[R]`; infinity leaves it as it is.

    Each row as `torch.nn.utils.clip_grad_norm_` does it.
    """
    norm = torch.linalg.vector_norm(gradient, dim=-1, dtype=wide_dtype(gradient.device))
    gradient.mul_((limit / (norm + 1e-6)).clamp(max=1).to(gradient.dtype)[:, None])


def average_decays(ema: Tensor, epoch: Tensor) -> Tensor:
    """`[R]` min(ema, (1 + n) / (10 + n)) after n epochs: the start, which is arbitrary, is soon forgotten."""
    n = to_wide(epoch)
    return torch.minimum(ema, (1 + n) / (10 + n))


@torch.no_grad()
def update_average(average: Tensor, value: Tensor, decay: Tensor) -> None:
    """ā ← a + decay · (ā − a) in place on `[R, P]`, which is exactly a where decay is 0 or ā is a."""
    average.sub_(value).mul_(decay.to(average.dtype)).add_(value)
