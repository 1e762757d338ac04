"""`FitProgress`: the candidates of an estimator while they are fitted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from polynsd.report.output import clock_text, metric_name, score_with_unit

if TYPE_CHECKING:
    from polynsd.training import Epoch


class FitProgress:
    """How much of the search is done, the best score so far, and what is being fitted; a context manager.

    A terminal gets a bar, everything else a line per candidate. A search may end earlier than it could have,
    so there is no word on how long it will take; whenever it ends, that is 100 %.

    Args:
        quiet: say nothing.
        clock: seconds.
    """

    metric = "score"
    """What candidates are compared by, once it is known."""

    def __init__(self, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.quiet, self._clock = quiet, clock
        self.best: float | None = None
        self.share, self._now = 0.0, ""

    def __enter__(self) -> FitProgress:
        self._start = self._clock()
        self._has_bar = not self.quiet and sys.stderr.isatty()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(20),
            TaskProgressColumn(),
            TextColumn("{task.fields[now]}"),
            console=Console(stderr=True),
            disable=not self._has_bar,
        )
        self._bar_id = self._bar.add_task("fitting", total=1.0, now="")
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.share, self._now = 1.0, f"in {clock_text(self._clock() - self._start)}"
            self._draw()
            if not self._has_bar and not self.quiet:
                print(f"100 %  done {self._now}", file=sys.stderr)  # noqa: T201
        self._bar.stop()

    def epoch(self, name: str, epoch: Epoch) -> None:
        """`name` has trained one more epoch."""
        self._now = f"{name}, epoch {epoch.epoch}"
        self._draw()

    def candidate(self, row: dict[str, Any], share: float) -> None:
        """A candidate has ended; `share` of the search is done."""
        self.share = max(self.share, min(share, 0.99))  # the rest is choosing and writing
        score = row["val_score"]
        if row["failure"] is None and (self.best is None or score > self.best):
            self.best = score
        self._draw()
        if not self._has_bar and not self.quiet:
            what = f"{metric_name(self.metric)} {score_with_unit(self.metric, score)}"
            what = f"failed, {row['failure']}" if row["failure"] else what
            seconds = clock_text(self._clock() - self._start)
            print(f"{int(100 * self.share):3d} %  {row['name']}: {what} ({seconds})", file=sys.stderr)  # noqa: T201

    def _draw(self) -> None:
        if self._has_bar:
            best = (
                ""
                if self.best is None
                else f"best {metric_name(self.metric)} {score_with_unit(self.metric, self.best)}"
            )
            elapsed = clock_text(self._clock() - self._start)
            text = f"{elapsed}  {best}  {self._now}" if self.share < 1 else f"{self._now}  {best}"
            self._bar.update(self._bar_id, completed=self.share, now=text)
