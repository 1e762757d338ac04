"""Programs that end with the process that starts them, however it ends.

Between the two runs this file, as a program of its own: its standard input is a pipe from the process that
started it, which closes when that process ends, be it by `kill -9`. It uses nothing but Python's own library.
"""

from __future__ import annotations

import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

POLL_SECONDS = 0.2
END_SECONDS = 10.0  # for a program that is told to end, before it is killed
LOG_LINES = 12


@contextmanager
def run_child(
    command: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A program that ends with us, also when we are told to end or killed.

    Args:
        command: the program and its arguments.
        environment: its variables.
        log: a file for what it says.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-I", __file__, *command],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield process
    finally:
        signal.signal(signal.SIGTERM, before)
        if process.poll() is None:
            process.terminate()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def read_tail(log: Path) -> str:
    """The last lines of what a program said."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:])


def _run_until_abandoned(command: Sequence[str]) -> int:
    """Runs a program until it ends, we are told to end, or our standard input is closed; its exit status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to both
    try:
        while child.poll() is None:
            if select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
                child.kill()  # nobody is left who would wait for a proper end
    finally:
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(timeout=END_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


if __name__ == "__main__":
    sys.exit(_run_until_abandoned(sys.argv[1:]))
