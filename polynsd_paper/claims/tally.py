"""Many paired differences of a first and a second model, and which statements about them hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from polynsd_paper.claims.claim import CONFIRMED, NOT_TESTABLE, PARTLY, REFUTED

MARGIN = 0.02  # two models are as good as each other where the whole interval is within this
CHANCE = 0.05  # so many intervals may miss their mark
FEW = 0.25  # better in fewer cells is not better; worse in as many is no rule


class Gap(NamedTuple):
    """First − second as a fraction, with the ends of its 95 % interval."""

    difference: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.difference:+.2f} [{100 * self.low:.2f}, {100 * self.high:.2f}]"

    def verdict(self, printed: float) -> str:
        """Of a gain of the printed size: there is one, and so large a one is not excluded."""
        if self.low <= 0:
            return REFUTED
        return CONFIRMED if self.high >= printed else PARTLY


def over_graphs(first: ArrayLike, second: ArrayLike) -> Gap | None:
    """By Student's t over differences on graphs of their own; None for fewer than three."""
    from scipy import stats

    d = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    if len(d) < 3:
        return None
    reach = float(stats.t.ppf(0.975, len(d) - 1) * d.std(ddof=1) / np.sqrt(len(d)))
    return Gap(float(d.mean()), float(d.mean()) - reach, float(d.mean()) + reach)


@dataclass(frozen=True)
class Tally:
    """Differences in many cells; an empty one decides nothing."""

    gaps: tuple[Gap, ...]

    @classmethod
    def of(cls, gaps: Iterable[Gap | None]) -> Tally:
        """Of those that could be had."""
        return cls(tuple(one for one in gaps if one is not None))

    def __len__(self) -> int:
        return len(self.gaps)

    @property
    def better(self) -> int:
        """Where the whole interval is above 0."""
        return sum(one.low > 0 for one in self.gaps)

    @property
    def worse(self) -> int:
        """Where the whole interval is below 0."""
        return sum(one.high < 0 for one in self.gaps)

    @property
    def has_counterexample(self) -> bool:
        """Worse in more cells than by chance: "better in every cell" is false, whatever the rest says."""
        return self.worse > CHANCE * len(self)

    @property
    def kept(self) -> int:
        """Where the first is certainly not worse by the margin."""
        return sum(one.low > -MARGIN for one in self.gaps)

    @property
    def equal(self) -> int:
        """Where the whole interval is within the margin."""
        return sum(is_equal(one) for one in self.gaps)

    @property
    def apart(self) -> int:
        """Where the whole interval is beyond the margin."""
        return sum(is_apart(one) for one in self.gaps)

    @property
    def points(self) -> float:
        """The mean difference in percentage points."""
        return 100 * fmean(one.difference for one in self.gaps) if self.gaps else 0.0

    @property
    def mostly(self) -> str:
        """Of "the first is better in most cells": refuted where it is so in few, or no oftener than worse."""
        if not self.gaps:
            return NOT_TESTABLE
        if self.better <= self.worse or self.better < FEW * len(self):
            return REFUTED
        return CONFIRMED if 2 * self.better > len(self) and self.worse < FEW * len(self) else PARTLY

    @property
    def always(self) -> str:
        """Of "the first is better in every cell": refuted where half do not show it, or some the contrary."""
        if not self.gaps:
            return NOT_TESTABLE
        if 2 * self.better <= len(self) or self.has_counterexample:
            return REFUTED
        return CONFIRMED if self.better == len(self) else PARTLY

    def keeps_up(self, worse: float = CHANCE) -> str:
        """Of "the first is as good": within the margin in most cells, and worse in at most this share."""
        if not self.kept + self.worse:
            return NOT_TESTABLE
        if 2 * self.worse > len(self):
            return REFUTED
        return CONFIRMED if 2 * self.kept > len(self) and self.worse <= worse * len(self) else PARTLY

    @property
    def same(self) -> str:
        """Of "they are equal": within the margin in most cells, beyond it in none but by chance."""
        if not self.equal + self.apart:
            return NOT_TESTABLE
        if 2 * self.apart >= len(self):
            return REFUTED
        return CONFIRMED if 2 * self.equal > len(self) and self.apart <= CHANCE * len(self) else PARTLY

    def __str__(self) -> str:
        if not self.gaps:
            return "nothing to compare"
        undecided = len(self) - self.better - self.worse
        return (
            f"{self.points:+.2f} points on average; better in {self.better}, worse in {self.worse}, "
            f"undecided in {undecided} of {len(self)} cells (95 %, paired)"
        )

    @property
    def not_worse(self) -> str:
        """The same, and in how many cells it is as good."""
        return f"{self}, not worse by {100 * MARGIN:g} points in {self.kept}"

    @property
    def equality(self) -> str:
        """How many cells are within the margin, how many beyond."""
        return (
            f"within ±{100 * MARGIN:g} points in {self.equal}, beyond in {self.apart}, undecided in "
            f"{len(self) - self.equal - self.apart} of {len(self)} pairs (95 %, paired)"
        )


def is_equal(gap: Gap) -> bool:
    """The whole interval is within the margin."""
    return gap.low > -MARGIN and gap.high < MARGIN


def is_apart(gap: Gap) -> bool:
    """The whole interval is beyond the margin."""
    return gap.low > MARGIN or gap.high < -MARGIN


def none_beyond(gaps: Sequence[Gap]) -> str:
    """Of "the first is nowhere lower by the margin", a row of cells at a time."""
    if any(gap.high < -MARGIN for gap in gaps):
        return REFUTED
    return CONFIRMED if all(gap.low > -MARGIN for gap in gaps) else PARTLY
