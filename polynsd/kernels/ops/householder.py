"""Products of reflections Q = H_1 … H_d `[n, d, d]` from d(d−1)/2 numbers, as an operation with its gradient.

H_k = I − τ_k w_k w_kᵀ with τ_k = 2 / ‖w_k‖², and w_k is column k of the identity plus the numbers below its
diagonal. A rotation changes only by rotations, so of ∂Q = G only the skew part of QᵀG counts, and the
reflections take turns in it, the last one first:

    S_d = QᵀG − GᵀQ,        ∂w_k = −τ_k S_k w_k,        S_{k−1} = H_k S_k H_k = S_k + τ_k (w_k pᵀ − p w_kᵀ)

with p = S_k w_k. Nothing but the numbers and Q is kept for it.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from polynsd.kernels.ops import reference
from polynsd.kernels.ops.autograd import Gradients, differentiable
from polynsd.kernels.registry import backend_for


@custom_op("polynsd::householder", mutates_args=())
def _householder(params: Tensor, d: int) -> Tensor:
    return backend_for(params).householder(params, d)


@_householder.register_fake
def _(params: Tensor, d: int) -> Tensor:
    return params.new_empty(params.size(0), d, d)


@custom_op("polynsd::householder_gradient", mutates_args=())
def _householder_gradient(params: Tensor, Q: Tensor, G: Tensor) -> Tensor:
    return backend_for(params).householder_gradient(params, Q, G)


@_householder_gradient.register_fake
def _(params: Tensor, Q: Tensor, G: Tensor) -> Tensor:
    return torch.empty_like(params, memory_format=torch.contiguous_format)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], output)


def _backward(ctx: Any, G: Tensor) -> Gradients:
    return householder_gradient(*ctx.saved_tensors, G), None


def _gradient_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradient_backward(ctx: Any, g: Tensor) -> Gradients:
    """Second derivatives, through ordinary autograd."""
    gradients: Gradients = torch.func.vjp(reference.householder_gradient, *ctx.saved_tensors)[1](g)
    return gradients


_product = differentiable(_householder, _setup, _backward, 1)
householder_gradient = differentiable(_householder_gradient, _gradient_setup, _gradient_backward, 3)


def householder_product(params: Tensor, d: int) -> Tensor:
    """[..., d(d−1)/2] → [..., d, d]; zeros give −I."""
    lead = params.shape[:-1]
    return _product(params.reshape(prod(lead), params.size(-1)), d).reshape(*lead, d, d)
