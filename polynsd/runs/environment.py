"""Where and with what a run was made. Packages are looked up, not imported."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from polynsd.errors import DataError
from polynsd.runs.durable import write_durably
from polynsd.runs.plain import encode, read_json

PACKAGES = ("polynsd", "torch", "torch_geometric", "numpy", "scipy", "safetensors", "numba", "triton")
GIT_SECONDS = 5.0
CODE = Path(__file__).parents[1]  # the package


def add_session(path: Path, sessions: Sequence[Mapping[str, Any]]) -> None:
    """Appends what is true now to the sessions of a run so far."""
    write_durably(path, encode({"sessions": [*sessions, session()]}))


def read_sessions(path: Path) -> list[dict[str, Any]]:
    """What was true each time the run was started; empty where it never got so far."""
    if not path.exists():
        return []
    sessions = read_json(path).get("sessions")
    if not isinstance(sessions, list) or not all(isinstance(entry, dict) for entry in sessions):
        raise DataError(f"{path} is damaged: it holds no list of sessions. Delete it to go on without.")
    return sessions


def session() -> dict[str, Any]:
    """Versions, machine, devices, threads, state of the repository, time."""
    return {
        "started": now(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host": platform.node(),
        "packages": {package: _version(package) for package in PACKAGES},
        "devices": _devices(),
        "threads": torch.get_num_threads(),
        "git": _repository(),
    }


def now() -> str:
    """The time, UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices() -> list[str]:
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_available() else range(0)
    return [_cpu_name(), *(torch.cuda.get_device_name(i) for i in gpus)]


def _cpu_name() -> str:
    """Linux tells the model; elsewhere the architecture must do."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def commit() -> str:
    """The commit of the code, with a + where the package was changed since; its version without a repository.

    `POLYNSD_COMMIT` goes first: it says it for a copy without a history of its own.
    """
    told, state = os.environ.get("POLYNSD_COMMIT"), _repository()
    if told or state is None:
        return told or f"version {_version('polynsd')}"
    return f"{state['commit'][:10]}{'+' if state['dirty'] else ''}"


def device_name(device: torch.device) -> str:
    """The name of a processor, and what its matrix products are rounded to, if they are."""
    if device.type != "cuda":
        return _cpu_name()
    products = {"high": ", TF32", "medium": ", bf16 products"}.get(torch.get_float32_matmul_precision(), "")
    return f"{torch.cuda.get_device_name(device)}{products}"


def _repository() -> dict[str, Any] | None:
    """Commit of the repository that the code belongs to, and whether the package differs from it.

    An installed package may lie in the folder of somebody's own repository, which says nothing of it.
    """
    is_tracked = _git("ls-files", "--error-unmatch", "__init__.py") is not None
    commit = _git("rev-parse", "HEAD") if is_tracked else None
    if commit is None:
        return None
    changes = _git("status", "--porcelain", "--untracked-files=no", "--", ".")
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}


def _git(*arguments: str) -> str | None:
    """What git says of the package, without letting it write, ask or run hooks of the repository."""
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=CODE,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip()
