"""Adam for replicas: one flat row of parameters each, with rates and weight decays of their own.

    m ← β₁ m + (1 − β₁) g,   v ← β₂ v + (1 − β₂) g²,   θ ← θ − η m̂ / (√v̂ + ε),   g = ∂θ + decay · θ

as `torch.optim.Adam` does it. All state is on the device, so that a step can be recorded.
"""

from __future__ import annotations

import torch
from torch import Tensor

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


@torch.no_grad()
def adam_step(
    theta: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, number: Tensor, rate: Tensor, decay: Tensor
) -> None:
    """Updates θ, m and v in place.

    Args:
        theta: parameters `[R, P]`.
        gradient: `[R, P]`; it is written to.
        mean: m `[R, P]`.
        square: v `[R, P]`.
        number: of the step, from 1 on; an integer without dimensions.
        rate: η, float64 `[R]`.
        decay: `[R, P]`.
    """
    gradient.addcmul_(decay, theta)
    mean.lerp_(gradient, 1 - BETA1)
    square.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
    step = (rate / (1 - BETA1 ** number.double())).to(theta.dtype)[:, None]
    correction = (1 - BETA2 ** number.double()).rsqrt().to(theta.dtype)
    root = torch.sqrt(square, out=gradient).mul_(correction).add_(EPSILON)
    theta.addcdiv_(-step * mean, root)
