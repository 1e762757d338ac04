"""Results about a tensor, computed once and remembered until the tensor is written to.

Reading values makes the host wait for the device, and neither a compiler nor a CUDA graph can record that.
A check therefore reads a tensor once, in eager mode, and not at all while work is recorded: it was run
before it is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

V = TypeVar("V")

_reads_values: ContextVar[bool] = ContextVar("polynsd_reads_values", default=True)


def can_read_values() -> bool:
    """False while `torch.compile` traces and while a CUDA graph is recorded or rehearsed."""
    if torch.compiler.is_compiling() or not _reads_values.get():
        return False
    return not (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


@contextmanager
def skip_value_checks() -> Iterator[None]:
    """Inside the `with` block nothing reads the values of tensors to check them."""
    token = _reads_values.set(False)
    try:
        yield
    finally:
        _reads_values.reset(token)


class TensorMemo(Generic[V]):
    """Results by tensor, kept as long as the tensor lives and is not written to."""

    def __init__(self) -> None:
        self._results = WeakIdKeyDictionary()  # tensor -> ((version, *context), result)

    def __call__(self, tensor: Tensor, find: Callable[[], V], *context: object) -> V:
        """`find()`, or what it gave for this tensor in the same context; errors are not remembered."""
        if tensor.is_inference():  # which do not count their versions
            return find()
        state = (tensor._version, *context)
        remembered = self._results.get(tensor)
        if remembered is not None and remembered[0] == state:
            return remembered[1]
        if not can_read_values():  # what is only recorded has no values yet
            return find()
        with torch.inference_mode(False):  # training may use it next
            result = find()
        self._results[tensor] = state, result
        return result
