"""Layers without mixing on a given Laplacian: the setting of the paper's statements about one layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from polynsd.config import LayerConfig
from polynsd.nn.layer import SheafLayer
from polynsd.testing.samples import random_tensor

LAM = torch.linspace(0, 2, 401, dtype=torch.float64)


def plain_layer(d: int = 1, **options: Any) -> SheafLayer:
    """One channel, no mixing, φ = identity, unless told otherwise."""
    plain = {"mixing": "none", "activation": "identity", "maps": "identity", "stalk_dim": d}
    return SheafLayer(1, LayerConfig(**{**plain, **options})).double().requires_grad_(False)


def randomised(layer: SheafLayer, seed: int) -> SheafLayer:
    """The layer with standard normal θ, α and ε."""
    for number, parameter in enumerate(layer.parameters()):
        parameter.copy_(random_tensor(*parameter.shape, seed=1000 * number + seed))
    return layer


def set_layer(layer: SheafLayer, theta: Any = None, alpha: Any = None, epsilon: Any = None) -> SheafLayer:
    """Writes given numbers into the filter and the gate."""
    values = ((layer.filter.theta, theta), (layer.filter.alpha, alpha), (layer.epsilon, epsilon))
    for parameter, value in values:
        if value is not None:
            assert isinstance(parameter, Tensor)
            parameter.copy_(torch.as_tensor(value, dtype=torch.float64).expand_as(parameter))
    return layer


def only(k: int, degree: int) -> Tensor:
    """Logits whose softmax puts all weight on B_k."""
    return torch.full((degree + 1,), -800.0).index_fill(0, torch.tensor(k), 0.0)
