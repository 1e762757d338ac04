"""Time, memory and the environment of a measurement.

Times are medians of repeated runs, by the clock on a CPU and by events on a GPU. Peak memory is what
PyTorch's allocator sees, with temporaries and what autograd keeps: on a GPU PyTorch counts; on a CPU the
profiler notes every allocation and release, and the peak of their running sum is the answer. Both count from
the level at the beginning, so what existed before is not included; on a CPU it must not be released either.
"""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch.autograd.profiler import profile

from polynsd.errors import ConfigError, require_choice
from polynsd.runs.environment import cpu_name, package_version

Run = Callable[[], object]

DEVICES = ("cpu", "cuda")
PACKAGES = ("polynsd", "torch", "torch_geometric", "numpy", "numba", "triton")
COPY_BYTES = {"cpu": 2**27, "cuda": 2**31}
COPIES = 5
CAPTURE_RUNS = 5  # more than `CapturedStep` takes to warm up and capture
MIB = 2**20


class Times(NamedTuple):
    """Milliseconds; where the two are far apart, something else kept the machine busy."""

    median: float
    fastest: float


def times_of(run: Run, repeats: int, device: str, warm_up: int = 0) -> Times:
    """The times of `repeats` runs, after `warm_up` runs that do not count."""
    for _ in range(warm_up):
        run()
    measure = _gpu_ms if device == "cuda" else _cpu_ms
    times = [measure(run) for _ in range(repeats)]
    return Times(statistics.median(times), min(times))


def paired_times(run: Run, control: Run, repeats: int, device: str) -> tuple[Times, float]:
    """The times of a run, and the median ratio to a control; the two take turns."""
    measure = _gpu_ms if device == "cuda" else _cpu_ms
    run()
    control()
    pairs = [(measure(run), measure(control)) for _ in range(repeats)]
    own = [time for time, _ in pairs]
    return Times(statistics.median(own), min(own)), statistics.median(time / other for time, other in pairs)


def replayed(run: Run) -> Run | None:
    """The run as a CUDA graph, ready to be timed; None where it cannot be captured."""
    from polynsd.training.capture import CapturedStep

    step = CapturedStep(run)  # type: ignore[arg-type]
    for _ in range(CAPTURE_RUNS):
        step()
    return step if step.captured else None


def copy_gbs(device: str) -> float:
    """10⁹ bytes read and written per second by a large copy: what memory can do at best."""
    source = torch.zeros(COPY_BYTES[device], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    times = times_of(lambda: target.copy_(source), COPIES, device, warm_up=1)
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


@dataclass
class Peak:
    """The peak, in MiB, when the block has ended."""

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
    events = [event for event in profiler.kineto_results.events() if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    changes = (event.nbytes() for event in events)  # bytes, negative for a release
    peak.mib = max(accumulate(changes, initial=0)) / MIB


def require_device(device: str) -> None:
    """Raises unless the device is one that can be measured here."""
    require_choice("device", device, DEVICES)
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "device 'cuda' needs a GPU and a PyTorch built for it; this machine, or this PyTorch "
            f"({torch.__version__}), has none. Use --device cpu."
        )


def describe_environment(device: str) -> dict[str, Any]:
    """Versions, the device, its threads and its copy bandwidth, measured now."""
    return {
        **{package: package_version(package) for package in PACKAGES},
        "python": platform.python_version(),
        "device": device,
        "device_name": torch.cuda.get_device_name() if device == "cuda" else cpu_name(),
        "threads": torch.get_num_threads(),
        "copy_gbs": copy_gbs(device),
    }
