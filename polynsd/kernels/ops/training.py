"""Operations of training beside the filter: dropout by key, Adam on rows, sparse features.

All of them work on R replicas at a time.

* `dropout`: the mask is a function of a key, so there is no generator and no mask in memory, and a replica
  draws the same numbers alone and in company. Entry i is kept where hash(i, key) ≥ rate · 2³², and divided by
  1 − rate then. The hash of 32 bits is a bijection in which every bit of the input moves about half of the
  output's.
* `adam`, `copy_rows`: what an epoch does to the parameters, in one pass over them. Nothing is differentiated.

      m ← β₁ m + (1 − β₁) g,   v ← β₂ v + (1 − β₂) g²,   θ ← θ − η s m̂ / (√v̂ + ε),   g = ∂θ + decay · θ

  is Adam as `torch.optim.Adam` does it; s is 1 but for parameters with a learning rate of their own.
* `sparse_product`: X z for a sparse matrix X of constants, such as a bag of words.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from polynsd.devices import to_wide
from polynsd.kernels.ops.autograd import Gradients, differentiable
from polynsd.kernels.ops.operator import Csr
from polynsd.kernels.registry import backend_for

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


@custom_op("polynsd::dropout", mutates_args=())
def _dropout(x: Tensor, key: Tensor, rate: Tensor) -> Tensor:
    key, rate = (t.contiguous() for t in torch.broadcast_tensors(key, rate))  # one may be that of all
    return backend_for(x).dropout(x, key, rate)


@_dropout.register_fake
def _(x: Tensor, key: Tensor, rate: Tensor) -> Tensor:
    return x.new_empty(max(x.size(0), key.size(0), rate.size(0)), x.size(1))


def _dropout_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, *rest = inputs
    ctx.is_shared = x.size(0) < output.size(0)
    ctx.save_for_backward(*rest)


def _dropout_backward(ctx: Any, g: Tensor) -> Gradients:
    """∂x = dropout(g): the operation is linear, and its matrix is diagonal."""
    grad = keyed_dropout(g, *ctx.saved_tensors)
    return grad.sum(0, keepdim=True) if ctx.is_shared else grad, None, None


keyed_dropout = differentiable(_dropout, _dropout_setup, _dropout_backward, 3, shares=True)


def dropout(x: Tensor, key: Tensor, rate: Tensor) -> Tensor:
    """The numbers of x, a share of them set to zero.

    Args:
        x: any shape, fewer than 2³² numbers.
        key: integer without dimensions, in [0, 2³²).
        rate: float64 without dimensions, in [0, 1].
    """
    assert x.numel() < 2**32
    return keyed_dropout(x.reshape(1, -1), key.reshape(1), rate.reshape(1)).reshape(x.shape)


def hash32(z: Tensor) -> Tensor:
    """The hash of 32-bit numbers that are held in int64."""
    low = 0xFFFFFFFF
    z = z & low
    z = ((z ^ (z >> 16)) * 0x7FEB352D) & low
    z = ((z ^ (z >> 15)) * 0x846CA68B) & low
    return z ^ (z >> 16)


@torch.no_grad()
def adam(
    theta: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    decay: Tensor,
    scale: Tensor,
    rate: Tensor,
    number: Tensor,
) -> None:
    """Updates θ, m and v in place.

    Args:
        theta: parameters `[R, P]`, contiguous as all of them.
        gradient: `[R, P]`.
        mean: m `[R, P]`.
        square: v `[R, P]`.
        decay: `[R, P]`.
        scale: s `[R, P]`.
        rate: η, float64 `[R]`.
        number: of the step, from 1 on; an integer without dimensions.
    """
    steps = to_wide(number)
    factors = torch.stack([rate / (1 - BETA1**steps), (1 - BETA2**steps).rsqrt().expand_as(rate)], -1)
    backend_for(theta).adam(theta, gradient, mean, square, decay, scale, factors)


@torch.no_grad()
def copy_rows(target: Tensor, source: Tensor, wanted: Tensor) -> None:
    """target[r] = source[r] where wanted[r], for `[R, P]` and `[R]`."""
    backend_for(target).copy_rows(target, source, wanted)


@custom_op("polynsd::csr_product", mutates_args=())
def _csr_product(
    values: Tensor,
    z: Tensor,
    rowptr: Tensor,
    col: Tensor,
    entry: Tensor,
    t_rowptr: Tensor,
    t_col: Tensor,
    t_entry: Tensor,
) -> Tensor:
    return backend_for(z).csr_product(Csr(rowptr, col, entry), values, z)


@_csr_product.register_fake
def _(values: Tensor, z: Tensor, rowptr: Tensor, *rest: Tensor) -> Tensor:
    return z.new_empty(max(values.size(0), z.size(0)), rowptr.size(0) - 1, z.size(2))


def _csr_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    values, z, *structure = inputs
    ctx.is_shared = z.size(0) < output.size(0)
    ctx.save_for_backward(values, *structure)


def _csr_backward(ctx: Any, g: Tensor) -> Gradients:
    """∂z = Xᵀ g."""
    values, *structure = ctx.saved_tensors
    grad = csr_product(values, g, *structure[3:], *structure[:3])
    return None, grad.sum(0, keepdim=True) if ctx.is_shared else grad, *[None] * len(structure)


csr_product = differentiable(_csr_product, _csr_setup, _csr_backward, 2, shares=True)


def sparse_product(matrix: Csr, transposed: Csr, values: Tensor, z: Tensor) -> Tensor:
    """X z for z `[F, C]`, with the numbers `[nnz]` of X; they are constants, only z has a gradient."""
    return csr_product(values[None], z[None], *matrix, *transposed)[0]
