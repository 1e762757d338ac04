"""The backends: how one is chosen, and the functions that each must have.

By default the device decides: `gpu` (Triton) for CUDA tensors, `cpu` (Numba) for CPU tensors, both
in float32 and float64; everything else, and every machine without these packages, is served by
`reference` (plain PyTorch).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import Protocol

import torch
from torch import Tensor

from polynsd.errors import ConfigError, require_choice
from polynsd.kernels.gpu.schedule import interpreted
from polynsd.kernels.ops.operator import Csr, Pattern

logger = logging.getLogger("polynsd")

FAST_DTYPES = (torch.float32, torch.float64)
PACKAGES = {"cpu": "numba", "gpu": "triton"}
MODULES = {
    "reference": "ops.reference",
    "assembled": "ops.reference",
    "cpu": "cpu.backend",
    "gpu": "gpu.backend",
}
NAMES = ("auto", "reference", "assembled", "cpu", "gpu")


class Backend(Protocol):
    """The functions of a backend, on tensors whose first dimension counts replicas.

    A tensor has R replicas, or one that all share. Blocks are `[r, N | H, d, 1]` (diagonal) or
    `[r, N | H, d, d]`; results always have R replicas.
    """

    def filter_forward(
        self, pattern: Pattern, diag: Tensor, off: Tensor, x: Tensor, phi: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(Σ_k φ_k T_k x, T_K x, T_{K−1} x) for x `[r, N, d, C]`, φ `[r, K + 1]`, T_k = T_k(A).

        T_K is empty when K = 0, T_{K−1} when K < 2.
        """
        ...

    def filter_backward(
        self,
        pattern: Pattern,
        diag: Tensor,
        off: Tensor,
        x: Tensor,
        phi: Tensor,
        last: tuple[Tensor, Tensor],
        g: Tensor,
        blocks_wanted: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """(∂diag, ∂off, ∂x, ∂φ, drift) given ∂y = g `[R, N, d, C]`; ∂diag, ∂off may be empty if not wanted.

        The drift `[R]` is ‖T_0 − x‖ / ‖x‖ for the T_0 that the reversed recurrence ends at; zero when K < 3.
        """
        ...

    def take(self, values: Tensor, index: Tensor) -> Tensor:
        """values[:, index] of values `[R, n, F]`."""
        ...

    def segment_sum(self, pattern: Pattern, values: Tensor, by_col: bool) -> Tensor:
        """Sums `[R, H, F]` over the half-edges whose row (or col) is v: `[R, N, F]`."""
        ...

    def block_multiply(self, a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
        """A B of matrices `[n, d, d]`, either of them transposed first."""
        ...

    def block_apply(self, block: Tensor, x: Tensor, transpose: bool) -> Tensor:
        """B x of matrices `[n, d, d]`, or of their transposes, and signals `[n, d, C]`."""
        ...

    def block_outer(self, left: Tensor, right: Tensor) -> Tensor:
        """Σ_c l_c r_cᵀ `[n, d, d]` of signals `[n, d, C]`."""
        ...

    def householder(self, params: Tensor, d: int) -> Tensor:
        """Products of reflections `[n, d, d]` from numbers `[n, d(d−1)/2]`; see `ops/householder.py`."""
        ...

    def householder_gradient(self, params: Tensor, Q: Tensor, G: Tensor) -> Tensor:
        """∂params given ∂Q = G `[n, d, d]`."""
        ...

    def symmetric_eigen(self, A: Tensor) -> tuple[Tensor, Tensor]:
        """Eigenvalues `[n, d]`, in any order, and orthonormal eigenvectors (columns, `[n, d, d]`)."""
        ...

    def dropout(self, x: Tensor, key: Tensor, rate: Tensor) -> Tensor:
        """[r, n], int64 keys `[R]` and float64 rates `[R]` → `[R, n]`; see `ops/training.py`."""
        ...

    def csr_product(self, matrix: Csr, values: Tensor, z: Tensor) -> Tensor:
        """X z with the numbers `[r, nnz]` of X `[N, F]`, z `[r, F, C]` → `[R, N, C]`."""
        ...

    def adam(
        self,
        theta: Tensor,
        gradient: Tensor,
        mean: Tensor,
        square: Tensor,
        decay: Tensor,
        scale: Tensor,
        factors: Tensor,
    ) -> None:
        """Adam's step in place on `[R, P]`, with (η / (1 − β₁ⁿ), 1 / √(1 − β₂ⁿ)) as factors `[R, 2]`."""
        ...

    def copy_rows(self, target: Tensor, source: Tensor, wanted: Tensor) -> None:
        """target[r] = source[r] where wanted[r], in place on `[R, P]`."""
        ...


_stack = [["auto"]]  # a stack; for the whole process, because autograd works in threads of its own


_substitutes: ContextVar[dict[str, Backend] | None] = ContextVar("polynsd_substitutes", default=None)


def available() -> list[str]:
    """Names that `use` accepts on this machine."""
    return [name for name in NAMES if name not in PACKAGES or not _missing(name)]


@contextmanager
def use(name: str) -> Iterator[None]:
    """Computes everything inside the `with` block on the named backend, in all threads.

    `auto` chooses by device. `assembled` multiplies with one assembled sparse matrix, as published code
    does; it is kept for comparison. Half precision is always computed by `reference`.
    """
    require_choice("backend", name, NAMES)
    if name in PACKAGES and (missing := _missing(name)):
        raise ConfigError(f"backend '{name}' needs {missing}. use('auto') does without.")
    entry = [name]
    _stack.append(entry)
    try:
        yield
    finally:  # this entry, should another thread have added one since
        _stack[:] = [other for other in _stack if other is not entry]


def active() -> str:
    """The name given to `use`, or `auto`."""
    return _stack[-1][0]


def backend_for(tensor: Tensor) -> Backend:
    """The backend that computes on a tensor's device and in its dtype."""
    name = active()
    if name == "auto":
        name = _default_for(tensor.device.type)
    if name in PACKAGES and not _supports(name, tensor.device.type):
        raise ConfigError(
            f"backend '{name}' was asked for, but the tensors are on '{tensor.device.type}'; "
            "move them, or use('auto')."
        )
    name = "reference" if name in PACKAGES and tensor.dtype not in FAST_DTYPES else name
    substitutes = _substitutes.get()
    return load_backend(name) if substitutes is None or name not in substitutes else substitutes[name]


@contextmanager
def substituted(name: str, backend: Backend) -> Iterator[None]:
    """Inside the `with` block another backend goes by that name, in this thread."""
    token = _substitutes.set({name: backend})
    try:
        yield
    finally:
        _substitutes.reset(token)


@cache
def load_backend(name: str) -> Backend:
    """The module of a backend, imported at first use."""
    return import_module(f"polynsd.kernels.{MODULES[name]}")


@cache
def _default_for(device: str) -> str:
    name = {"cpu": "cpu", "cuda": "gpu"}.get(device, "reference")
    if name in PACKAGES and (missing := _missing(name)):
        logger.warning("plain PyTorch computes: the fast '%s' kernels need %s", name, missing)
        return "reference"
    return name


def _supports(name: str, device: str) -> bool:
    return device == "cpu" if name == "cpu" else device == "cuda" or (device == "cpu" and interpreted())


@cache
def _missing(name: str) -> str | None:
    """What a backend lacks on this machine."""
    try:
        import_module(PACKAGES[name])
    except ImportError as error:  # absent, or at odds with another package
        hint = " (pip install 'polynsd[cpu]')" if name == "cpu" else ""
        return f"the package {PACKAGES[name]}{hint}: {error}"
    if name == "gpu" and not torch.cuda.is_available() and not interpreted():
        return "a CUDA device"
    return None
