"""Linear maps x Wᵀ of replicas, with a gradient of W that fills a GPU.

∂W = gᵀ x sums over all N nodes into a small matrix. A library computes every tile of the result in one place,
which for a `[64, 64]` result of 10,000 rows leaves most of a GPU idle (300 µs on an H200 where 15 suffice). The
rows are therefore cut into pieces whose products are computed side by side and added afterwards.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from polynsd.kernels.ops.autograd import Gradients, differentiable

TILE = 64  # a product of matrices is computed in tiles of about this size
WORKERS = 512  # tiles that a large GPU computes at a time, some to spare
SHORTEST = 128  # rows of a piece


@custom_op("polynsd::linear", mutates_args=())
def _linear(x: Tensor, weight: Tensor) -> Tensor:
    return torch.matmul(x, weight.mT)


@_linear.register_fake
def _(x: Tensor, weight: Tensor) -> Tensor:
    return x.new_empty(max(x.size(0), weight.size(0)), x.size(1), weight.size(1))


@custom_op("polynsd::weight_gradient", mutates_args=())
def _weight_gradient(g: Tensor, x: Tensor) -> Tensor:
    R, N, tiles = max(g.size(0), x.size(0)), g.size(1), -(-g.size(2) // TILE) * -(-x.size(2) // TILE)
    pieces = min(WORKERS // max(R * tiles, 1), N // SHORTEST) if g.is_cuda else 1
    if pieces < 2:
        return torch.matmul(x.mT, g).mT.contiguous()
    g, x = (t.expand(R, *t.shape[1:]) for t in (g, x))
    rows = N // pieces * pieces
    inside = [t[:, :rows].unflatten(1, (pieces, -1)) for t in (x, g)]
    total = torch.matmul(inside[0].mT, inside[1]).sum(1)
    if rows < N:
        total = total + torch.matmul(x[:, rows:].mT, g[:, rows:])
    return total.mT.contiguous()


@_weight_gradient.register_fake
def _(g: Tensor, x: Tensor) -> Tensor:
    return x.new_empty(max(g.size(0), x.size(0)), g.size(2), x.size(2))


def _save_both(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _linear_backward(ctx: Any, g: Tensor) -> Gradients:
    """∂x = g W, ∂W = gᵀ x."""
    x, weight = ctx.saved_tensors
    grad_x = _sum_shared(linear_map(g, weight.mT), x) if ctx.needs_input_grad[0] else None
    return grad_x, _sum_shared(weight_gradient(g, x), weight) if ctx.needs_input_grad[1] else None


def _weight_gradient_backward(ctx: Any, G: Tensor) -> Gradients:
    """With W = gᵀ x: ∂g = x Gᵀ, ∂x = g G."""
    g, x = ctx.saved_tensors
    return _sum_shared(linear_map(x, G), g), _sum_shared(linear_map(g, G.mT), x)


def _sum_shared(grad: Tensor, like: Tensor) -> Tensor:
    """The gradient of what all replicas share is the sum of theirs."""
    return grad.sum(0, keepdim=True) if like.size(0) < grad.size(0) else grad


linear_map = differentiable(_linear, _save_both, _linear_backward, 2, shares=True)
weight_gradient = differentiable(_weight_gradient, _save_both, _weight_gradient_backward, 2, shares=True)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear` for x `[..., in]`."""
    y = linear_map(x.reshape(1, -1, x.size(-1)), weight[None])[0].reshape(*x.shape[:-1], weight.size(0))
    return y if bias is None else y + bias
