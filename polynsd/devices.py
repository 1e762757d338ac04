"""Devices by name, as users write them."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext

import torch

from polynsd.errors import ConfigError


def get_device(name: str | torch.device) -> torch.device:
    """The device of that name; `auto` is the GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if re.fullmatch(r"cpu|cuda(:\d+)?", str(name)) is None:
        raise ConfigError(f"unknown device '{name}'; write auto, cpu, cuda or cuda:N.")
    device, count = torch.device(name), torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ConfigError(f"device '{name}' was asked for, but PyTorch finds {count} CUDA devices. Use cpu.")
    return device


def on_device(device: torch.device) -> AbstractContextManager[object]:
    """Makes a GPU CUDA's current device, where streams and kernels belong; nothing on a CPU."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
