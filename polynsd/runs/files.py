"""The files of a run folder: their names, atomic writing, JSON.

A file is written under a temporary name, forced to the disk, and renamed; then the folder is forced to the
disk too. A reader sees the old file or the new one, never a part of either, also after a kill, a crash of the
machine or a full disk.

JSON has no NaN and no infinity: every file holds null for them, and a file that holds them all the same is
read as if it held null.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from polynsd.documents import parse_json
from polynsd.errors import ConfigError, PolyNSDError

FORMAT = 1  # of all files of a run; other formats are refused

CONFIG = "config.json"
ENVIRONMENT = "environment.json"
METRICS = "metrics.jsonl"
EVENTS = "events.jsonl"
SNAPSHOT = "snapshot.safetensors"
MODEL = "model.safetensors"
PREDICTIONS = "predictions.parquet"
RESULT = "result.json"
MANIFEST = "manifest.json"
LOCK = "lock"
PARTS = "parts"

SNAPSHOT_SECONDS = 5.0  # between two snapshots, at least

FILES = (CONFIG, ENVIRONMENT, METRICS, SNAPSHOT, MODEL, PREDICTIONS, MANIFEST, RESULT)
PARTIAL = ".partial"
ABSENT = "(absent)"


class StorageError(PolyNSDError, OSError):
    """A file could not be written; what was there before is unchanged."""


def write_durably(path: Path, content: bytes) -> None:
    """Replaces a file, all or nothing."""
    partial = path.with_name(path.name + PARTIAL)
    with storage_errors(path):
        try:
            partial.unlink(missing_ok=True)  # what a killed process left, or a link or pipe of that name
            with partial.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except OSError:
            with suppress(OSError):  # free the space, if the disk still lets us
                partial.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def remove_durably(path: Path) -> None:
    """Removes a file if it exists."""
    with storage_errors(path):
        path.unlink(missing_ok=True)
        _sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Makes a folder and those above it."""
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _sync_folder(folder.parent)


def find_partials(folder: Path) -> list[Path]:
    """Unfinished files that a killed process left; files of other programs are never among them."""
    partials = (folder / (name + PARTIAL) for name in FILES)
    return [path for path in partials if path.exists()]


def _sync_folder(folder: Path) -> None:
    """Forces the names in a folder to the disk."""
    if os.name == "nt":  # folders cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turns errors of the system into a `StorageError`: what could not be written, why, and what to do."""
    try:
        yield
    except OSError as error:
        folder = next((parent for parent in path.parents if parent.is_dir()), Path())
        try:
            space = f"{shutil.disk_usage(folder).free / 1e6:,.1f} MB are free there"
        except OSError:
            space = "the free space there is unknown"
        explained = StorageError(
            f"could not write {path}: {error.strerror or error} ({space}). What was written "
            "before is intact: remove the obstacle and run the same command again to go on."
        )
        explained.errno = error.errno
        raise explained from error


def to_json(value: Any, what: str) -> Any:
    """The value as JSON gives it back: tuples are lists, keys are strings, NaN and infinity are None."""
    try:
        return parse_json(json.dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"the {what} of a run must be plain data (dict, list, str, int, float, bool or None): {error}. "
            "Convert arrays with .tolist(), paths with str()."
        ) from error


def encode_json(value: Any) -> bytes:
    """The content of a JSON file: sorted keys, floats that read back to the same bits."""
    return (json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()


def compact_json(value: Any) -> str:
    """JSON on one line with sorted keys: equal text means equal data."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def hash_json(value: Any) -> str:
    """SHA-256 of the compact text."""
    return hashlib.sha256(compact_json(value).encode()).hexdigest()


def require_file_name(path: Path | None) -> None:
    """Raises, before any work is done, where a result could not be written."""
    if path is not None and path.is_dir():
        raise ConfigError(f"results are written to a file; {path} is a folder. Name a file in it.")


def write_json(path: Path, content: Any) -> Path:
    """Writes JSON with keys in their order, all or nothing; makes the folder if needed."""
    require_file_name(path)
    make_folder(path.parent)
    write_durably(path, (json.dumps(content, indent=2) + "\n").encode())
    return path


def flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} → {"a.b": 1}; lists stay whole."""
    flat: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            flat |= flatten(item, f"{prefix}{key}.")
        else:
            flat[prefix + key] = item
    return flat


def find_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(key, old, new) for every flattened key whose values differ, as JSON texts."""
    before, after = ({key: compact_json(item) for key, item in flatten(side).items()} for side in (old, new))
    keys = sorted(before.keys() | after.keys())
    triples = ((key, before.get(key, ABSENT), after.get(key, ABSENT)) for key in keys)
    return [triple for triple in triples if triple[1] != triple[2]]
