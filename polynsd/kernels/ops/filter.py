"""The polynomial filter y = Σ_k φ_k T_k(A) x as an operation, with a gradient in constant memory.

`chebyshev_filter` and `block_product` are what the rest of the library calls. They check shapes, bring
their tensors into a canonical form (one dimension of replicas, blocks of one kind, spectrum in [−1, 1]) and
call `polynsd::filter`, which leaves the work to a backend.

Rounding errors of the recurrence grow like K². Degrees above `LONGEST` are therefore computed in float64: in
float32 not even keeping every T_k would save four digits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from polynsd.devices import to_wide
from polynsd.errors import ShapeError
from polynsd.kernels.ops import blocks, edges, reference
from polynsd.kernels.ops.autograd import NO_PATTERN, Gradients, differentiable
from polynsd.kernels.ops.batching import call_on_stack, is_transformed
from polynsd.kernels.ops.drift import mend_gradients
from polynsd.kernels.ops.operator import BlockOperator, Pattern, StackedPattern
from polynsd.kernels.registry import active, backend_for

LONGEST = 64  # degree up to which float32 is enough


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
    backward = backend_for(x).filter_backward
    *grads, drift = backward(pattern, diag, off, x, phi, (last, before), g, blocks_wanted)
    return mend_gradients(
        (grads[0], grads[1], grads[2], grads[3]), drift, pattern, diag, off, x, phi, g, blocks_wanted
    )


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
    is_constant = not (blocks_wanted or ctx.needs_input_grad[3] or is_transformed())
    if is_constant:  # and as a constant p(A) is its own transpose; its derivatives by single blocks are not
        diag, off, x, phi, _, _, *pattern = saved
        return None, None, _sum_replicas(_apply_filter(diag, off, g, phi, *pattern)[0], x), None, *NO_PATTERN
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
    """Second derivatives, through ordinary autograd."""
    g, *others = ctx.saved_tensors
    primals, pattern = others[:4], Pattern(*others[4:])

    def gradients(g: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        expanded = [t.expand(g.size(0), *t.shape[1:]) for t in inputs]
        grads = torch.func.vjp(lambda *t: reference.autograd_filter(pattern, *t), *expanded)[1](g)
        return grads if ctx.blocks_wanted else grads[2:]

    wanted = cotangents if ctx.blocks_wanted else cotangents[2:]
    return *torch.func.vjp(gradients, g, *primals)[1](wanted), None, None, *NO_PATTERN, None


_apply_filter = differentiable(_filter, _filter_setup, _filter_backward, 4, shares=True)
filter_gradient = differentiable(
    _filter_gradient, _filter_gradient_setup, _filter_gradient_backward, 7, shares=True
)


def block_product(A: BlockOperator, x: Tensor) -> Tensor:
    """A x for a signal x `[..., N, d, C]`."""
    if active() == "assembled":
        return reference.assembled_product(A, x)
    return _evaluate(A, torch.arange(2, dtype=x.dtype, device=x.device), x)  # T_1(A) = A


def chebyshev_filter(A: BlockOperator, phi: Tensor, x: Tensor, scale: Tensor | float) -> Tensor:
    """Σ_k φ_k T_k(scale · A − I) x, with memory independent of the degree.

    Args:
        A: a symmetric operator whose spectrum lies in [0, 2 / scale]; see `drift.py` for others.
        phi: Chebyshev coefficients `[..., K + 1]`.
        x: signal `[..., N, d, C]`.
        scale: a number, or a tensor that broadcasts to `[..., N, 1, 1]` and is constant on every
            connected component. It carries no gradient.
    """
    if active() == "assembled":
        return reference.assembled_filter(_shift(A, scale), phi, x)
    if phi.size(-1) - 1 <= LONGEST:
        return _evaluate(_shift(A, scale), phi, x)
    wide = A._replace(diag=to_wide(A.diag), off=to_wide(A.off))
    return _evaluate(_shift(wide, scale), to_wide(phi), to_wide(x)).to(_common_dtype(A, x))


def chebyshev_filter_autograd(A: BlockOperator, phi: Tensor, x: Tensor, scale: Tensor | float) -> Tensor:
    """The same value through ordinary autograd, which keeps every T_k: the yardstick of constant memory."""
    pattern, diag, off = _shift(A, scale)
    return reference.autograd_filter(pattern, diag, off, x, phi)


def _shift(A: BlockOperator, scale: Tensor | float) -> BlockOperator:
    """The operator scale · A − I."""
    diag, off = A.diag, A.off
    largest = torch.finfo(diag.dtype).max  # where 2 / λ_max overflows; it belongs to a larger bound
    if isinstance(scale, Tensor):
        scale = scale.detach().clamp(max=min(largest, torch.finfo(scale.dtype).max))
        diag = scale * diag
        off = (scale if scale.dim() < 3 or scale.size(-3) == 1 else edges.at_rows(scale, A.pattern)) * off
    elif scale != 1.0:
        diag, off = min(scale, largest) * diag, min(scale, largest) * off
    return A._replace(diag=diag - blocks.identity_like(diag), off=off)


def tune(A: BlockOperator, phi: Tensor, x: Tensor) -> dict[str, dict[str, int]]:
    """Measures the tile sizes of the GPU kernels for tensors like these and remembers the fastest."""
    from polynsd.kernels.gpu import backend as gpu

    return gpu.tune(A.pattern, *_canonicalize(A, phi, x)[:4])


def _evaluate(A: BlockOperator, phi: Tensor, x: Tensor) -> Tensor:
    """Σ_k φ_k T_k(A) x for an operator with spectrum in [−1, 1]."""
    _check_shapes(A, phi, x)
    diag, off, signal, phi, lead = _canonicalize(A, phi, x)
    if not lead.numel():  # no replicas
        return x.new_empty(*lead, *x.shape[-3:])
    if isinstance(A.pattern, StackedPattern):
        result = _evaluate_stack(A.pattern, diag, off, signal, phi)
    else:
        result = _apply_filter(diag, off, signal, phi, *A.pattern)[0]
    return result.reshape(*lead, *x.shape[-3:])


def _evaluate_stack(pattern: StackedPattern, diag: Tensor, off: Tensor, x: Tensor, phi: Tensor) -> Tensor:
    """The same for the replicas of a `torch.vmap`, each with a graph of its own.

    They are one block-diagonal operator, but every graph has its own φ. T_k(A) x therefore come from single
    products with A, and ordinary autograd keeps them.
    """
    if x.size(0) != 1:
        raise ShapeError(f"a replica with a graph of its own has one signal; got {x.size(0)}.")

    def evaluate(diag: Tensor, off: Tensor, x: Tensor, phi: Tensor) -> Tensor:
        blocks_of_all = [t.transpose(0, 1).flatten(1, 2) for t in (diag, off)]
        multiply = torch.arange(2, dtype=x.dtype, device=x.device)[None]

        def product(T: Tensor) -> Tensor:
            whole = T.transpose(0, 1).flatten(1, 2)
            whole = _apply_filter(*blocks_of_all, whole, multiply, *pattern.whole)[0]
            return whole.unflatten(1, (len(x), -1)).transpose(0, 1)

        coefficients = phi[..., None, None, None].unbind(2)  # of [graphs, 1, N, d, C]
        before, T = x, product(x) if len(coefficients) > 1 else x
        y = coefficients[0] * x
        for k, coefficient in enumerate(coefficients[1:], start=1):
            if k > 1:
                before, T = T, 2 * product(T) - before
            y = y + coefficient * T
        return y

    return call_on_stack(evaluate, (diag, off, x, phi), pattern.num_graphs)


def _check_shapes(A: BlockOperator, phi: Tensor, x: Tensor) -> None:
    """Raises unless the shapes fit and all is on one device: kernels look at addresses, not at shapes."""
    N, H = A.pattern.num_nodes, A.pattern.num_half_edges
    if min(x.dim(), A.diag.dim(), A.off.dim()) < 3 or phi.dim() < 1 or not phi.size(-1):
        raise ShapeError("expected a signal [..., N, d, C], blocks [..., N | H, d, d] and φ [..., K + 1].")
    if (x.size(-3), A.diag.size(-3), A.off.size(-3)) != (N, N, H):
        raise ShapeError(
            f"an operator on {N} nodes and {H} half-edges needs a signal and diagonal blocks for {N} nodes "
            f"and {H} other blocks; got {x.size(-3)}, {A.diag.size(-3)} and {A.off.size(-3)}."
        )
    d = x.size(-2)
    for block in (A.diag, A.off):
        if tuple(block.shape[-2:]) not in {(d, d), (d, 1), (1, 1)}:
            raise ShapeError(f"blocks for stalks of dimension {d} expected; got {list(block.shape[-2:])}.")
    devices = {str(t.device) for t in (A.pattern.row, A.diag, A.off, x, phi)}
    if len(devices) > 1:
        raise ShapeError(f"operator and signal must be on one device; got {', '.join(sorted(devices))}.")


def _canonicalize(
    A: BlockOperator, phi: Tensor, x: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, torch.Size]:
    """(diag, off, x, φ) with blocks of one kind, one dtype, and one leading dimension for `lead`."""
    diag, off, signal = _unify_blocks(A.diag, A.off, x)
    lead = torch.broadcast_shapes(*(t.shape[:-3] for t in (diag, off, signal)), phi.shape[:-1])
    dtype = _common_dtype(A, x)
    diag, off, signal = (_stack_replicas(t.to(dtype), lead, 3) for t in (diag, off, signal))
    return diag, off, signal, _stack_replicas(phi.to(dtype), lead, 1), lead


def _common_dtype(A: BlockOperator, x: Tensor) -> torch.dtype:
    return torch.promote_types(torch.promote_types(A.diag.dtype, A.off.dtype), x.dtype)


def _unify_blocks(diag: Tensor, off: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    d = x.size(-2)
    if diag.size(-2) == off.size(-2) == 1:  # one scalar operator for all coordinates: they are channels
        return diag, off, x.flatten(-2).unsqueeze(-2)
    if blocks.is_elementwise(diag) and blocks.is_elementwise(off):
        diag, off = (t.expand(*t.shape[:-2], d, 1) for t in (diag, off))
        return diag, off, x
    return blocks.to_dense(diag, d), blocks.to_dense(off, d), x


def _stack_replicas(t: Tensor, lead: torch.Size, rank: int) -> Tensor:
    """[..., *] → [R, *], or [1, *] where all replicas share it."""
    replicas, item = t.shape[: t.dim() - rank], t.shape[t.dim() - rank :]
    if all(size == 1 for size in replicas):
        return t.reshape(1, *item)
    return t.expand(*lead, *item).reshape(lead.numel(), *item)
