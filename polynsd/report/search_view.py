"""`SearchView`: the trials of a search while they run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from rich.columns import Columns
from rich.console import RenderableType
from rich.progress import BarColumn
from rich.text import Text

from polynsd.report.output import score_with_unit
from polynsd.report.progress import LiveView, one_line
from polynsd.training.callback import TRIAL_STATES, SearchPlan, TrialStatus

RUNNING = "running"
LEVELS = "▁▂▃▄▅▆▇█"


class SearchView(LiveView):
    """The best trial so far and its parameters; trials complete, pruned, failed, running; time left."""

    unit = "trials"
    rate_seconds = math.inf  # trials are too few for less

    def begin_search(self, plan: SearchPlan) -> None:
        """Opens the view; one that is open already is closed first."""
        display = self.make_display(BarColumn(None, complete_style="cyan", finished_style="green"))
        display.add_task("trials", total=plan.trials)
        self.plan, self.states = plan, dict[int, str]()
        self.best: TrialStatus | None = None
        self.history: list[float] = []  # best so far, after each trial that ended
        for trial in plan.earlier:
            self._count(trial)
        self._earlier = self.ended
        self.start(f"{plan.title}: search, {self._counts()}" if plan.title else f"search, {self._counts()}")

    def trial(self, trial: TrialStatus) -> None:
        """Counts the trial; one that is reported twice counts once."""
        self._count(trial)
        self.print_when_due()

    def _count(self, trial: TrialStatus) -> None:
        has_ended = self.states.get(trial.number, RUNNING) != RUNNING
        self.states[trial.number] = trial.state
        if trial.is_best:
            self.best = trial
        if trial.state != RUNNING and not has_ended and self.best is not None and self.best.value is not None:
            self.history.append(self.best.value)

    @property
    def ended(self) -> int:
        """Trials that are over, however they ended."""
        return sum(state != RUNNING for state in list(self.states.values()))

    @property
    def seen(self) -> int:
        """Trials that ended here, the earlier ones left out."""
        return self.ended - self._earlier

    @property
    def remaining(self) -> int | None:
        """Trials to come; other workers may add to the study, so it can exceed its plan."""
        return None if self.plan.trials is None else max(self.plan.trials - self.ended, 0)

    def draw(self) -> Iterable[RenderableType]:
        """Trials so far, the best of them with its parameters, and how the best value grew."""
        assert self._display is not None
        task = self._display.tasks[1]
        self._display.update(task.id, completed=self.ended)
        about = f"{self.plan.title}: " if self.plan.title else ""
        yield one_line(f"{about}search by validation {self.plan.metric}", "bold")
        yield self._display.make_tasks_table([task])
        yield one_line(self._counts())
        if self.best is None:
            yield one_line("no trial is complete yet", "dim")
        else:
            value = score_with_unit(self.plan.metric, self.best.value)
            head = f"best {value}, trial {self.best.number}  "
            line = sparkline(self.history, self.console.width - len(head))
            yield Text(head, style="bold green").append(line, style="green")
            if self.best.params:
                parameters = [
                    one_line(f"{name} ", "dim").append(
                        f"{value:.4g}" if isinstance(value, float) else str(value), style="not dim"
                    )
                    for name, value in sorted(self.best.params.items())
                ]
                yield Columns(parameters, padding=(0, 3))
        yield one_line(self.time_text("about"), "dim")

    def line(self) -> str:
        """Trials by state, the best value, rate and time left."""
        words = self._counts()
        if self.best is not None:
            value = score_with_unit(self.plan.metric, self.best.value)
            words += f"; best {self.plan.metric} {value}, trial {self.best.number}"
        return f"{words} ({self.time_text('about')})"

    def _counts(self) -> str:
        """`52 of 200 trials: 40 complete, 11 pruned, 1 failed, 4 running`"""
        counts, total = Counter(list(self.states.values())), self.plan.trials  # a copy: it grows meanwhile
        parts = [f"{counts[name]} {name}" for name in TRIAL_STATES if counts[name]]
        unit = "trial" if (total or self.ended) == 1 else "trials"
        share = "" if total is None else f" of {total:,}"
        return f"{self.ended:,}{share} {unit}" + (f": {', '.join(parts)}" if parts else "")


def sparkline(values: list[float], width: int) -> str:
    """The values as bars of eight heights, from least to greatest, in at most `width` characters."""
    if not values or width < 1:
        return ""
    if len(values) > width:  # the last value of each of `width` equal parts, so the end is the end
        values = [values[(i + 1) * len(values) // width - 1] for i in range(width)]
    low, high = min(values), max(values)
    scale = (len(LEVELS) - 1) / (high - low) if high > low else 0.0
    return "".join(LEVELS[round((value - low) * scale)] for value in values)
