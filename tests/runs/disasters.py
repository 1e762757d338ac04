"""Disasters at a chosen step: everything that a run does to the disk is counted."""

import errno
import os
import signal
from pathlib import Path


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it, nothing works after it."""


def kill_for_real():
    os.kill(os.getpid(), signal.SIGKILL)


def kill():
    raise Killed


def disk_full():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Disaster:
    """Lets the `step`-th operation on the disk end in a disaster.

    Args:
        step: counted from 1; 0 only counts.
        end: what happens.
        lasting: whether all later operations end the same way.
        after: whether the operation still takes place. A write that does not is torn in the middle.
    """

    def __init__(self, step=0, end=kill, lasting=True, after=False):
        self.step, self.end, self.lasting, self.after = step, end, lasting, after
        self.done = 0

    def install(self, monkeypatch):
        monkeypatch.setattr(os, "fsync", self.counted(os.fsync))
        monkeypatch.setattr(os, "ftruncate", self.counted(os.ftruncate))
        for name in ("replace", "unlink", "mkdir", "touch"):
            monkeypatch.setattr(Path, name, self.counted(getattr(Path, name)))
        opened = Path.open
        monkeypatch.setattr(
            Path, "open", lambda path, *modes, **more: self.watched(opened(path, *modes, **more), *modes)
        )
        return self

    def counted(self, function):
        def step(*arguments, **options):
            return self.do(lambda: function(*arguments, **options))

        return step

    def do(self, operation, torn=lambda: None):
        self.done += 1
        hit = self.done == self.step or (self.lasting and 0 < self.step < self.done)
        if not hit:
            return operation()
        (operation if self.after else torn)()
        return self.end()

    def watched(self, file, mode="r", *_):
        return Watched(file, self) if mode in ("wb", "r+b") else file


class Watched:
    """A file whose writes count."""

    def __init__(self, file, disaster):
        self.file, self.disaster = file, disaster

    def write(self, content):
        def torn():
            self.file.write(content[: len(content) // 2])
            self.file.flush()

        self.disaster.do(lambda: self.file.write(content), torn)

    def truncate(self, length):
        self.disaster.do(lambda: self.file.truncate(length))

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
