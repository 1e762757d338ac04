"""Machine, package versions, commit and time of a session. Packages are looked up, not imported."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polynsd.documents import read_json
from polynsd.errors import DataError
from polynsd.runs.files import encode_json, write_durably

if TYPE_CHECKING:
    import torch

PACKAGES = ("polynsd", "torch", "torch_geometric", "numpy", "scipy", "safetensors", "numba", "triton")
GIT_SECONDS = 5.0
CODE = Path(__file__).parents[1]  # the package


def add_session(path: Path, sessions: Sequence[Mapping[str, Any]]) -> None:
    """Adds the present session to those of a run so far."""
    write_durably(path, encode_json({"sessions": [*sessions, session()]}))


def read_sessions(path: Path) -> list[dict[str, Any]]:
    """One entry for each time the run was started; empty where it never got so far."""
    if not path.exists():
        return []
    sessions = read_json(path).get("sessions")
    if not isinstance(sessions, list) or not all(isinstance(entry, dict) for entry in sessions):
        raise DataError(f"{path} is damaged: it holds no list of sessions. Delete it to go on without.")
    return sessions


def session() -> dict[str, Any]:
    """Versions, machine, devices, threads, state of the repository, time."""
    import torch

    gpus = range(torch.cuda.device_count()) if torch.cuda.is_available() else range(0)
    return {
        "started": now(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host": platform.node(),
        "packages": {package: package_version(package) for package in PACKAGES},
        "devices": [cpu_name(), *(torch.cuda.get_device_name(i) for i in gpus)],
        "threads": torch.get_num_threads(),
        "git": _repository(),
    }


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def package_version(package: str) -> str | None:
    """The installed version, None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def cpu_name() -> str:
    """The model of the processor on Linux; elsewhere its architecture."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def commit() -> str:
    """The commit of the code, with a + where the package was changed since; its version without a repository.

    The environment variable `POLYNSD_COMMIT` overrides it, for a copy without a history.
    """
    override, state = os.environ.get("POLYNSD_COMMIT"), _repository()
    if override or state is None:
        return override or f"version {package_version('polynsd')}"
    return f"{state['commit'][:10]}{'+' if state['dirty'] else ''}"


def device_name(device: torch.device) -> str:
    """The name of a processor, and what its matrix products are rounded to, if they are."""
    import torch

    if device.type != "cuda":
        return cpu_name()
    products = {"high": ", TF32", "medium": ", bf16 products"}.get(torch.get_float32_matmul_precision(), "")
    return f"{torch.cuda.get_device_name(device)}{products}"


def _repository() -> dict[str, Any] | None:
    """Commit of the repository that the code belongs to, and whether the package differs from it.

    An installed package may lie inside an unrelated repository, which says nothing of it.
    """
    is_tracked = _git("ls-files", "--error-unmatch", "__init__.py") is not None
    commit = _git("rev-parse", "HEAD") if is_tracked else None
    if commit is None:
        return None
    changes = _git("status", "--porcelain", "--untracked-files=no", "--", ".")
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}


def _git(*arguments: str) -> str | None:
    """Output of git in the package's folder, without letting it write, ask or run hooks."""
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", *arguments]
    try:
        process = subprocess.run(
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
    return process.stdout.strip()
