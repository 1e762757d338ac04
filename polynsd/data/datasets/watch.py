"""Progress of downloads that do not report any, by watching the folder they write to grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

INTERVAL_SECONDS = 0.3


@contextmanager
def watched(folder: Path, task: str, progress: Callable[[int, str], None] | None) -> Iterator[None]:
    """Calls `progress(new_bytes, task)` while files below `folder` grow, and once more at the end."""
    if progress is None:
        yield
        return
    seen = folder_bytes(folder)
    done = Event()

    def report() -> None:
        nonlocal seen
        size = folder_bytes(folder)
        if size > seen:
            progress(size - seen, task)
            seen = size

    def watch() -> None:
        while not done.wait(INTERVAL_SECONDS):
            report()

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        report()


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder; files that vanish meanwhile count as nothing."""
    return sum(_file_bytes(path) for path in folder.rglob("*"))


def _file_bytes(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0
