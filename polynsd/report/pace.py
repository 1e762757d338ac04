"""How fast it goes and how long it will take, in numbers and in words."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta

WINDOW = 10.0  # seconds: long enough for work that is reported in bunches, short enough to follow changes

Clock = Callable[[], float]


class Pace:
    """The rate of a growing count, over the last few seconds.

    Replicas that stop early make the rest of the work slower per unit, so the mean since the start
    would promise too much.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._looks = deque([(clock(), 0)])
        self.started = clock()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._clock() - self.started

    def mean(self, count: int) -> float | None:
        """Units per second since the start; None before the first."""
        elapsed = self.elapsed
        return count / elapsed if count and elapsed > 0 else None

    def rate(self, count: int) -> float | None:
        """Units per second of late, given how many there are now; None before the first."""
        now = self._clock()
        if count > self._looks[-1][1]:
            self._looks.append((now, count))
        while len(self._looks) > 2 and self._looks[1][0] < now - WINDOW:
            self._looks.popleft()
        since, before = self._looks[0]
        return (count - before) / (now - since) if count > before and now > since else None

    def left(self, remaining: int | None, count: int) -> float | None:
        """Seconds that `remaining` units take at the rate of late; None where that is unknown."""
        if remaining is None:
            return None
        rate = self.rate(count)
        if rate is None:
            return None if remaining else 0.0
        return max(remaining, 0) / rate


def clock_text(seconds: float) -> str:
    """h:mm:ss"""
    return str(timedelta(seconds=int(seconds)))


def rate_text(rate: float | None, unit: str) -> str:
    """`4,210 epochs/s`; per minute where that is less than one in a second."""
    if rate is None:
        return f"– {unit}/s"
    if rate < 1:
        return f"{60 * rate:.2g} {unit}/min"
    return f"{rate:,.0f} {unit}/s" if rate >= 10 else f"{rate:.1f} {unit}/s"


PERCENT = ("accuracy", "roc_auc")


def score_text(metric: str, value: float | None) -> str:
    """Percent for shares and probabilities, four digits for anything else, a dash for nothing."""
    if value is None:
        return "–"
    return f"{100 * value:.1f}" if metric in PERCENT else f"{value:.4g}"


def score_with_unit(metric: str, value: float | None) -> str:
    """`84.2 %` or `0.7312`"""
    return score_text(metric, value) + (" %" if metric in PERCENT and value is not None else "")


def score_name(metric: str) -> str:
    """`accuracy %`; the unit belongs to the name where there are many numbers."""
    return f"{metric} %" if metric in PERCENT else metric
