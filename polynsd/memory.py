"""One memory budget for everything that is read from files, asked before memory is allocated.

    require_memory(8 * num_rows, f"{path.name} with {num_rows:,} rows")     # a `DataError` beyond the budget
    with limit_memory("4GB"): ...

A small file can ask for any amount of memory: it may be compressed, or only declare how large something is.
Every reader therefore estimates what it will take, its temporary copies included. The budget is what
`limit_memory` or the environment variable POLYNSD_MEMORY says, as a size (4GB, 500MiB) or as a share (50%) of
the free memory; otherwise half of that.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from polynsd.errors import ConfigError, DataError

VARIABLE = "POLYNSD_MEMORY"
DEFAULT = "50%"
UNKNOWN = 8 << 30  # bytes that count as free where the system does not say
CONTAINER = Path("/sys/fs/cgroup")
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(%|[KMGT]?i?B?)", re.IGNORECASE)
DEFLATE_RATIO = 1040  # bytes that one byte of gzip or zip can hold at most: 1032, and a header
POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True)
class MemoryBudget:
    """How much reading may take.

    Args:
        allowed: bytes.
        reason: where the number comes from.
    """

    allowed: int
    reason: str

    def require(self, num_bytes: int, what: str) -> None:
        """Raises a `DataError` if `what` would take more bytes."""
        if num_bytes > self.allowed:
            enough = _round_up(num_bytes)
            raise DataError(
                f"{what} would take about {format_size(num_bytes)} of memory; {format_size(self.allowed)} "
                f"are allowed ({self.reason}). If you trust the file and have the memory, allow more with "
                f"{VARIABLE}={enough} in the environment, or --memory {enough} of a command."
            )


def memory_budget() -> MemoryBudget:
    """The budget as things stand now."""
    given = os.environ.get(VARIABLE)
    size = parse_size(given or DEFAULT)
    if isinstance(size, int):
        return MemoryBudget(size, f"{VARIABLE}={given}")
    return MemoryBudget(int(size * free_memory()), f"{size:.0%} of what is free")


def require_memory(num_bytes: int, what: str) -> None:
    """Raises a `DataError` if `what` would take more bytes than the budget of this moment allows."""
    memory_budget().require(num_bytes, what)


@contextmanager
def limit_memory(size: str | None) -> Iterator[None]:
    """Sets the budget of this process and of those that it starts; None leaves it as it is."""
    if size is None:
        yield
        return
    parse_size(size)
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = size
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before


def parse_size(text: str) -> int | float:
    """Bytes (an integer), or a share (a float): `4GB` is 4·10⁹, `4GiB` and `4G` 4·2³⁰, `50%` 0.5."""
    match = SIZE.fullmatch(text.strip())
    number, unit = (float(match[1]), match[2].upper()) if match else (0.0, "")
    if number <= 0 or (unit == "%" and number > 100):
        raise ConfigError(
            "memory must be a size such as 4GB or 500MiB, or a share of what is free such as 50%; "
            f"got {text!r}."
        )
    if unit == "%":
        return number / 100
    return int(
        number * (1000 if unit.endswith("B") and "I" not in unit else 1024) ** POWERS[unit.rstrip("IB")]
    )


def format_size(num_bytes: int) -> str:
    """`1.5 GB`; decimal, as tools show files."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:.3g} {unit}"
        num_bytes /= 1000  # type: ignore[assignment]
    return f"{num_bytes:,.3g} TB" if num_bytes < 1000 else f"{num_bytes:,.0f} TB"


def free_memory() -> int:
    """Bytes that this process may still take: what the system, a container and `ulimit -v` leave."""
    bounds = [_system_memory()]
    for limit, used, cache in (
        ("memory.max", "memory.current", "memory.stat"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
    ):
        with suppress(OSError, ValueError):  # no container, or no limit
            bounds.append(_read_number(limit) - _read_number(used) + _reclaimable(cache))
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit_bytes = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit_bytes != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            bounds.append(limit_bytes - pages * resource.getpagesize())
    return max(min(bounds), 0)


def _system_memory() -> int:
    with suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        return int(text.partition("MemAvailable:")[2].split()[0]) * 1024
    if sys.platform != "win32":
        with suppress(OSError, ValueError):  # macOS does not say what is free
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return UNKNOWN


def _read_number(name: str) -> int:
    return int((CONTAINER / name).read_text(encoding="ascii"))


def _reclaimable(name: str) -> int:
    """Bytes of files in the container's cache, which give way."""
    words = (CONTAINER / name).read_text(encoding="ascii").split()
    return int(words[words.index("inactive_file") + 1])


def _round_up(num_bytes: int) -> str:
    """A size that is enough, as it is written."""
    power = next((power for power in (3, 2) if num_bytes >= 1000**power), 1)
    return f"{num_bytes // 1000**power + 1}{' KMG'[power]}B"
