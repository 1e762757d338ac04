"""The reference backend: plain PyTorch, any device, any dtype; the oracle of every other backend.

`block_product` is differentiable any number of times. `chebyshev_filter` computes

    y = Σ_k φ_k T_k(Ã) x,   Ã = s A − I,   T_{k+1} = 2 Ã T_k − T_{k−1},

and has a backward pass whose memory does not grow with the degree K. Only T_K and T_{K−1} are kept;
the recurrence runs backwards from them (T_{k−1} = 2 Ã T_k − T_{k+1}) beside Clenshaw's adjoint
recurrence:

    B_k = φ_k g + 2 Ã B_{k+1} − B_{k+2},          ∂x   = φ_0 g + Ã B_1 − B_2,
    ∂φ_k = ⟨T_k, g⟩,                               ∂Ã  = Σ_{k<K} a_k B_{k+1} T_kᵀ on the pattern of A,

with a_0 = 1 and a_k = 2 otherwise. Both recurrences have |T_k| ≤ 1 and |U_k| ≤ k + 1 on the
spectrum, so neither loses accuracy. The scale s carries no gradient.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from polynsd.kernels import blocks
from polynsd.kernels.operator import BlockOperator

Scale = Tensor | float


def block_product(A: BlockOperator, x: Tensor) -> Tensor:
    """A x for x `[..., N, d, C]`."""
    messages = blocks.apply(A.off, x.index_select(-3, A.col))  # [..., H, d, C]
    y = blocks.apply(A.diag, x)
    lead = torch.broadcast_shapes(y.shape[:-3], messages.shape[:-3])
    dtype = torch.promote_types(y.dtype, messages.dtype)  # they differ under autocast
    y, messages = y.to(dtype), messages.to(dtype)
    y, messages = y.expand(*lead, *y.shape[-3:]), messages.expand(*lead, *messages.shape[-3:])
    return y.index_add(-3, A.row, messages)


def chebyshev_filter(A: BlockOperator, phi: Tensor, x: Tensor, scale: Scale) -> Tensor:
    """Σ_k φ_k T_k(s A − I) x with memory independent of the degree; φ is `[..., K + 1]`."""
    y, _, _ = _ChebyshevFilter.apply(x, phi, A.diag, A.off, A.rowptr, A.row, A.col, scale)
    return y


def chebyshev_filter_autograd(A: BlockOperator, phi: Tensor, x: Tensor, scale: Scale) -> Tensor:
    """The same value through ordinary autograd, which keeps every T_k: differentiable twice."""
    return _forward(A, phi, x, scale)[0]


def _forward(A: BlockOperator, phi: Tensor, x: Tensor, scale: Scale) -> tuple[Tensor, Tensor, Tensor]:
    """(y, T_K, T_{K−1}); for K = 0 both T are x."""
    previous, current = x, x
    lead = torch.broadcast_shapes(*(t.shape[:-3] for t in (x, A.diag, A.off)), phi.shape[:-1])
    y = (_coefficient(phi, 0) * x).expand(*lead, *x.shape[-3:])
    for k in range(1, phi.size(-1)):
        step = scale * block_product(A, current) - current
        previous, current = current, step if k == 1 else 2 * step - previous
        y = y + _coefficient(phi, k) * current
    return y, current, previous


def _coefficient(phi: Tensor, k: int) -> Tensor:
    return phi[..., k, None, None, None]


class _ChebyshevFilter(Function):
    """Inputs that may need a gradient: x, φ, diag, off."""

    @staticmethod
    def forward(
        x: Tensor,
        phi: Tensor,
        diag: Tensor,
        off: Tensor,
        rowptr: Tensor,
        row: Tensor,
        col: Tensor,
        scale: Scale,
    ) -> tuple[Tensor, Tensor, Tensor]:
        y, current, previous = _forward(BlockOperator(rowptr, row, col, diag, off), phi, x, scale)
        # an output of a Function must not be one of its inputs (T_0 = x when K < 2)
        current, previous = (t.clone() if t is x else t for t in (current, previous))
        return y, current, previous

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, scale = inputs
        _, current, previous = output
        ctx.mark_non_differentiable(current, previous)
        ctx.scale_is_tensor = isinstance(scale, Tensor)
        ctx.scale = None if ctx.scale_is_tensor else scale
        ctx.save_for_backward(*tensors, current, previous, *([scale] if ctx.scale_is_tensor else []))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        g = gradients[0]
        x, phi, diag, off, rowptr, row, col, current, previous, *rest = ctx.saved_tensors
        scale = rest[0] if ctx.scale_is_tensor else ctx.scale
        A = BlockOperator(rowptr, row, col, diag, off)
        wanted = ctx.needs_input_grad[:4]
        if torch.is_grad_enabled():  # a second derivative is coming: differentiate the plain recurrence
            grads = _autograd_gradients(A, phi, x, scale, g, wanted)
        else:
            grads = _reversible_gradients(A, phi, x, scale, g, (current, previous), any(wanted[2:]))
        return *(grad if want else None for grad, want in zip(grads, wanted, strict=True)), *[None] * 4


def _autograd_gradients(
    A: BlockOperator, phi: Tensor, x: Tensor, scale: Scale, g: Tensor, wanted: tuple[bool, ...]
) -> list[Tensor | None]:
    # views, so that these are partial derivatives even where the maps depend on x
    x, phi, diag, off = (t.view_as(t) for t in (x, phi, A.diag, A.off))
    y = chebyshev_filter_autograd(A._replace(diag=diag, off=off), phi, x, scale)
    inputs = [t for t, want in zip((x, phi, diag, off), wanted, strict=True) if want]
    grads = iter(torch.autograd.grad(y, inputs, g, create_graph=True, allow_unused=True))
    return [next(grads) if want else None for want in wanted]


def _reversible_gradients(
    A: BlockOperator,
    phi: Tensor,
    x: Tensor,
    scale: Scale,
    g: Tensor,
    last: tuple[Tensor, Tensor],
    blocks_wanted: bool,
) -> list[Tensor | None]:
    """(∂x, ∂φ, ∂diag, ∂off) by running both recurrences from K down to 0."""
    T, T_below = last  # T_k, T_{k-1}
    B_above, B_above2 = torch.zeros_like(g), torch.zeros_like(g)  # B_{k+1}, B_{k+2}
    d_phi: list[Tensor] = []
    d_diag, d_off = torch.zeros_like(A.diag), torch.zeros_like(A.off)
    degree = phi.size(-1) - 1
    for k in range(degree, 0, -1):
        d_phi.append((T * g).sum((-3, -2, -1)))
        # one pass over the edges for both recurrences; T_0 = x is known, B_{K+1} = 0
        shifted_B, shifted_T = _shifted(A, scale, B_above if k < degree else None, T_below if k > 2 else None)
        B = _coefficient(phi, k) * g
        if shifted_B is not None:
            B = B + 2 * shifted_B - B_above2
        if blocks_wanted:
            at_diag, at_off = _block_gradients(A, (1 if k == 1 else 2) * scale * B, T_below)
            d_diag, d_off = d_diag + at_diag, d_off + at_off
        if k > 1:
            T, T_below = T_below, x if shifted_T is None else 2 * shifted_T - T
        B_above, B_above2 = B, B_above
    d_phi.append((x * g).sum((-3, -2, -1)))
    d_x = _coefficient(phi, 0) * g
    if degree:
        d_x = d_x + scale * block_product(A, B_above) - B_above - B_above2
    return [
        d_x.sum_to_size(x.shape),
        torch.stack(d_phi[::-1], -1).sum_to_size(phi.shape),
        d_diag,
        d_off,
    ]


def _shifted(A: BlockOperator, scale: Scale, *signals: Tensor | None) -> list[Tensor | None]:
    """Ã t for every signal that is wanted, as one product on the signals side by side."""
    wanted = [t for t in signals if t is not None]
    if not wanted:
        return [None for _ in signals]
    lead = torch.broadcast_shapes(*(t.shape[:-3] for t in wanted))
    joint = torch.cat([t.expand(*lead, *t.shape[-3:]) for t in wanted], -1)
    parts = iter((scale * block_product(A, joint) - joint).chunk(len(wanted), -1))
    return [None if t is None else next(parts) for t in signals]


def _block_gradients(A: BlockOperator, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Left rightᵀ on the pattern of A, summed over channels and to the shapes of its blocks."""
    at_nodes = blocks.outer(left, right, A.diag)
    at_edges = blocks.outer(left.index_select(-3, A.row), right.index_select(-3, A.col), A.off)
    return at_nodes.sum_to_size(A.diag.shape), at_edges.sum_to_size(A.off.shape)
