"""On what something was measured."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from polynsd.bench.timing import copy_gbs
from polynsd.errors import ConfigError, require_choice

DEVICES = ("cpu", "cuda")
PACKAGES = ("polynsd", "torch", "torch_geometric", "numpy", "numba", "triton")


def require_device(device: str) -> None:
    """Raises unless the device is one that can be measured here."""
    require_choice("device", device, DEVICES)
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "device 'cuda' needs a GPU and a PyTorch built for it; this machine, or this PyTorch "
            f"({torch.__version__}), has none. Use --device cpu."
        )


def environment(device: str) -> dict[str, Any]:
    """Versions, the device, its threads and its copy bandwidth, measured now."""
    return {
        **{package: _version(package) for package in PACKAGES},
        "python": platform.python_version(),
        "device": device,
        "device_name": torch.cuda.get_device_name() if device == "cuda" else _cpu_name(),
        "threads": torch.get_num_threads(),
        "copy_gbs": copy_gbs(device),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_name() -> str:
    """Linux tells the model; elsewhere the architecture must do."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())
