"""Between nodes and half-edges: gather at the ends, sum at the nodes, swap the halves of an edge.

Each is the other's adjoint, so no gradient needs a scatter with atomics. `dim` is the place of the
node or half-edge dimension, counted from the end; what follows it is carried along.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from polynsd.errors import ShapeError
from polynsd.kernels.ops.autograd import NO_PATTERN, differentiable
from polynsd.kernels.ops.batching import call_on_stack
from polynsd.kernels.ops.operator import Pattern, StackedPattern
from polynsd.kernels.registry import backend_for


@custom_op("polynsd::gather", mutates_args=())
def _gather(
    values: Tensor,
    rowptr: Tensor,
    row: Tensor,
    col: Tensor,
    twin: Tensor,
    tasks: Tensor,
    splits: Tensor,
    by_col: bool,
) -> Tensor:
    return backend_for(values).take(values, col if by_col else row)


@_gather.register_fake
def _(values: Tensor, rowptr: Tensor, row: Tensor, *rest: Any) -> Tensor:
    return values.new_empty(values.size(0), row.size(0), values.size(2))


@custom_op("polynsd::segment_sum", mutates_args=())
def _segment_sum(
    values: Tensor,
    rowptr: Tensor,
    row: Tensor,
    col: Tensor,
    twin: Tensor,
    tasks: Tensor,
    splits: Tensor,
    by_col: bool,
) -> Tensor:
    pattern = Pattern(rowptr, row, col, twin, tasks, splits)
    return backend_for(values).segment_sum(pattern, values, by_col)


@_segment_sum.register_fake
def _(values: Tensor, rowptr: Tensor, *rest: Any) -> Tensor:
    return values.new_empty(values.size(0), rowptr.size(0) - 1, values.size(2))


@custom_op("polynsd::swap", mutates_args=())
def _swap(values: Tensor, twin: Tensor) -> Tensor:
    return backend_for(values).take(values, twin)


@_swap.register_fake
def _(values: Tensor, twin: Tensor) -> Tensor:
    return torch.empty_like(values, memory_format=torch.contiguous_format)


def _keep_structure(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *structure, ctx.by_col = inputs[1:]
    ctx.save_for_backward(*structure)


gather: Any = differentiable(
    _gather,
    _keep_structure,
    lambda ctx, g: (segment_sum(g, *ctx.saved_tensors, ctx.by_col), *NO_PATTERN, None),
    1,
)
segment_sum: Any = differentiable(
    _segment_sum,
    _keep_structure,
    lambda ctx, g: (gather(g, *ctx.saved_tensors, ctx.by_col), *NO_PATTERN, None),
    1,
)
swap: Any = differentiable(
    _swap,
    lambda ctx, inputs, output: ctx.save_for_backward(inputs[1]),
    lambda ctx, g: (swap(g, *ctx.saved_tensors), None),
    1,
)


def at_rows(values: Tensor, pattern: Pattern, dim: int = -3) -> Tensor:
    """Values of the nodes that own the half-edges: `values[row]`."""
    return _on_flat(lambda flat: gather(flat, *pattern, False), values, pattern, pattern.num_nodes, dim)


def at_columns(values: Tensor, pattern: Pattern, dim: int = -3) -> Tensor:
    """Values of the neighbours: `values[col]`."""
    return _on_flat(lambda flat: gather(flat, *pattern, True), values, pattern, pattern.num_nodes, dim)


def sum_at_nodes(values: Tensor, pattern: Pattern, dim: int = -3) -> Tensor:
    """Σ over the half-edges that a node owns."""
    return _on_flat(
        lambda flat: segment_sum(flat, *pattern, False), values, pattern, pattern.num_half_edges, dim
    )


def max_at_nodes(values: Tensor, pattern: Pattern, row: Tensor, dim: int = -3) -> Tensor:
    """The greatest of the half-edges that a node owns, −∞ where it owns none; without gradient.

    PyTorch takes it with atomics, but a maximum does not depend on the order. `row` is the pattern's
    in int64.
    """

    def maximum(flat: Tensor) -> Tensor:
        lowest = flat.new_full((flat.size(0), pattern.rowptr.numel() - 1, flat.size(2)), -torch.inf)
        return lowest.scatter_reduce(1, row[None, :, None].expand_as(flat), flat, "amax")

    return _on_flat(maximum, values.detach(), pattern, pattern.num_half_edges, dim)


def swap_halves(values: Tensor, pattern: Pattern, dim: int = -3) -> Tensor:
    """The value of the other half of every edge: `values[twin]`."""
    return _on_flat(lambda flat: swap(flat, pattern.twin), values, pattern, pattern.num_half_edges, dim)


def _on_flat(
    operation: Callable[[Tensor], Tensor], values: Tensor, pattern: Pattern, count: int, dim: int
) -> Tensor:
    """The operation on `[R, count, F]`; kernels look at addresses, so shapes and devices are checked here."""
    if values.size(dim) != count or values.device != pattern.row.device:
        raise ShapeError(
            f"expected {count} values on {pattern.row.device}; got {values.size(dim)} on {values.device}."
        )
    tail = values.shape[dim:][1:]
    flat = values.reshape(values.shape[:dim].numel(), count, tail.numel())
    if isinstance(pattern, StackedPattern):
        result = call_on_stack(lambda stack: _on_stack(operation, stack), (flat,), pattern.num_graphs)
    else:
        result = operation(flat)
    return result.reshape(*values.shape[:dim], result.size(1), *tail)


def _on_stack(operation: Callable[[Tensor], Tensor], stack: Tensor) -> Tensor:
    """The operation on the block-diagonal graph, for values `[graphs, R, count, F]`."""
    whole = operation(stack.transpose(0, 1).flatten(1, 2))
    return whole.unflatten(1, (len(stack), -1)).transpose(0, 1)
