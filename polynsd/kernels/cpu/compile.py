"""How the loops of the CPU backend are compiled and run.

A loop is a function of (task, k, tensors, sizes). The tasks of a step k are independent and done in
parallel, the steps follow one another; one compiled function, `_run`, does that for all loops, so
that each of them compiles in about a second. A tensor arrives as an address and a stride in bytes
from replica to replica, which is zero where all replicas share it. Sizes begin with the number of
nodes (or of whatever is shared out) and the number of shares.
"""

# mypy: disable-error-code="import-untyped, misc, untyped-decorator"

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import njit, prange, types
from numba.extending import intrinsic
from torch import Tensor

from polynsd.kernels.cpu.tiles import item, pointer

NUMBER = {torch.float32: np.float32(0), torch.float64: np.float64(0)}
INDEX, DOUBLE = np.int32(0), np.float64(0)
COUNT, SHARES = range(2)  # in the sizes

OPTIONS = {"error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz"}}
INTEGERS = types.CPointer(types.intp)
SOURCES = sorted(Path(__file__).parent.glob("*.py"))
FINGERPRINT = sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()[:16]

_launching = Lock()  # not every threading layer of Numba may be entered twice
_forked: list[bool] = []


def cached(decorator: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A decorator of Numba with its cache on disk, if there is a folder for it.

    Numba asks only whether the file of the function itself has changed, hence the fingerprint.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        function.__qualname__ = f"{function.__qualname__}_{FINGERPRINT}"
        try:
            return decorator(*args, cache=True, **options)(function)
        except RuntimeError:  # nowhere to write
            return decorator(*args, **options)(function)

    return decorate


loop = cached(numba.cfunc, types.void(types.intp, types.intp, INTEGERS, INTEGERS), **OPTIONS)
inlined = njit(forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **OPTIONS)


def run(compiled: Any, tasks: int, steps: range, tensors: Sequence[Tensor], sizes: Sequence[int]) -> None:
    """Runs a loop on as many threads as PyTorch uses.

    The first dimension of a tensor with several counts replicas; what a loop writes to must be contiguous.
    """
    tensors = [t if t.is_contiguous() else _replicas_contiguous(t) for t in tensors]  # kept alive
    table = np.array([(t.data_ptr(), _stride(t)) for t in tensors], dtype=np.intp)
    numbers = np.array(sizes, dtype=np.intp)
    work = (compiled.address, tasks, steps.start, steps.stop, steps.step, table, numbers)
    with _threads() as threads:
        if threads == 1 or tasks == 1 or _forked:
            _run(False, *work)
            return
        with _launching:
            numba.set_num_threads(threads)
            _run(True, *work)


def _replicas_contiguous(t: Tensor) -> Tensor:
    return t if t.dim() > 1 and t[:1].is_contiguous() else t.contiguous()


@contextmanager
def _threads() -> Iterator[int]:
    """As many as PyTorch uses, a number that Numba's start changes where both share one OpenMP."""
    before = torch.get_num_threads()
    try:
        yield min(before, numba.config.NUMBA_NUM_THREADS)
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


def _after_fork() -> None:
    """A forked child has none of its parent's threads, and must not wait for a lock that they held."""
    global _launching
    _launching = Lock()
    _forked.append(True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _stride(t: Tensor) -> int:
    return t.stride(0) * t.element_size() if t.size(0) > 1 else 0


@intrinsic
def _call(typing: Any, address: Any, task: Any, k: Any, tensors: Any, sizes: Any) -> Any:
    """Calls the loop at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = zip(signature.args[3:], args[3:], strict=True)
        data = [context.make_array(t)(context, builder, array).data for t, array in arrays]
        values = [*args[1:3], *data]
        function = ir.FunctionType(ir.VoidType(), [value.type for value in values])
        builder.call(builder.inttoptr(args[0], function.as_pointer()), values)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp, tensors, sizes), generate


@cached(njit, parallel=True, nogil=True)
def _run(
    in_parallel: bool, address: int, tasks: int, first: int, end: int, step: int, tensors: Any, sizes: Any
) -> None:
    for k in range(first, end, step):
        if in_parallel:
            for task in prange(tasks):
                _call(address, task, k, tensors, sizes)
        else:
            for task in range(tasks):
                _call(address, task, k, tensors, sizes)


@inlined
def replica(tensors: Any, number: int, r: int, like: Any) -> Any:
    """A pointer to replica r of a tensor, or to the one that all share."""
    return pointer(item(tensors, 2 * number) + r * item(tensors, 2 * number + 1), like)


@inlined
def first(sizes: Any, number: int) -> Any:
    """Where a share begins."""
    return item(sizes, COUNT) * number // item(sizes, SHARES)


@inlined
def first_node(rowptr: Any, sizes: Any, number: int) -> int:
    """Where a share begins that has its part of the nodes and half-edges together."""
    low, high = 0, item(sizes, COUNT)
    target = (item(rowptr, high) + high) * number // item(sizes, SHARES)
    while low < high:
        middle = (low + high) // 2
        if item(rowptr, middle) + middle < target:
            low = middle + 1
        else:
            high = middle
    return low
