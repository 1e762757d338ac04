"""The learning rate and the weight decay of every parameter: map learners may have their own."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from polynsd.config import TrainConfig
from polynsd.nn.models import sheaf_parameters


class ParameterRule(NamedTuple):
    """How one parameter is trained."""

    rate: float
    decay: float


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def parameter_rules(model: nn.Module, config: TrainConfig) -> dict[str, ParameterRule]:
    """The rule of every parameter that is trained."""
    rest = ParameterRule(config.learning_rate, config.weight_decay)
    learner = ParameterRule(
        rest.rate if config.sheaf_rate is None else config.sheaf_rate,
        rest.decay if config.sheaf_decay is None else config.sheaf_decay,
    )
    of_learners = {id(p) for p in sheaf_parameters(model)}
    return {name: learner if id(p) in of_learners else rest for name, p in trainable(model).items()}


def weight_decays(model: nn.Module, config: TrainConfig) -> list[float]:
    """Of every parameter that is trained, in their order."""
    return [rule.decay for rule in parameter_rules(model, config).values()]


def rate_scales(model: nn.Module, config: TrainConfig) -> list[float]:
    """The learning rate of every parameter that is trained, relative to `learning_rate`, in their order."""
    return [rule.rate / config.learning_rate for rule in parameter_rules(model, config).values()]
