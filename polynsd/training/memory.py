"""How many replicas fit into memory at once."""

from __future__ import annotations

import re
from pathlib import Path

import torch

SHARE = 0.6  # of the free memory
PASSES = 3  # a backward pass holds gradients and temporaries beside what was saved


def replicas_at_once(count: int, bytes_each: int, device: torch.device) -> int:
    """At most `count`, at least one."""
    free = free_bytes(device)
    if free is None:
        return count
    return max(1, min(count, int(SHARE * free) // max(PASSES * bytes_each, 1)))


def free_bytes(device: torch.device) -> int | None:
    """Of the device, or of the host; None where nobody says."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    amounts = [amount for amount in (_host(), _container()) if amount is not None]
    return min(amounts, default=None)


def _host() -> int | None:
    found = re.search(r"MemAvailable:\s+(\d+) kB", _text("/proc/meminfo"))
    return int(found[1]) * 1024 if found else None


def _container() -> int | None:
    """What a control group leaves to its processes."""
    limit, used = (_text(f"/sys/fs/cgroup/memory.{name}").strip() for name in ("max", "current"))
    return max(int(limit) - int(used), 0) if limit.isdigit() and used.isdigit() else None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError:
        return ""
