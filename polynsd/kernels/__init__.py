"""The hot path behind one narrow seam: a few operations on tensors, and a choice of who computes them.

Everything above this room calls the functions below; a backend is a module that provides what
`Backend` asks for. Backends know tensors (`BlockOperator`), not sheaves.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polynsd.errors import ShapeError
from polynsd.kernels.ops import assembled, blocks, edges, plain, series
from polynsd.kernels.ops.operator import BlockOperator, Pattern
from polynsd.kernels.registry import Backend, available, chosen, use

__all__ = [
    "Backend",
    "BlockOperator",
    "Pattern",
    "available",
    "block_product",
    "chebyshev_filter",
    "chebyshev_filter_autograd",
    "chosen",
    "tune",
    "use",
]


def block_product(A: BlockOperator, x: Tensor) -> Tensor:
    """A x for a signal x `[..., N, d, C]`."""
    if chosen() == "assembled":
        return assembled.block_product(A, x)
    return _polynomial(A, torch.arange(2, dtype=x.dtype, device=x.device), x)  # T_1(A) = A


def chebyshev_filter(A: BlockOperator, phi: Tensor, x: Tensor, scale: Tensor | float) -> Tensor:
    """Σ_k φ_k T_k(scale · A − I) x, with memory independent of the degree.

    Args:
        A: a symmetric operator whose spectrum lies in [0, 2 / scale].
        phi: Chebyshev coefficients `[..., K + 1]`.
        x: signal `[..., N, d, C]`.
        scale: a number, or a tensor that broadcasts to `[..., N, 1, 1]` and is constant on every
            connected component. It carries no gradient.
    """
    shifted = _shifted(A, scale)
    if chosen() == "assembled":
        return assembled.chebyshev_filter(shifted, phi, x)
    return _polynomial(shifted, phi, x)


def chebyshev_filter_autograd(A: BlockOperator, phi: Tensor, x: Tensor, scale: Tensor | float) -> Tensor:
    """The same value through ordinary autograd, which keeps every T_k: the yardstick of constant memory."""
    pattern, diag, off = _shifted(A, scale)
    return plain.chebyshev_filter(pattern, diag, off, x, phi)


def _shifted(A: BlockOperator, scale: Tensor | float) -> BlockOperator:
    """Scale · A − I."""
    diag, off = A.diag, A.off
    if isinstance(scale, Tensor):
        scale = scale.detach()
        diag = scale * diag
        off = (scale if scale.dim() < 3 or scale.size(-3) == 1 else edges.at_rows(scale, A.pattern)) * off
    elif scale != 1.0:
        diag, off = scale * diag, scale * off
    return A._replace(diag=diag - blocks.identity_like(diag), off=off)


def tune(A: BlockOperator, phi: Tensor, x: Tensor) -> dict[str, dict[str, int]]:
    """Measures the tile sizes of the GPU kernels for tensors like these and remembers the fastest."""
    from polynsd.kernels.gpu import backend as gpu

    return gpu.tune(A.pattern, *_canonical(A, phi, x)[:4])


def _polynomial(A: BlockOperator, phi: Tensor, x: Tensor) -> Tensor:
    """Σ_k φ_k T_k(A) x."""
    _check(A, phi, x)
    diag, off, signal, phi, lead = _canonical(A, phi, x)
    if not lead.numel():  # no replicas
        return x.new_empty(*lead, *x.shape[-3:])
    return series.polynomial(A.pattern, diag, off, signal, phi).reshape(*lead, *x.shape[-3:])


def _check(A: BlockOperator, phi: Tensor, x: Tensor) -> None:
    """Raises unless the shapes fit and all is on one device: kernels look at addresses, not at shapes."""
    N, H = A.pattern.num_nodes, A.pattern.row.numel()
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


def _canonical(A: BlockOperator, phi: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, torch.Size]:
    """(diag, off, x, φ) with blocks of one kind, one dtype, and one leading dimension for `lead`."""
    diag, off, signal = _unified(A.diag, A.off, x)
    lead = torch.broadcast_shapes(*(t.shape[:-3] for t in (diag, off, signal)), phi.shape[:-1])
    dtype = torch.promote_types(torch.promote_types(diag.dtype, off.dtype), signal.dtype)
    diag, off, signal = (_stacked(t.to(dtype), lead, 3) for t in (diag, off, signal))
    return diag, off, signal, _stacked(phi.to(dtype), lead, 1), lead


def _unified(diag: Tensor, off: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    d = x.size(-2)
    if diag.size(-2) == off.size(-2) == 1:  # one scalar operator for all coordinates: they are channels
        return diag, off, x.flatten(-2).unsqueeze(-2)
    if blocks.is_elementwise(diag) and blocks.is_elementwise(off):
        diag, off = (t.expand(*t.shape[:-2], d, 1) for t in (diag, off))
        return diag, off, x
    return blocks.to_dense(diag, d), blocks.to_dense(off, d), x


def _stacked(t: Tensor, lead: torch.Size, rank: int) -> Tensor:
    """[..., *] → [R, *], or [1, *] where all replicas share it."""
    own, item = t.shape[: t.dim() - rank], t.shape[t.dim() - rank :]
    if all(size == 1 for size in own):
        return t.reshape(1, *item)
    return t.expand(*lead, *item).reshape(lead.numel(), *item)
