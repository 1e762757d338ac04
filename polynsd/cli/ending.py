"""A command that is told to end: SIGTERM, as schedulers and `timeout` send it, is taken like Ctrl-C.

Left to itself it ends a process at once, in the middle of whatever it does. Where processes share a GPU under
NVIDIA's multi-process service, that can be a fault for all others, too.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """The process got SIGTERM."""


def _raise(number: int, frame: FrameType | None) -> None:
    raise Terminated


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM raises `Terminated` inside; only the main thread of a program can say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
