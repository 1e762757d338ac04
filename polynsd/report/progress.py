"""Progress on standard error: bars of `rich.progress` on a terminal, plain lines elsewhere.

`ProgressReporter` is one bar for any work. `LiveView` is the base of the views of a protocol and of a search:
events only change a few numbers, and a thread of Rich draws them a few times per second.
"""

from __future__ import annotations

import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from types import TracebackType

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
)
from rich.text import Text

from polynsd.report.output import clock_text, rate_text
from polynsd.training.callback import Callback

LINE_SECONDS = 10.0  # at most one plain line in so many seconds
FRAMES_PER_SECOND = 4.0
KNOWN_SHARE = 0.05  # of the work must be done before the time left is told


class ProgressReporter:
    """Counts finished units of work; use it as a context manager.

    It ends at 100 %: what has not been needed, because training stopped early, counts as done. How much time
    is left is said when enough has been done to know.

    Args:
        total: units of work; None where it is unknown.
        unit: their name, e.g. `epochs`.
        quiet: say nothing.
        clock: seconds.
    """

    def __init__(
        self,
        total: int | None,
        unit: str = "epochs",
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total, self.unit, self.quiet, self._clock = total, unit, quiet, clock
        self.done, self.task = 0, ""

    def __enter__(self) -> ProgressReporter:
        self._start = self._last_line = self._clock()
        self._has_bar = not self.quiet and sys.stderr.isatty()
        self._bar = Progress(
            TextColumn("{task.description:<34}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(self.unit),
            TextColumn("{task.fields[time]}"),
            console=Console(stderr=True),
            disable=not self._has_bar,
        )
        self._bar_id = self._bar.add_task("", total=self.total, time="")
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self.total is not None:
            self.done = self.total
        if kind is None and self._has_bar:
            elapsed = f"in {clock_text(self._clock() - self._start)}"
            self._bar.update(self._bar_id, completed=self.done, description="done", time=elapsed)
        elif kind is None and not self.quiet and self.task:
            share = "" if self.total is None else "100 %  "
            self._print(f"{share}done in {clock_text(self._clock() - self._start)}")
        self._bar.stop()

    def advance(self, units: int, task: str) -> None:
        """`units` more are done, in the course of `task`."""
        self.done += units
        is_new, self.task = task != self.task, task
        now = self._clock()
        if self._has_bar:
            self._bar.update(self._bar_id, completed=self.done, description=task, time=self._time_text(now))
        elif not self.quiet and (is_new or now - self._last_line > LINE_SECONDS):
            self._last_line = now
            self._print(self._line(now))

    def skip_to(self, done: int) -> None:
        """Work up to `done` units will not be needed."""
        self.done = done
        self._bar.update(self._bar_id, completed=done)

    def _line(self, now: float) -> str:
        if self.total is None:
            return f"{self.done} {self.unit}  {self.task}  ({self._time_text(now)})"
        percent = 100 * min(self.done, self.total) // max(self.total, 1)
        return f"{percent:3d} %  {self.task}  ({self._time_text(now)})"

    def _time_text(self, now: float) -> str:
        """`120 epochs/s, about 0:00:12 left`"""
        elapsed = now - self._start
        rate = self.done / elapsed if self.done and elapsed > 0 else None
        words = rate_text(rate, self.unit)
        if self.total and rate and self.done < self.total and self.done >= KNOWN_SHARE * self.total:
            return f"{words}, about {clock_text((self.total - self.done) / rate)} left"
        return words

    def _print(self, line: str) -> None:
        print(line, file=sys.stderr)  # noqa: T201


class LiveView(Callback, ABC):
    """What the views share: when to draw, when to print a line, how fast it goes, and how to stop.

    Args:
        quiet: say nothing.
        console: where to draw; standard error unless given. Without a terminal there are plain lines:
            one at the start, one at the end, and between them at most one in ten seconds.
        clock: seconds, for the rates.
    """

    unit = "steps"
    rate_seconds = 30.0  # over which the rate is measured

    def __init__(
        self,
        quiet: bool = False,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.quiet, self._clock = quiet, clock
        self.console = Console(stderr=True) if console is None else console
        # Rich believes FORCE_COLOR; a log with colours is still no place for moving pictures
        is_terminal = sys.stderr.isatty() if console is None else console.is_terminal
        self._is_live = not quiet and is_terminal and not self.console.is_dumb_terminal
        self._display: _Display | None = None
        self._next_line = math.inf  # when the next plain line is due

    @abstractmethod
    def draw(self) -> Iterable[RenderableType]:
        """The picture on a terminal, from top to bottom."""

    @abstractmethod
    def line(self) -> str:
        """The same in one line."""

    @property
    @abstractmethod
    def seen(self) -> int:
        """Units of work done since the view was opened."""

    @property
    @abstractmethod
    def remaining(self) -> int | None:
        """Units of work to come; None where it is unknown."""

    def make_display(self, *columns: ProgressColumn) -> Progress:
        """A new display, to which a view adds its bars before it calls `start`."""
        self.close()
        self._display = _Display(self, columns)
        self._display.add_task("all", total=None, visible=False)  # measures the rate of all bars together
        return self._display

    def start(self, first_line: str) -> None:
        """Starts to draw, or prints the first line."""
        assert self._display is not None
        self._display.start()
        if not self._is_live and not self.quiet:
            self._print(first_line)

    def close(self, error: type[BaseException] | None = None) -> None:
        """Stops drawing, the last picture stays; where there is none, or an error, prints a last line."""
        if self._display is None:
            return
        self._display.stop()
        if error is not None and not self.quiet:
            reason = "interrupted" if issubclass(error, KeyboardInterrupt) else "stopped by an error"
            self._print(f"{reason}: {self.line().strip()}")
        elif self._next_line < math.inf:
            self._print(self.line())
        self._display, self._next_line = None, math.inf

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(kind)

    def print_when_due(self) -> None:
        if self._next_line < math.inf and self._clock() >= self._next_line:
            self._print(self.line())

    def measure_rate(self) -> tuple[float | None, float | None]:
        """(units per second, seconds left); None where unknown.

        The rate is that of the last `rate_seconds`, since replicas that stop early make the others slower per
        unit; it is the mean at the beginning and when all is over.
        """
        assert self._display is not None
        task = self._display.tasks[0]
        self._display.update(task.id, completed=self.seen)
        elapsed = task.elapsed or 0.0
        mean = self.seen / elapsed if self.seen and elapsed > 0 else None
        rate = mean if self.remaining == 0 or task.speed is None else task.speed
        if self.remaining is None or rate is None:
            return rate, 0.0 if self.remaining == 0 else None
        return rate, self.remaining / rate

    def time_text(self, bound: str) -> str:
        """`4,210 epochs/s · 0:00:12 elapsed · at most 0:01:03 left`"""
        rate, left = self.measure_rate()
        assert self._display is not None
        words = [rate_text(rate, self.unit), f"{clock_text(self._display.tasks[0].elapsed or 0)} elapsed"]
        if left is not None and self.remaining:
            words.append(f"{bound} {clock_text(left)} left")
        return " · ".join(words)

    def _print(self, line: str) -> None:
        self._next_line = self._clock() + LINE_SECONDS
        self.console.print(line, soft_wrap=True, markup=False, highlight=False)


class _Display(Progress):
    """Rich's display of bars, with what the view adds around them."""

    def __init__(self, view: LiveView, columns: Iterable[ProgressColumn]) -> None:
        self._view = view
        super().__init__(
            *columns,
            console=view.console,
            refresh_per_second=FRAMES_PER_SECOND,
            # what is written to a stdout that goes elsewhere, JSON say, must go there and not onto the screen
            redirect_stdout=sys.stdout.isatty(),
            speed_estimate_period=view.rate_seconds,
            get_time=view._clock,
            disable=not view._is_live,
            expand=True,
        )

    def get_renderables(self) -> Iterable[RenderableType]:
        # Rich asks once while the display is made, before it belongs to its view
        return self._view.draw() if self._view._display is self else ()


def one_line(text: str, style: str = "") -> Text:
    """Text that is cut instead of wrapped, and never markup."""
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")
