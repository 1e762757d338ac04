"""What an epoch does to the parameters of replicas, in one pass over them; nothing here is differentiated.

    m ← β₁ m + (1 − β₁) g,   v ← β₂ v + (1 − β₂) g²,   θ ← θ − η m̂ / (√v̂ + ε),   g = ∂θ + decay · θ

is Adam as `torch.optim.Adam` does it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polynsd.kernels.registry import backend_for

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


@torch.no_grad()
def adam(
    theta: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, decay: Tensor, rate: Tensor, number: Tensor
) -> None:
    """Updates θ, m and v in place.

    Args:
        theta: parameters `[R, P]`, contiguous as all of them.
        gradient: `[R, P]`.
        mean: m `[R, P]`.
        square: v `[R, P]`.
        decay: `[R, P]`.
        rate: η, float64 `[R]`.
        number: of the step, from 1 on; an integer without dimensions.
    """
    steps = number.double()
    factors = torch.stack([rate / (1 - BETA1**steps), (1 - BETA2**steps).rsqrt().expand_as(rate)], -1)
    backend_for(theta).adam(theta, gradient, mean, square, decay, factors)


@torch.no_grad()
def copy_rows(target: Tensor, source: Tensor, wanted: Tensor) -> None:
    """target[r] = source[r] where wanted[r], for `[R, P]` and `[R]`."""
    backend_for(target).copy_rows(target, source, wanted)
