"""Where a search stands."""

from __future__ import annotations

import time
from collections import Counter

from polynsd.report.pace import Clock, Pace
from polynsd.training.callback import SearchPlan, TrialStatus

RUNNING = "running"


class SearchState:
    """Trials by state, the best of them, and how the best value grew."""

    def __init__(self, plan: SearchPlan, clock: Clock = time.monotonic) -> None:
        self.plan, self.pace = plan, Pace(clock)
        self.states: dict[int, str] = {}
        self.best: TrialStatus | None = None
        self.history: list[float] = []  # best so far, after each trial that ended
        for trial in plan.earlier:
            self.trial(trial)
        self._earlier = self.ended

    def trial(self, trial: TrialStatus) -> None:
        """A trial has started or ended; one that is told twice counts once."""
        known = self.states.get(trial.number, RUNNING) != RUNNING
        self.states[trial.number] = trial.state
        if trial.is_best:
            self.best = trial
        if trial.state != RUNNING and not known and self.best is not None and self.best.value is not None:
            self.history.append(self.best.value)

    @property
    def counts(self) -> Counter[str]:
        """Trials in each state."""
        return Counter(list(self.states.values()))  # a copy: it may grow while it is drawn

    @property
    def ended(self) -> int:
        """Trials that are over, however they ended."""
        return len(self.states) - self.counts[RUNNING]

    @property
    def seen(self) -> int:
        """Trials that ended here, the earlier ones left out."""
        return self.ended - self._earlier

    @property
    def remaining(self) -> int | None:
        """Trials to come; None where nobody knows. Others may add to the study, so it can exceed its plan."""
        return None if self.plan.trials is None else max(self.plan.trials - self.ended, 0)

    @property
    def rate(self) -> float | None:
        """Trials per second since the start; they are too few for less."""
        return self.pace.mean(self.seen)

    @property
    def seconds_left(self) -> float | None:
        """An estimate: trials differ in length."""
        rate, remaining = self.rate, self.remaining
        return None if rate is None or remaining is None else remaining / rate


LEVELS = "▁▂▃▄▅▆▇█"


def sparkline(values: list[float], width: int) -> str:
    """The values as bars of eight heights, from their least to their greatest, in `width` signs or fewer."""
    if not values or width < 1:
        return ""
    if len(values) > width:  # the last value of each of `width` equal parts, so the end is the end
        values = [values[(i + 1) * len(values) // width - 1] for i in range(width)]
    low, high = min(values), max(values)
    scale = (len(LEVELS) - 1) / (high - low) if high > low else 0.0
    return "".join(LEVELS[round((value - low) * scale)] for value in values)
