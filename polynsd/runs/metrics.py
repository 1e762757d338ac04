"""`metrics.jsonl`: what happened while it went, a JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polynsd.errors import DataError
from polynsd.runs.durable import explained, sync
from polynsd.runs.plain import plain


class MetricsLog:
    """Appends lines, in memory until `sync`.

    Args:
        path: the file; what lies behind `length` in it is dropped.
        length: bytes that are valid.
    """

    def __init__(self, path: Path, length: int = 0) -> None:
        self.path, self.length = path, length
        self._pending: list[bytes] = []
        with explained(path):
            path.touch()
        self.sync()

    def append(self, record: Mapping[str, Any]) -> None:
        """One more line."""
        self._pending.append((json.dumps(plain(dict(record), "log")) + "\n").encode())

    def sync(self) -> None:
        """Makes the lines durable. A write that fails halfway is undone by the next one."""
        new = b"".join(self._pending)
        with explained(self.path), self.path.open("r+b") as file:
            file.truncate(self.length)
            file.seek(self.length)
            file.write(new)
            file.flush()
            sync(file.fileno())
        self.length += len(new)
        self._pending.clear()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All whole lines; the last one may be in the making."""
    if not path.exists():
        return []
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    return [_record(line, f"line {number} of {path}") for number, line in enumerate(lines, 1)]


def _record(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is damaged: {error}.") from error
    if not isinstance(record, dict):
        raise DataError(f"{where} is damaged: expected a JSON object, found {type(record).__name__}.")
    return record
