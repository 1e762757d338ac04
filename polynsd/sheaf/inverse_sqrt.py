"""Inverse square roots of small symmetric positive definite blocks, with a bounded gradient.

The gradient of an eigendecomposition divides by λ_i − λ_j and explodes when eigenvalues meet, which
they do at D = I, i.e. everywhere with orthogonal maps. The root itself is smooth there: from S A S
= I follows the Lyapunov equation

    S dS + dS S = −S² dA S²,

whose solution divides by s_i + s_j > 0 only. Both functions below are differentiable any number of
times.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


def inverse_sqrt(A: Tensor) -> Tensor:
    """A^{−1/2} for symmetric positive definite `[..., d, d]`."""
    if A.dtype in (torch.float16, torch.bfloat16):  # which eigh does not know
        return inverse_sqrt(A.float()).to(A.dtype)
    return _InverseSqrt.apply(A)


def lyapunov(S: Tensor, X: Tensor) -> Tensor:
    """The solution Y of S Y + Y S = X for symmetric positive definite S."""
    return _Lyapunov.apply(S, X)


class _InverseSqrt(Function):
    @staticmethod
    def forward(A: Tensor) -> Tensor:
        values, Q = torch.linalg.eigh(A)
        return (Q * values.rsqrt()[..., None, :]) @ Q.mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (S,) = ctx.saved_tensors
        g = (gradients[0] + gradients[0].mT) / 2
        S2 = S @ S
        return -S2 @ lyapunov(S, g) @ S2


class _Lyapunov(Function):
    @staticmethod
    def forward(S: Tensor, X: Tensor) -> Tensor:
        values, Q = torch.linalg.eigh(S)
        sums = values[..., :, None] + values[..., None, :]
        return Q @ ((Q.mT @ X @ Q) / sums) @ Q.mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        S, Y = ctx.saved_tensors
        Z = lyapunov(S, gradients[0])
        return -(Z @ Y.mT + Y.mT @ Z), Z
