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

from polynsd.kernels.ops import blocks


def inverse_sqrt(A: Tensor) -> Tensor:
    """A^{−1/2} for symmetric positive definite `[..., d, d]`."""
    if A.dtype in (torch.float16, torch.bfloat16):  # which eigh does not know
        return inverse_sqrt(A.float()).to(A.dtype)
    return _InverseSqrt.apply(A)[0]


def lyapunov(S: Tensor, X: Tensor) -> Tensor:
    """The solution Y of S Y + Y S = X for symmetric positive definite S."""
    return _Lyapunov.apply(S, X)


class _InverseSqrt(Function):
    """In the eigenbasis of A, ∂A_ij = −s_i² s_j² / (s_i + s_j) g_ij."""

    generate_vmap_rule = True

    @staticmethod
    def forward(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        values, Q = blocks.eigh(A)
        s = values.rsqrt()
        return blocks.matmul(Q * s[..., None, :], Q, False, True), s, Q

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        S, s, Q = ctx.saved_tensors
        g = (gradients[0] + gradients[0].mT) / 2
        if torch.is_grad_enabled():  # a second derivative may come: Q has none, S has
            S2 = blocks.matmul(S, S)
            return -blocks.matmul(blocks.matmul(S2, lyapunov(S, g)), S2)
        squares = s.square()[..., :, None] * s.square()[..., None, :]
        weights = squares / (s[..., :, None] + s[..., None, :])
        rotated = blocks.matmul(blocks.matmul(Q, g, True), Q)
        return -blocks.matmul(blocks.matmul(Q, weights * rotated), Q, False, True)


class _Lyapunov(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(S: Tensor, X: Tensor) -> Tensor:
        values, Q = blocks.eigh(S)
        sums = values[..., :, None] + values[..., None, :]
        rotated = blocks.matmul(blocks.matmul(Q, X, True), Q)
        return blocks.matmul(blocks.matmul(Q, rotated / sums), Q, False, True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        S, Y = ctx.saved_tensors
        Z = lyapunov(S, gradients[0])
        return -(Z @ Y.mT + Y.mT @ Z), Z
