"""The polynomial filter as anyone would write it: autograd keeps every T_k, so it differentiates twice.

It serves second derivatives, and as the yardstick of what constant memory saves.
"""

import torch
from torch import Tensor

from polynsd.kernels.ops import blocks
from polynsd.kernels.ops.operator import Pattern


def block_product(pattern: Pattern, diag: Tensor, off: Tensor, x: Tensor) -> Tensor:
    """A x for x `[..., N, d, C]`: gather, multiply, scatter."""
    messages = blocks.apply(off, x.index_select(-3, pattern.col))  # [..., H, d, C]
    y = blocks.apply(diag, x)
    lead = torch.broadcast_shapes(y.shape[:-3], messages.shape[:-3])
    y, messages = (t.expand(*lead, *t.shape[-3:]) for t in (y, messages))
    return y.index_add(-3, pattern.row, messages)


def chebyshev_filter(pattern: Pattern, diag: Tensor, off: Tensor, x: Tensor, phi: Tensor) -> Tensor:
    """Σ_k φ_k T_k(A) x for φ `[..., K + 1]`."""
    previous, current = x, x
    y = coefficient(phi, 0) * x
    for k in range(1, phi.size(-1)):
        step = block_product(pattern, diag, off, current)
        previous, current = current, step if k == 1 else 2 * step - previous
        y = y + coefficient(phi, k) * current
    return y


def coefficient(phi: Tensor, k: int) -> Tensor:
    """φ_k, to multiply signals with."""
    return phi[..., k, None, None, None]
