"""The hot path behind one narrow seam: two operations, and a choice of who computes them.

Everything above this room calls `block_product` and `chebyshev_filter`; a backend is a module that
provides both. Backends know tensors (`BlockOperator`), not sheaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from torch import Tensor

from polynsd.errors import require_choice
from polynsd.kernels import reference
from polynsd.kernels.operator import BlockOperator

__all__ = ["Backend", "BlockOperator", "available", "block_product", "chebyshev_filter", "use"]


class Backend(Protocol):
    """What a backend owes."""

    def block_product(self, A: BlockOperator, x: Tensor) -> Tensor:
        """A x."""
        ...

    def chebyshev_filter(self, A: BlockOperator, phi: Tensor, x: Tensor, scale: Tensor | float) -> Tensor:
        """Σ_k φ_k T_k(scale · A − I) x."""
        ...


_backends: dict[str, Backend] = {"reference": reference}
_chosen: ContextVar[str] = ContextVar("polynsd_backend", default="reference")


def available() -> list[str]:
    """Names of the backends that can be used on this machine."""
    return sorted(_backends)


@contextmanager
def use(name: str) -> Iterator[None]:
    """Computes everything inside the `with` block on the named backend."""
    require_choice("backend", name, _backends)
    token = _chosen.set(name)
    try:
        yield
    finally:
        _chosen.reset(token)


def block_product(A: BlockOperator, x: Tensor) -> Tensor:
    """A x for a signal x `[..., N, d, C]`."""
    return _backends[_chosen.get()].block_product(A, x)


def chebyshev_filter(A: BlockOperator, phi: Tensor, x: Tensor, scale: Tensor | float) -> Tensor:
    """Σ_k φ_k T_k(scale · A − I) x, with memory independent of the degree.

    Args:
        A: a symmetric operator whose spectrum lies in [0, 2 / scale].
        phi: Chebyshev coefficients `[..., K + 1]`.
        x: signal `[..., N, d, C]`.
        scale: a number, or a tensor that broadcasts to `[..., N, 1, 1]` and is constant on every
            connected component. It carries no gradient.
    """
    return _backends[_chosen.get()].chebyshev_filter(A, phi, x, scale)
