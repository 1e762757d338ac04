"""Peak memory of tensors, as the allocator sees it: temporaries and what autograd keeps included.

On a GPU PyTorch counts. On a CPU the profiler notes every allocation and release of PyTorch's
allocator; the peak of their running sum is the answer. Both count from the level at the beginning,
so what existed before is not included; on a CPU it must not be released in between either.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.profiler import profile

MIB = 2**20


@dataclass
class Peak:
    """Known when the block ends."""

    mib: float = 0.0


@contextmanager
def peak_memory(device: str) -> Iterator[Peak]:
    """Measures what happens inside the `with` block."""
    peak = Peak()
    gc.collect()
    if device == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        yield peak
        torch.cuda.synchronize()
        peak.mib = (torch.cuda.max_memory_allocated() - before) / MIB
        return
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # the profiler would print when it starts and ends
    with profile(use_kineto=False, profile_memory=True) as profiler:
        yield peak
    peak.mib = _highest(_allocations(profiler)) / MIB


def _allocations(profiler: Any) -> list[int]:
    """Bytes, negative for a release, in the order of time."""
    events = [event for event in profiler.kineto_results.events() if event.name() == "[memory]"]
    return [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]


def _highest(changes: Iterable[int]) -> int:
    level = highest = 0
    for change in changes:
        level += change
        highest = max(highest, level)
    return highest
