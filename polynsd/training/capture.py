"""CUDA graphs: a training step is recorded once and then replayed without waiting for Python.

A step of full-batch training is hundreds of small kernels, and Python needs longer to launch them
than a GPU to run them. A step that was recorded once is launched as a whole. A recording holds
kernels and addresses only: whatever the step decides on the host is decided for good, and it must
not wait for the device.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from polynsd.errors import ConfigError, require_at_least
from polynsd.memo import skip_value_checks
from polynsd.training import dropout

logger = logging.getLogger("polynsd")

Step = Callable[[], Tensor]


def capture_step(step: Step, mode: str, device: torch.device) -> Step:
    """The step as `TrainConfig.capture` wants it on a device."""
    if mode == "on" and device.type != "cuda":
        raise ConfigError(f"capture='on' needs a CUDA device; the data is on '{device.type}'. Use 'auto'.")
    if mode == "off" or device.type != "cuda":
        return step
    return CapturedStep(step, required=mode == "on")


class CapturedStep:
    """A step that runs as it is a few times, is then recorded, and from then on replayed.

    The last ordinary run is a rehearsal: values are not checked, and a step that still waits for the
    device is not recorded at all, because a recording that fails halfway leaves CUDA in an undefined state.

    Args:
        step: works on tensors that stay where they are, sets gradients to None before it computes new
            ones, and returns a tensor, after a replay always the same one.
        warmup: number of ordinary runs, at least 2.
        required: whether a step that cannot be recorded is an error; otherwise it goes on as it is.
    """

    def __init__(self, step: Step, warmup: int = 2, required: bool = False) -> None:
        require_at_least("warmup", warmup, 2)
        self.reason: str | None = None  # why the step was not recorded
        self._step, self._left, self._required = step, warmup, required
        self._replay: Step | None = None

    @property
    def captured(self) -> bool:
        """Whether the step is replayed."""
        return self._replay is not None

    def __call__(self) -> Tensor:
        if self._left > 1:
            self._left -= 1
            return run_aside(self._step)
        if self._left == 1:
            self._left = 0
            output, reason = rehearse(self._step)
            if reason is not None:
                self._give_up(reason)
            return output
        if self._replay is None and self.reason is None:
            try:
                self._replay = record(self._step)
            except RuntimeError as error:  # the first one tells more than those that followed
                self._give_up(str(error.__context__ or error).splitlines()[0].rstrip("."))
        return self._step() if self._replay is None else self._replay()

    def _give_up(self, reason: str) -> None:
        self.reason = reason
        if self._required:
            raise ConfigError(
                f"capture='on', but the step cannot be recorded: {reason}. Use 'auto' or 'off'."
            )
        _warn(reason)


@cache
def _warn(reason: str) -> None:
    logger.warning("training without a CUDA graph, which is slower: %s.", reason)


def run_aside(step: Step) -> Tensor:
    """Runs a step outside the default stream, which no recording may use."""
    stream = _stream(torch.cuda.current_device())
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        output = step()
    torch.cuda.current_stream().wait_stream(stream)
    return output


def rehearse(step: Step) -> tuple[Tensor, str | None]:
    """Runs a step as it will be recorded; also says where it waited for the device, if it did."""
    with skip_value_checks(), _collect_waits() as waits:
        output = run_aside(step)
    return output, f"it waits for the GPU at {waits[0]}" if waits else None


def record(step: Step) -> Step:
    """Records a step without running it; the result replays it."""
    graph, stream = torch.cuda.CUDAGraph(), _stream(torch.cuda.current_device())
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    random_state = generator.clone_state()
    try:
        with torch.cuda.stream(stream), torch.cuda.graph(graph, stream=stream):
            output = step()
    except RuntimeError:
        generator.graphsafe_set_state(random_state)  # or it would believe to be recorded still
        raise

    def replay() -> Tensor:
        graph.replay()
        return output

    return replay


@cache
def _stream(device: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


@contextmanager
def _collect_waits() -> Iterator[list[str]]:
    """Collects the lines where the host waits for the device; other warnings are passed on."""
    waits: list[str] = []
    others: list[tuple[Any, ...]] = []
    mode = torch.cuda.get_sync_debug_mode()

    def collect(message: Any, category: Any, filename: str, lineno: int, *rest: Any) -> None:
        if "synchronizing CUDA operation" in str(message):
            waits.append(_calling_line(filename, lineno))
        elif "Synchronization debug mode" not in str(message):
            others.append((message, category, filename, lineno))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = collect  # type: ignore[assignment]
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield waits
        finally:
            torch.cuda.set_sync_debug_mode(mode)
    for warning in others:
        warnings.warn_explicit(*warning)


def _calling_line(filename: str, lineno: int) -> str:
    """Where the model made the call; dropout is intercepted, so all its calls pass through that file."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename != filename:
        frame = frame.f_back
    while filename == dropout.__file__ and frame.f_back is not None:
        frame = frame.f_back
        filename, lineno = frame.f_code.co_filename, frame.f_lineno
    return f"{Path(filename).name}:{lineno}"
