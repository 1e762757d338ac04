"""Progress for people: a live bar with rate and time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from polynsd.report.pace import Pace, clock_text, rate_text

QUIET_SECONDS = 10.0  # at most one plain line in so many seconds


class ProgressReporter:
    """Counts finished units of work; use it as a context manager.

    Args:
        total: units of work; None where nobody knows.
        unit: their name, e.g. `epochs`.
        quiet: say nothing.
    """

    def __init__(self, total: int | None, unit: str = "epochs", quiet: bool = False) -> None:
        self.total, self.unit, self.quiet = total, unit, quiet
        self.done, self.task = 0, ""
        self._bar: Any = None
        self._bar_id: Any = None
        self._pace, self._last = Pace(), 0.0

    def __enter__(self) -> ProgressReporter:
        self._pace, self._last = Pace(), time.monotonic()
        if not self.quiet and sys.stderr.isatty():
            self._bar = _rich_bar(self.unit)
            self._bar_id = self._bar.add_task("", total=self.total, rate="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, units: int, task: str) -> None:
        """`units` more are done, in the course of `task`."""
        self.done += units
        new_task, self.task = task != self.task, task
        if self._bar is not None:
            self._bar.update(self._bar_id, completed=self.done, description=task, rate=self._rate())
        elif not self.quiet and (new_task or time.monotonic() - self._last > QUIET_SECONDS):
            self._last = time.monotonic()
            print(self._line(), file=sys.stderr)  # noqa: T201

    def skip_to(self, done: int) -> None:
        """Work up to `done` units will not be needed."""
        self.done = done
        if self._bar is not None:
            self._bar.update(self._bar_id, completed=self.done)

    def _rate(self) -> str:
        return rate_text(self._pace.mean(self.done), self.unit)

    def _line(self) -> str:
        if self.total is None:
            return f"{self.done} {self.unit}  {self.task}  ({self._rate()})"
        seconds = self._pace.elapsed / max(self.done, 1) * max(self.total - self.done, 0)
        percent = 100 * self.done // max(self.total, 1)
        return f"{percent:3d} %  {self.task}  ({self._rate()}, at most {clock_text(seconds)} left)"


def _rich_bar(unit: str) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description:<34}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
