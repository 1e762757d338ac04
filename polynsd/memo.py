"""What is known of a tensor: found out once, remembered until the tensor is written to.

Looking at values makes the host wait for the device, and neither a compiler nor a CUDA graph can
record that. A check therefore looks once at a tensor, in eager mode, and not at all while the work
is recorded: whoever records has run it before.
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

_looks: ContextVar[bool] = ContextVar("polynsd_looks_at_values", default=True)


def may_look_at_values() -> bool:
    """False while `torch.compile` traces and while a CUDA graph is recorded or rehearsed."""
    if torch.compiler.is_compiling() or not _looks.get():
        return False
    return not (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


@contextmanager
def without_looks() -> Iterator[None]:
    """Nobody looks at values inside the `with` block."""
    token = _looks.set(False)
    try:
        yield
    finally:
        _looks.reset(token)


class TensorMemo(Generic[V]):
    """Results by tensor, kept as long as the tensor lives and is not written to."""

    def __init__(self) -> None:
        self._known = WeakIdKeyDictionary()  # tensor -> ((version, *context), result)

    def __call__(self, tensor: Tensor, find: Callable[[], V], *context: object) -> V:
        """`find()`, or what it gave for this tensor in the same context; errors are not remembered."""
        if tensor.is_inference():  # which do not count their versions
            return find()
        state = (tensor._version, *context)
        known = self._known.get(tensor)
        if known is not None and known[0] == state:
            return known[1]
        if not may_look_at_values():  # what is only recorded has no values yet
            return find()
        with torch.inference_mode(False):  # training may use it next
            result = find()
        self._known[tensor] = state, result
        return result
