"""One process per run: a lock that the operating system releases when its process dies.

The file names the process that holds the lock, for the message to others. The name only means something
while the file is locked.
"""

from __future__ import annotations

import json
import os
import platform
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from polynsd.documents import parse_json
from polynsd.errors import ConfigError
from polynsd.runs.environment import now
from polynsd.runs.files import LOCK, storage_errors

ATTEMPTS, PAUSE = 5, 0.02  # `is_locked` takes the lock for a moment to test it: try again, seconds later
NO_TRICKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # links, and pipes that block
BUSY = (BlockingIOError, PermissionError)

if sys.platform == "win32":
    import msvcrt

    OFFSET = 1 << 30  # locked bytes cannot be read there: lock one behind the text

    def _lock(descriptor: int, shared: bool) -> None:
        os.lseek(descriptor, OFFSET, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int, shared: bool) -> None:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


@contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder; raises a `ConfigError` that names the process if another one does."""
    path = folder / LOCK
    with storage_errors(path):
        if path.is_symlink():
            raise ConfigError(f"{path} is a link to another file, which would be emptied. Remove it.")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NO_TRICKS, 0o644)
    try:
        with storage_errors(path):
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                raise ConfigError(f"{path} must be a file of its own; it is something else. Remove it.")
            if not _try_lock(descriptor):
                raise ConfigError(
                    f"the run {folder} is in use by {_read_owner(descriptor)}. "
                    "Wait until it ends, or choose another folder."
                )
            owner = {"pid": os.getpid(), "host": platform.node(), "since": now()}
            _overwrite(descriptor, json.dumps(owner).encode())
        try:
            yield
        finally:
            with suppress(OSError):  # the name is only for messages
                _overwrite(descriptor, b"")
    finally:
        os.close(descriptor)


def is_locked(folder: Path) -> bool:
    """Whether a process is working on the run."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | NO_TRICKS)
    except OSError:
        return False
    try:
        _lock(descriptor, shared=True)
    except BUSY:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


def _try_lock(descriptor: int) -> bool:
    for _ in range(ATTEMPTS):
        with suppress(*BUSY):
            _lock(descriptor, shared=False)
            return True
        time.sleep(PAUSE)
    return False


def _overwrite(descriptor: int, text: bytes) -> None:
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, text)


def _read_owner(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    try:
        owner = parse_json(os.read(descriptor, 4096))
        return f"process {owner['pid']} on {owner['host']} since {owner['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
