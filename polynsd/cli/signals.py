"""SIGTERM, as schedulers and `timeout` send it, is treated like Ctrl-C: a command ends in order.

By default it ends a process at once, in the middle of whatever it does. Where processes share a GPU under
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


@contextmanager
def handle_sigterm() -> Iterator[None]:
    """SIGTERM raises `Terminated` inside the block; in other threads than the main one nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
