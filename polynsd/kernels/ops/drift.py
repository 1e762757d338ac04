"""What becomes of gradients when the reversed recurrence does not come back to T_0 = x.

Rounding errors grow like K² on a spectrum in [−1, 1], and like T_K² on one that leaves it, because λ_max was
given too small: values are right then, but reversed terms have no digits left. On a CPU the gradient is
computed anew from T_0 … T_K, in memory that grows with K. Elsewhere the host would have to wait to know, so
the gradient becomes NaN, and whoever trains sees a training that diverges.
"""

from __future__ import annotations

import logging
from functools import cache
from math import nan, sqrt

import torch
from torch import Tensor

from polynsd.kernels.ops import reference
from polynsd.kernels.ops.operator import Pattern

logger = logging.getLogger("polynsd")

FilterGradients = tuple[Tensor, Tensor, Tensor, Tensor]  # ∂diag, ∂off, ∂x, ∂φ


def mend_gradients(
    grads: FilterGradients,
    drift: Tensor,
    pattern: Pattern,
    diag: Tensor,
    off: Tensor,
    x: Tensor,
    phi: Tensor,
    g: Tensor,
    blocks_wanted: bool,
) -> FilterGradients:
    """The gradients that `Backend.filter_backward` gave, but for replicas whose drift is too large."""
    K = phi.size(-1) - 1
    lost = drift > largest_drift(K, g.dtype)
    if not g.is_cpu:
        return fill_with_nan(grads, lost)
    if not lost.numpy().any():
        return grads
    _warn()
    terms = reference.chebyshev_terms(pattern, diag, off, x.expand_as(g), K)
    last = terms[K], terms[K - 1]
    *again, _ = reference.filter_backward(pattern, diag, off, x, phi, last, g, blocks_wanted, terms)
    d_diag, d_off, d_x, d_phi = (
        torch.where(_at_replicas(lost, old), new, old) for old, new in zip(grads, again, strict=True)
    )
    return d_diag, d_off, d_x, d_phi


def largest_drift(K: int, dtype: torch.dtype) -> float:
    """What rounding may do on a spectrum in [−1, 1], and at least half of the digits."""
    eps = torch.finfo(dtype).eps
    return max(sqrt(eps), K**2 * eps)


def fill_with_nan(grads: FilterGradients, lost: Tensor) -> FilterGradients:
    """NaN, in place, for ∂diag (smaller than ∂off) and ∂φ of replicas that are lost; ∂x needs no T_k."""
    for grad in (grads[0], grads[3]):
        grad.masked_fill_(_at_replicas(lost, grad), nan)
    return grads


def _at_replicas(values: Tensor, like: Tensor) -> Tensor:
    """[R] → [R, 1, …]."""
    return values.reshape(-1, *[1] * (like.dim() - 1))


@cache
def _warn() -> None:
    logger.warning(
        "lam_max is below the spectrum, so gradients of filters are computed in memory that grows with the "
        "degree (on a GPU they are NaN); give a bound of the spectrum, such as L.lambda_max()"
    )
