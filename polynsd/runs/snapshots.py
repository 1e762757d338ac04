"""What a run keeps until it has finished: the metrics log, the last snapshot, and parts that have ended.

A snapshot records how long `metrics.jsonl` was when it was taken. The metrics become durable first, the
snapshot second. So at whatever moment the process is killed, the log holds at least what the snapshot counts;
what comes after that is cut off when the run goes on.

Where a snapshot is the state in the middle of a training, parts are trainings that have ended: plain data and
tensors, in a file each.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polynsd.documents import parse_json, read_bytes
from polynsd.errors import DataError
from polynsd.runs.files import FORMAT, METRICS, make_folder, storage_errors, to_json
from polynsd.runs.tensors import read_tensors, write_tensors

if TYPE_CHECKING:
    from torch import Tensor

Tensors = dict[str, "Tensor"]

WRITE_SHARE = 0.1  # of the time may go into writing snapshots


class LineLog:
    """A file with a JSON object per line; appended lines stay in memory until `sync`.

    Args:
        path: the file; what lies behind `length` in it is dropped.
        length: bytes that are valid.
    """

    def __init__(self, path: Path, length: int = 0) -> None:
        self.path, self.length = path, length
        self._pending: list[bytes] = []
        with storage_errors(path):
            is_own = not path.is_symlink()
            if is_own:
                path.touch()
                is_own = path.is_file() and path.stat().st_nlink == 1
        if not is_own:  # what it links to would be cut off
            raise DataError(f"{path} must be a file of its own; it is a link or something else. Remove it.")
        self.sync()

    def append(self, record: Mapping[str, Any]) -> None:
        self._pending.append((json.dumps(to_json(dict(record), "log")) + "\n").encode())

    def sync(self) -> None:
        """Makes the lines durable. A write that fails halfway is undone by the next one."""
        new = b"".join(self._pending)
        with storage_errors(self.path), self.path.open("r+b") as file:
            file.truncate(self.length)
            file.seek(self.length)
            file.write(new)
            file.flush()
            os.fsync(file.fileno())
        self.length += len(new)
        self._pending.clear()


def append_line(path: Path, record: Mapping[str, Any]) -> None:
    """Adds a durable line; what a killed process left of a last one is dropped."""
    log = LineLog(path, path.read_bytes().rfind(b"\n") + 1 if path.is_file() else 0)
    log.append(record)
    log.sync()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole lines; the last one may still be being written."""
    return parse_lines(read_bytes(path), path) if path.exists() else []


def parse_lines(content: bytes, path: Path) -> list[dict[str, Any]]:
    """The records in the whole lines of a file; `path` is for messages."""
    records = []
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        try:
            record = parse_json(line)
        except ValueError as error:
            raise DataError(f"line {number} of {path} is damaged: {error}.") from error
        if not isinstance(record, dict):
            raise DataError(
                f"line {number} of {path} is damaged: expected a JSON object, found {type(record).__name__}."
            )
        records.append(record)
    return records


class RunSnapshots:
    """Writes the state of a run, at most every few seconds (`polynsd.training.Snapshots`).

    Args:
        path: the file.
        identity: hash of the configuration; a snapshot of another one is refused.
        metrics: the log, made durable before every snapshot.
        seconds: at least so long between two; 0 writes at every offer.
    """

    def __init__(self, path: Path, identity: str, metrics: LineLog, seconds: float) -> None:
        self.path, self.identity, self.seconds = path, identity, seconds
        self.metrics = metrics
        self._due = time.monotonic() + seconds

    def load(self) -> Tensors | None:
        """The state to go on from, if there is one."""
        return read_snapshot(self.path, self.identity)[0]

    def offer(self, state: Callable[[], Tensors]) -> None:
        """Writes the state if one is due."""
        began = time.monotonic()
        if began < self._due:
            return
        self.metrics.sync()
        about = {"format": FORMAT, "identity": self.identity, "metrics_bytes": self.metrics.length}
        write_tensors(self.path, state(), about)
        ended = time.monotonic()
        self._due = ended + max(self.seconds, (ended - began) / WRITE_SHARE) if self.seconds else ended


def read_snapshot(path: Path, identity: str) -> tuple[Tensors | None, int]:
    """The state of the run with that identity, checked, and the length of its log; None and 0 without one."""
    if not path.exists():
        return None, 0
    try:
        tensors, length = _read_state(path, identity, "a snapshot", "metrics_bytes", int)
        metrics = path.with_name(METRICS)
        if not metrics.is_file() or metrics.stat().st_size < length:
            raise DataError(f"{metrics} is damaged: {path.name} counts on {length:,} bytes of it.")
    except DataError as error:
        raise DataError(
            f"{error} It holds the state of an unfinished run; delete it "
            "to start that run again from its beginning."
        ) from error
    return tensors, length


class RunParts:
    """The parts of one run, in the order in which they were kept: `parts/0000.safetensors`, ….

    Args:
        folder: of the parts.
        identity: hash of the configuration; a part of another one is refused.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder, self.identity = folder, identity

    def __len__(self) -> int:
        return len(self._paths())

    def load(self) -> list[tuple[dict[str, Any], Tensors]]:
        """Data and tensors of every part so far."""
        parts = []
        for path in self._paths():
            try:
                tensors, data = _read_state(path, self.identity, "a part of a run", "data", dict)
            except DataError as error:
                raise DataError(f"{error} Delete it: what it held is then computed again.") from error
            parts.append((data, tensors))
        return parts

    def append(self, data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Keeps one more."""
        paths = self._paths()
        number = int(paths[-1].stem) + 1 if paths else 0
        make_folder(self.folder)
        about = {"format": FORMAT, "identity": self.identity, "data": dict(data)}
        write_tensors(self.folder / f"{number:04d}.safetensors", tensors, about)

    def remove(self) -> None:
        """Drops all of them."""
        if self.folder.is_dir():
            with storage_errors(self.folder):
                shutil.rmtree(self.folder)

    def _paths(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("*.safetensors") if path.stem.isdigit())


def _read_state(path: Path, identity: str, what: str, key: str, kind: type) -> tuple[Tensors, Any]:
    """The tensors of a file of the run with that identity, and the entry `key` of its metadata."""
    tensors, about = read_tensors(path)
    if about.get("format") != FORMAT or type(about.get(key)) is not kind:
        raise DataError(f"{path} is not {what} that this version of polynsd can read.")
    if about.get("identity") != identity:
        raise DataError(f"{path} belongs to a run with another configuration.")
    return tensors, about[key]
