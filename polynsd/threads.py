"""How many threads work of a given size is worth.

Two threads share the work of a small step, but wait for each other after every operation of it. Where the
machine has other things to do, each of these waits may take a time slice, and a fit of seconds takes minutes.
For such work one thread is about as fast as two on a quiet machine, and many times faster on a busy one.

    with use_threads_for(num_bytes):
        train()

Sums of our own kernels do not depend on the number of threads; those of PyTorch's operations and of a BLAS
may be rounded differently. What is small is computed by one thread on any machine, and so has equal bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

SMALL = 2**26  # bytes of a step from which on a second thread is used (docs/performance.md)
PASS_BYTES = 2**13  # that a network keeps per node, roughly


@contextmanager
def use_threads_for(num_bytes: float) -> Iterator[None]:
    """One thread for PyTorch, our kernels, OpenMP and BLAS where there is little to do; else all.

    The numbers of threads are restored at the end, and never increased. Kernels of Numba use as many threads
    as PyTorch (`kernels/cpu/compile.py`).

    Args:
        num_bytes: that a step of the work reads or writes.
    """
    before = torch.get_num_threads()
    if num_bytes >= SMALL or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        with _limit_libraries():
            yield
    finally:
        torch.set_num_threads(before)


def _limit_libraries() -> AbstractContextManager[object]:
    """One thread for OpenMP and BLAS, where threadpoolctl is installed, as it is with scikit-learn."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    return threadpool_limits(limits=1)
