"""One process per run: a lock that the operating system takes away from a process that dies.

The file says who holds it, for the message to the others; what it says means nothing unless it is locked.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path

from polynsd.errors import ConfigError
from polynsd.runs.durable import explained
from polynsd.runs.files import LOCK

ATTEMPTS, PAUSE = 5, 0.02  # `is_held` holds the lock for a moment to look; wait for it to let go

BUSY = (BlockingIOError, PermissionError)

if sys.platform == "win32":
    import msvcrt

    PLACE = 1 << 30  # locked bytes cannot be read there: lock one behind the text

    def _take(descriptor: int, shared: bool) -> None:
        os.lseek(descriptor, PLACE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _take(descriptor: int, shared: bool) -> None:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder, or says who does."""
    path = folder / LOCK
    with explained(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        with explained(path):
            if not _taken(descriptor):
                raise ConfigError(_in_use(folder, descriptor))
            _sign(descriptor, _owner())
        try:
            yield
        finally:
            with suppress(OSError):  # what the file says is a courtesy
                _sign(descriptor, b"")
    finally:
        os.close(descriptor)


def is_held(folder: Path) -> bool:
    """Whether some process is working on the run."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        _take(descriptor, shared=True)
    except BUSY:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


def _taken(descriptor: int) -> bool:
    for _ in range(ATTEMPTS):
        with suppress(*BUSY):
            _take(descriptor, shared=False)
            return True
        time.sleep(PAUSE)
    return False


def _sign(descriptor: int, text: bytes) -> None:
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, text)


def _owner() -> bytes:
    since = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return json.dumps({"pid": os.getpid(), "host": platform.node(), "since": since}).encode()


def _in_use(folder: Path, descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    try:
        owner = json.loads(os.read(descriptor, 4096))
        who = f"process {owner['pid']} on {owner['host']} since {owner['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        who = "another process"
    return f"the run {folder} is in use by {who}. Wait until it ends, or choose another folder."
