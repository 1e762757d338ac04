"""Linear maps x Wᵀ of replicas, with a gradient of W that fills a GPU.

∂W = gᵀ x sums over all N nodes into a small matrix. A library computes every tile of the result in one
place, which for a `[64, 64]` result of 10,000 rows leaves most of a GPU idle (300 µs on an H200 where 20
suffice). The rows are therefore cut into pieces, whose products are computed side by side and then added.
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
    R, N = max(g.size(0), x.size(0)), g.size(1)
    tiles = R * -(-g.size(2) // TILE) * -(-x.size(2) // TILE)
    most = min(WORKERS // max(tiles, 1), N // SHORTEST) if g.is_cuda else 1
    return sum_of_products(g, x, _count_pieces(N, most)).mT.contiguous()


def _count_pieces(rows: int, most: int) -> int:
    """At most so many; equal ones where rows can be divided so, because the rest would have to be copied."""
    return next((count for count in range(most, most // 2, -1) if rows % count == 0), max(most, 1))


def sum_of_products(g: Tensor, x: Tensor, pieces: int) -> Tensor:
    """xᵀ g `[R, in, out]` of g `[R, N, out]` and x `[R, N, in]`, computed in pieces of the rows."""
    if pieces < 2:
        return torch.matmul(x.mT, g)
    R, rows = max(g.size(0), x.size(0)), g.size(1) // pieces * pieces
    g, x = (t.expand(R, *t.shape[1:]) for t in (g, x))
    cut_x, cut_g = (t[:, :rows].unflatten(1, (pieces, -1)) for t in (x, g))
    total = torch.matmul(cut_x.mT, cut_g).sum(1)
    rest = (x[:, rows:], g[:, rows:])
    return total + torch.matmul(rest[0].mT, rest[1]) if rest[0].size(1) else total


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
