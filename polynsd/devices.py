"""Devices by name, as users write them; and what to do on one without double precision.

Apple's MPS has neither kernels of ours nor float64. There plain PyTorch computes, and what is float64
elsewhere (learning rates, losses, metrics) is float32; estimators predict on the CPU.
"""

from __future__ import annotations

import logging
import re
from contextlib import AbstractContextManager, nullcontext
from functools import cache

import torch
from torch import Tensor

from polynsd.errors import ConfigError

logger = logging.getLogger("polynsd")

NO_DOUBLE = {"mps"}  # types of devices without float64


def get_device(name: str | torch.device) -> torch.device:
    """The device of that name; `auto` is CUDA's GPU where there is one, else the CPU, on a Mac, too.

    MPS is used where it is asked for: on small graphs our kernels on the CPU are faster than plain PyTorch.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if re.fullmatch(r"cpu|mps|cuda(:\d+)?", str(name)) is None:
        raise ConfigError(f"unknown device '{name}'; write auto, cpu, cuda, cuda:N or mps.")
    if str(name) == "mps":
        if not torch.backends.mps.is_available():
            raise ConfigError("device 'mps' was asked for, but PyTorch finds no Apple GPU. Use cpu.")
        _say_what_mps_does()
    device, count = torch.device(name), torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ConfigError(f"device '{name}' was asked for, but PyTorch finds {count} CUDA devices. Use cpu.")
    return device


@cache
def _say_what_mps_does() -> None:
    logger.warning(
        "on MPS plain PyTorch computes, in single precision; estimators train there and predict on the CPU"
    )


def to_wide(t: Tensor) -> Tensor:
    """The numbers in float64, or in float32 on a device that has no float64."""
    return t.to(wide_dtype(t.device))


def wide_dtype(device: torch.device) -> torch.dtype:
    """float64, or float32 on a device that has no float64."""
    return torch.float32 if device.type in NO_DOUBLE else torch.float64


def with_double(device: torch.device) -> torch.device:
    """The device itself, or the CPU where it has no float64."""
    return torch.device("cpu") if device.type in NO_DOUBLE else device


def on_device(device: torch.device) -> AbstractContextManager[object]:
    """Makes a GPU CUDA's current device, where streams and kernels belong; nothing on a CPU."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
