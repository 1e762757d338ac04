"""Dropout whose mask is a function of its key: no generator, no mask in memory, replicas apart.

Entry i of a replica is kept where hash(i, key) ≥ rate · 2³², and divided by 1 − rate then. The hash of
32 bits is a bijection in which every bit of the input moves about half of the output's.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.library import custom_op

from polynsd.kernels.ops.custom import Gradients, differentiable
from polynsd.kernels.registry import backend_for


@custom_op("polynsd::dropout", mutates_args=())
def _dropout(x: Tensor, key: Tensor, rate: Tensor) -> Tensor:
    return backend_for(x).dropout(x, key, rate)


@_dropout.register_fake
def _(x: Tensor, key: Tensor, rate: Tensor) -> Tensor:
    return x.new_empty(max(x.size(0), key.size(0)), x.size(1))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, *rest = inputs
    ctx.is_shared = x.size(0) < output.size(0)
    ctx.save_for_backward(*rest)


def _backward(ctx: Any, g: Tensor) -> Gradients:
    """∂x = dropout(g): the operation is linear, and its matrix is diagonal."""
    grad = keyed_dropout(g, *ctx.saved_tensors)
    return grad.sum(0, keepdim=True) if ctx.is_shared else grad, None, None


keyed_dropout = differentiable(_dropout, _setup, _backward, 3, shares=True)


def dropout(x: Tensor, key: Tensor, rate: Tensor) -> Tensor:
    """The numbers of x, a share of them set to zero.

    Args:
        x: any shape, fewer than 2³² numbers.
        key: integer without dimensions, in [0, 2³²).
        rate: float64 without dimensions, in [0, 1].
    """
    assert x.numel() < 2**32
    return keyed_dropout(x.reshape(1, -1), key.reshape(1), rate.reshape(1)).reshape(x.shape)


def mixed(z: Tensor) -> Tensor:
    """The hash of 32-bit numbers that are held in int64."""
    low = 0xFFFFFFFF
    z = z & low
    z = ((z ^ (z >> 16)) * 0x7FEB352D) & low
    z = ((z ^ (z >> 15)) * 0x846CA68B) & low
    return z ^ (z >> 16)
