"""The polynomial filter as an operation: y = Σ_k φ_k T_k(A) x, and its gradient in constant memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from polynsd.kernels.ops import plain
from polynsd.kernels.ops.custom import NO_PATTERN, Gradients, differentiable
from polynsd.kernels.ops.operator import Pattern
from polynsd.kernels.registry import backend_for


@custom_op("polynsd::filter", mutates_args=())
def _filter(
    diag: Tensor,
    off: Tensor,
    x: Tensor,
    phi: Tensor,
    rowptr: Tensor,
    row: Tensor,
    col: Tensor,
    twin: Tensor,
    tasks: Tensor,
    splits: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    pattern = Pattern(rowptr, row, col, twin, tasks, splits)
    return backend_for(x).filter_forward(pattern, diag, off, x, phi)


@_filter.register_fake
def _(diag: Tensor, off: Tensor, x: Tensor, phi: Tensor, *pattern: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = x.new_empty(_replicas(diag, off, x, phi), *x.shape[1:])
    last, before = (torch.empty_like(y) if phi.size(-1) > k else y.new_empty(y.size(0), 0) for k in (1, 2))
    return y, last, before


@custom_op("polynsd::filter_gradient", mutates_args=())
def _filter_gradient(
    g: Tensor,
    diag: Tensor,
    off: Tensor,
    x: Tensor,
    phi: Tensor,
    last: Tensor,
    before: Tensor,
    rowptr: Tensor,
    row: Tensor,
    col: Tensor,
    twin: Tensor,
    tasks: Tensor,
    splits: Tensor,
    blocks_wanted: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    pattern = Pattern(rowptr, row, col, twin, tasks, splits)
    R = _replicas(g, diag, off, x, phi, last, before)
    g, last, before = (t.expand(R, *t.shape[1:]).contiguous() for t in (g, last, before))
    return backend_for(x).filter_backward(pattern, diag, off, x, phi, (last, before), g, blocks_wanted)


@_filter_gradient.register_fake
def _(
    g: Tensor, diag: Tensor, off: Tensor, x: Tensor, phi: Tensor, last: Tensor, before: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    R, blocks_wanted = _replicas(g, diag, off, x, phi, last, before), rest[-1]
    diag_shape, off_shape = (t.shape[1:] if blocks_wanted else (0,) for t in (diag, off))
    shapes = (diag_shape, off_shape, x.shape[1:], phi.shape[1:])
    return tuple(g.new_empty(R, *shape) for shape in shapes)


def _replicas(*tensors: Tensor) -> int:
    return max(t.size(0) for t in tensors)


def _filter_setup(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:4], *output[1:], *inputs[4:])


def _filter_backward(ctx: Any, g: Tensor | None, *others: Tensor | None) -> Gradients:
    if g is None:
        return (None,) * (4 + len(NO_PATTERN))
    saved = ctx.saved_tensors  # asked for once: under checkpointing they are computed anew then
    blocks_wanted = any(ctx.needs_input_grad[:2])
    grads = filter_gradient(g, *saved, blocks_wanted)
    summed = [
        _sum_replicas(grad, t) if needed else None
        for grad, t, needed in zip(grads, saved[:4], ctx.needs_input_grad, strict=False)
    ]
    return *summed, *NO_PATTERN


def _sum_replicas(grad: Tensor, like: Tensor) -> Tensor:
    """The gradient of what all replicas share is the sum of theirs."""
    return grad.sum(0, keepdim=True) if like.size(0) < grad.size(0) else grad


def _filter_gradient_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.blocks_wanted = inputs[-1]
    ctx.save_for_backward(*inputs[:5], *inputs[7:-1])


def _filter_gradient_backward(ctx: Any, *cotangents: Tensor) -> Gradients:
    """Second derivatives, through the plain recurrence."""
    g, *others = ctx.saved_tensors
    primals, pattern = others[:4], Pattern(*others[4:])

    def gradients(g: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        expanded = [t.expand(g.size(0), *t.shape[1:]) for t in inputs]
        grads = torch.func.vjp(lambda *t: plain.chebyshev_filter(pattern, *t), *expanded)[1](g)
        return grads if ctx.blocks_wanted else grads[2:]

    wanted = cotangents if ctx.blocks_wanted else cotangents[2:]
    return *torch.func.vjp(gradients, g, *primals)[1](wanted), None, None, *NO_PATTERN, None


_apply_filter = differentiable(_filter, _filter_setup, _filter_backward, 4, shares=True)
filter_gradient = differentiable(
    _filter_gradient, _filter_gradient_setup, _filter_gradient_backward, 7, shares=True
)


def polynomial(pattern: Pattern, diag: Tensor, off: Tensor, x: Tensor, phi: Tensor) -> Tensor:
    """Σ_k φ_k T_k(A) x on tensors with a dimension of replicas."""
    return _apply_filter(diag, off, x, phi, *pattern)[0]
