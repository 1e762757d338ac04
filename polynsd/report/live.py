"""Live views of a protocol and of a search: one picture on a terminal, plain lines elsewhere.

Events only change a few numbers; a thread of Rich draws them a few times per second.
"""

from __future__ import annotations

import math
import sys
import time
from abc import ABC, abstractmethod
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any

from polynsd.report import drawing
from polynsd.report.pace import Clock, score_with_unit
from polynsd.report.progress import QUIET_SECONDS
from polynsd.report.protocol_state import ProtocolState
from polynsd.report.search_state import SearchState
from polynsd.training.callback import Callback, ProtocolPlan, SearchPlan, TrialStatus

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from polynsd.training import Epoch, FitResult

FRAMES_PER_SECOND = 4.0


class LiveView(Callback, ABC):
    """What both views share: when to draw, when to write a line, and how to stop.

    Args:
        quiet: say nothing.
        console: where to draw; standard error unless given. Without a terminal there are plain lines:
            one at the start, one at the end, and between them at most one in ten seconds.
        clock: seconds, for the rates.
    """

    def __init__(
        self, quiet: bool = False, console: Console | None = None, clock: Clock = time.monotonic
    ) -> None:
        self.quiet, self._clock = quiet, clock
        self._given = console
        self._live: Any = None
        self._next_line = math.inf  # when the next plain line is due

    @abstractmethod
    def draw(self) -> RenderableType:
        """The picture of now."""

    @abstractmethod
    def line(self) -> str:
        """The same in one line."""

    def _open(self, first_line: str) -> None:
        if not self.quiet and self._has_terminal():
            self._live = _start_live(self)
        elif not self.quiet:
            self._say(first_line)

    def _close(self, error: type[BaseException] | None = None) -> None:
        """Stops drawing, the last picture stays; where there is none, or an error, a last line."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()
        if error is not None and (live is not None or self._next_line < math.inf):
            how = "interrupted" if issubclass(error, KeyboardInterrupt) else "stopped by an error"
            self._say(f"{how}: {self.line().strip()}")
        elif self._next_line < math.inf:
            self._say(self.line())
        self._next_line = math.inf

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(kind)

    @cached_property
    def console(self) -> Console:
        """Where the view is drawn."""
        from rich.console import Console

        return Console(stderr=True) if self._given is None else self._given

    def _has_terminal(self) -> bool:
        # Rich believes FORCE_COLOR; a log with colours is still no place for moving pictures
        real = sys.stderr.isatty() if self._given is None else self._given.is_terminal
        return real and not self.console.is_dumb_terminal

    def _say_when_due(self) -> None:
        if self._next_line < math.inf and self._clock() >= self._next_line:
            self._say(self.line())

    def _say(self, line: str) -> None:
        self._next_line = self._clock() + QUIET_SECONDS
        self.console.print(line, soft_wrap=True, markup=False, highlight=False)


def _start_live(view: LiveView) -> Any:
    from rich.live import Live

    # what is written to a stdout that goes elsewhere, JSON say, must go there and not onto the screen
    live = Live(
        console=view.console,
        get_renderable=view.draw,
        refresh_per_second=FRAMES_PER_SECOND,
        redirect_stdout=sys.stdout.isatty(),
    )
    live.start()
    return live


def _splits(count: int) -> str:
    return "1 split" if count == 1 else f"{count} splits"


class ProtocolView(LiveView):
    """Every split with its epochs, its last and best validation; rate and time left over all."""

    state: ProtocolState

    def begin(self, plan: ProtocolPlan) -> None:
        """Opens the view; one that is open already is closed first."""
        self._close()
        self.state = ProtocolState(plan, self._clock)
        epochs = "epochs" if plan.epochs is None else f"at most {plan.epochs:,} epochs each"
        chosen = {"metric": plan.metric, "acc": "accuracy", "auc": "roc_auc"}.get(plan.select, plan.select)
        about = f"{plan.title}: " if plan.title else ""
        self._open(f"{about}{_splits(len(plan.splits))}, {epochs}, chosen by validation {chosen}")

    def resume(self, split: int, last: Epoch, best: Epoch) -> None:
        """The split's bar begins where it was left."""
        self.state.resume(split, last, best)

    def epoch(self, split: int, epoch: Epoch) -> None:
        """Moves a bar."""
        self.state.epoch(split, epoch)
        self._say_when_due()

    def done(self, split: int, result: FitResult) -> None:
        """Ends a bar."""
        self.state.done(split, result)

    def draw(self) -> RenderableType:
        """Rows of splits, and a footer."""
        return drawing.draw_protocol(self.state, self.console.height)

    def line(self) -> str:
        """Splits done, mean of the best, pace."""
        state, metric = self.state, self.state.plan.metric
        share = "" if state.share is None else f"{math.floor(100 * state.share):3d} %  "
        best = f"mean of best validation {metric} {score_with_unit(metric, state.mean_best)}"
        over = f"{state.num_over} of {_splits(len(state.splits))} done"
        return f"{share}{over}, {best} ({drawing.protocol_pace(state)})"


class SearchView(LiveView):
    """The best trial so far and its parameters; how many are done, pruned, failed, running; time left."""

    state: SearchState

    def begin_search(self, plan: SearchPlan) -> None:
        """Opens the view; one that is open already is closed first."""
        self._close()
        self.state = SearchState(plan, self._clock)
        about = f"{plan.title}: " if plan.title else ""
        self._open(f"{about}search, {drawing.search_counts(self.state)}")

    def trial(self, trial: TrialStatus) -> None:
        """Counts the trial."""
        self.state.trial(trial)
        self._say_when_due()

    def draw(self) -> RenderableType:
        """Trials, the best of them, and a footer."""
        return drawing.draw_search(self.state, self.console.width)

    def line(self) -> str:
        """Trials by state, the best value, pace."""
        state, best = self.state, self.state.best
        words = drawing.search_counts(state)
        if best is not None:
            metric = state.plan.metric
            words += f"; best {metric} {score_with_unit(metric, best.value)}, trial {best.number}"
        return f"{words} ({drawing.search_pace(state)})"
