"""Files that are whole or not there, also after a kill, a crash of the machine or a full disk.

A file is written beside its place, forced to the disk, and moved there in one step; then the folder is forced
to the disk too. Whoever reads sees the old file or the new one, never a part of either.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from polynsd.errors import PolyNSDError
from polynsd.runs.files import WRITTEN

PARTIAL = ".partial"


class StorageError(PolyNSDError, OSError):
    """A file could not be written; what was there before is as it was."""


def write_durably(path: Path, content: bytes) -> None:
    """Replaces a file, all or nothing."""
    partial = path.with_name(path.name + PARTIAL)
    with explained(path):
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                sync(file.fileno())
            partial.replace(path)
        except OSError:
            with suppress(OSError):  # give the room back, if the disk still lets us
                partial.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def remove_durably(path: Path) -> None:
    """Removes a file if it is there."""
    with explained(path):
        path.unlink(missing_ok=True)
        sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Makes a folder and those above it."""
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        sync_folder(folder.parent)


def leftovers(folder: Path) -> list[Path]:
    """Beginnings of files that a killed process left; other people's files are never among them."""
    partials = (folder / (name + PARTIAL) for name in WRITTEN)
    return [path for path in partials if path.exists()]


def sync(descriptor: int) -> None:
    """Forces an open file to the disk."""
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Forces the names in a folder to the disk."""
    if os.name == "nt":  # folders cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Errors of the system, told to people: what could not be written, why, and what to do."""
    try:
        yield
    except OSError as error:
        told = StorageError(
            f"could not write {path}: {error.strerror or error} ({_free_space(path)}). What was written "
            "before is intact: remove the obstacle and run the same command again to go on."
        )
        told.errno = error.errno
        raise told from error


def _free_space(path: Path) -> str:
    place = next((parent for parent in path.parents if parent.is_dir()), Path())
    try:
        return f"{shutil.disk_usage(place).free / 1e6:,.1f} MB are free there"
    except OSError:
        return "the free space there is unknown"
