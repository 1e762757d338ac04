"""Time: medians of repeated runs, on a CPU by the clock, on a GPU by its own events."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch

Run = Callable[[], object]

COPY_BYTES = {"cpu": 2**27, "cuda": 2**31}
CAPTURE_RUNS = 5  # more than `CapturedStep` takes to warm up and capture


class Times(NamedTuple):
    """Milliseconds; where the two are far apart, something else kept the machine busy."""

    median: float
    fastest: float


def times_of(run: Run, repeats: int, device: str, warm_up: int = 0) -> Times:
    """The times of a run, after some that do not count."""
    for _ in range(warm_up):
        run()
    once = _gpu_ms if device == "cuda" else _cpu_ms
    times = [once(run) for _ in range(repeats)]
    return Times(statistics.median(times), min(times))


def replayed(run: Run) -> Run | None:
    """The run as a CUDA graph, ready to be timed; None where it cannot be captured."""
    from polynsd.training.capture import CapturedStep

    step = CapturedStep(run)  # type: ignore[arg-type]
    for _ in range(CAPTURE_RUNS):
        step()
    return step if step.captured else None


def copy_gbs(device: str, repeats: int = 5) -> float:
    """10⁹ bytes read and written per second by a large copy: what memory can do at best."""
    source = torch.zeros(COPY_BYTES[device], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    times = times_of(lambda: target.copy_(source), repeats, device, warm_up=1)
    return 2 * source.numel() / times.median / 1e6


def _cpu_ms(run: Run) -> float:
    start = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - start)


def _gpu_ms(run: Run) -> float:
    """From an idle GPU to an idle GPU: the host's share counts where the GPU waits for it."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)
