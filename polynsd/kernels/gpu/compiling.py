"""Kernels compiled before they are needed, several at a time.

Triton compiles a kernel when it is first launched, and everything waits. Inside `compile_only` the backend
compiles what it would launch and launches nothing, so one pass through a model names all its kernels and
they are compiled in parallel. Results are zeros.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import triton
from torch import Tensor

from polynsd.kernels.ops.operator import Pattern
from polynsd.kernels.registry import load_backend, substituted

_compiles_only: ContextVar[bool] = ContextVar("polynsd_compiles_only", default=False)


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """Launches a kernel, or only compiles it."""
    if _compiles_only.get():
        kernel.warmup(*args, grid=grid, **constants)
    else:
        kernel[grid](*args, **constants)


@contextmanager
def compile_only() -> Iterator[None]:
    """Inside the `with` block kernels are compiled and not run; at its end all of them are ready.

    Only this thread computes so, and backward passes, which otherwise have threads of their own, stay in it.
    """
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with (
        ThreadPoolExecutor(threads) as pool,
        triton.AsyncCompileMode(pool),
        torch.autograd.set_multithreading_enabled(False),
        substituted("gpu", _Zeros()),
    ):
        token = _compiles_only.set(True)
        try:
            yield
        finally:
            _compiles_only.reset(token)


class _Zeros:
    """The backend, with zeros for results: what was not computed may be anything, even NaN."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(load_backend("gpu"), name)

        def call(*args: Any) -> Any:
            if name == "filter_backward":
                _backward_of_any_degree(*args)
            result = function(*args)
            for t in result if isinstance(result, tuple) else (result,):
                if t is not None:
                    t.zero_()
            return result

        return call


def _backward_of_any_degree(
    pattern: Pattern, diag: Tensor, off: Tensor, x: Tensor, phi: Tensor, last: Any, g: Tensor, wanted: bool
) -> None:
    """Degree 3 takes every kind of step back, so that no other degree compiles more."""
    phi = phi.new_zeros(phi.size(0), 4)
    load_backend("gpu").filter_backward(pattern, diag, off, x, phi, (g, g), g, wanted)
