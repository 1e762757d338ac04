"""Differences between two models in one cell and in many, and what they say about a statement.

"As good as" means: not lower by two points (`MARGIN`). Nothing is refuted because it is not shown: a
statement is refuted where its contrary is shown, and undecided where neither is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

from scipy.special import stdtr, stdtrit  # Student's t, without the detour over scipy.stats

from polynsd.stats import holm
from polynsd_paper.claims.claim import CONFIRMED, PARTLY, REFUTED, UNDECIDED, Finding
from polynsd_paper.formatting import NOT_RUN

MARGIN = 0.02  # two models are as good as each other where the whole interval is within this
CHANCE = 0.05  # of a wrong word about any of the cells
ADJUSTED = "paired, Holm-adjusted"
FEW = 0.25  # better in a smaller share of cells is not "mostly better"; worse in as large a share neither


class Gap(NamedTuple):
    """First − second as a fraction, with the ends of its 95 % interval by Student's t over so many splits."""

    difference: float
    low: float
    high: float
    splits: int = 10

    def __str__(self) -> str:
        return f"{100 * self.difference:+.2f} [{100 * self.low:.2f}, {100 * self.high:.2f}]"

    def p_above(self, bound: float) -> float:
        """One-sided: small where the difference is shown to be above the bound."""
        error = (self.high - self.low) / 2 / float(stdtrit(self.splits - 1, 0.975))
        distance = self.difference - bound
        t = distance / error if error > 0 else math.copysign(math.inf, distance) if distance else 0.0
        return float(stdtr(self.splits - 1, -t))

    @property
    def p(self) -> float:
        """Two-sided, of a difference from zero."""
        above = self.p_above(0.0)
        return 2 * min(above, 1 - above)

    def p_equal(self, margin: float) -> float:
        """By two one-sided tests: small where |difference| < margin is shown."""
        return max(self.p_above(-margin), 1 - self.p_above(margin))

    def judge_gain(self, printed: float) -> str:
        """Of a gain of the printed size: refuted where one as large is excluded and none is not."""
        if self.low > 0:
            return CONFIRMED if self.high >= printed else PARTLY
        return REFUTED if self.high < printed else UNDECIDED


class Gaps:
    """Differences in many cells. The `judge_*` methods give the finding on a statement about all of them.

    What they count as better, worse or equal is so beyond chance in all cells together: p-values of one kind
    are Holm-adjusted over the cells, α = 0.05. Their `total` says how many cells the statement is about, and
    `what` what these are called: where too few are compared, the finding says how many are missing. Options:
    `is_decisive` of `Finding`, `share` of `Finding.require`.

    Args:
        gaps: the comparisons; those that were impossible (None) are left out.
    """

    def __init__(self, gaps: Iterable[Gap | None]) -> None:
        self.gaps = tuple(gap for gap in gaps if gap is not None)

    def __len__(self) -> int:
        return len(self.gaps)

    def _shown(self, p: Callable[[Gap], float]) -> list[bool]:
        """In which cells something is shown, by its adjusted p-values."""
        return [bool(value <= CHANCE) for value in holm([min(1.0, p(gap)) for gap in self.gaps])]

    @cached_property
    def is_better(self) -> list[bool]:
        shown = self._shown(lambda gap: gap.p)
        return [is_shown and gap.difference > 0 for is_shown, gap in zip(shown, self.gaps, strict=True)]

    @cached_property
    def better(self) -> int:
        """Cells in which the first is better."""
        return sum(self.is_better)

    @cached_property
    def worse(self) -> int:
        """Cells in which it is worse."""
        return sum(self._shown(lambda gap: gap.p)) - self.better

    @cached_property
    def not_better(self) -> int:
        """Cells in which it is not better by the margin, nor at all as far as can be told."""
        shown = self._shown(lambda gap: 1 - gap.p_above(MARGIN))
        return sum(no and not yes for no, yes in zip(shown, self.is_better, strict=True))

    @cached_property
    def not_worse(self) -> int:
        """Cells in which it is not lower by the margin."""
        return sum(self._shown(lambda gap: gap.p_above(-MARGIN)))

    @cached_property
    def lower(self) -> int:
        """Cells in which it is lower by more than the margin."""
        return sum(self._shown(lambda gap: 1 - gap.p_above(-MARGIN)))

    @cached_property
    def equal(self) -> int:
        """Cells in which the two are within the margin of each other."""
        return sum(self._shown(lambda gap: gap.p_equal(MARGIN)))

    @cached_property
    def apart(self) -> int:
        """Cells in which they differ by more than the margin."""
        return self.lower + sum(self._shown(lambda gap: gap.p_above(MARGIN)))

    @property
    def points(self) -> float:
        """The mean difference in percentage points."""
        return 100 * fmean(gap.difference for gap in self.gaps) if self.gaps else 0.0

    @property
    def has_counterexample(self) -> bool:
        """Whether some cell is worse: then "better in every cell" is false."""
        return self.worse > 0

    def judge_mostly_better(self, title: str, total: int = 0, what: str = "cells", **options: Any) -> Finding:
        """Refuted where half of the cells show that the first is not better by the margin."""
        is_clear = 2 * self.better > len(self) and self.worse < FEW * len(self)
        verdict = _choose_verdict(
            2 * self.not_better >= len(self), is_clear, self.better + self.not_better, len(self)
        )
        return self._cover(verdict, f"{title}: {self}", total, what, **options)

    def judge_always_better(self, title: str, total: int = 0, what: str = "cells", **options: Any) -> Finding:
        """Refuted where a cell shows the contrary, or half of them that there is no gain of the margin."""
        is_refuted = self.has_counterexample or 2 * self.not_better >= len(self)
        verdict = _choose_verdict(
            is_refuted, self.better == len(self), self.better + self.not_better, len(self)
        )
        return self._cover(
            verdict, f"{title}: {self}", total, what, has_counterexample=self.has_counterexample, **options
        )

    def judge_as_good(
        self, title: str, total: int = 0, what: str = "cells", *, may_be_worse: float = CHANCE, **options: Any
    ) -> Finding:
        """Confirmed where most cells are not worse by the margin, and at most a share of them is worse."""
        is_clear = 2 * self.not_worse > len(self) and self.worse <= may_be_worse * len(self)
        verdict = _choose_verdict(
            2 * self.worse > len(self), is_clear, self.not_worse + self.lower, len(self)
        )
        evidence = f"{title}: {self}, not worse by {100 * MARGIN:g} points in {self.not_worse}"
        return self._cover(verdict, evidence, total, what, **options)

    def judge_equal(self, title: str, total: int = 0, what: str = "cells", **options: Any) -> Finding:
        """Confirmed where most cells are within the margin, and none is beyond it."""
        is_clear = 2 * self.equal > len(self) and not self.apart
        verdict = _choose_verdict(2 * self.apart >= len(self), is_clear, self.equal + self.apart, len(self))
        evidence = (
            f"{title}: within ±{100 * MARGIN:g} points in {self.equal}, beyond in {self.apart}, undecided in "
            f"{len(self) - self.equal - self.apart} of {len(self)} pairs ({ADJUSTED})"
        )
        number = f"within {100 * MARGIN:g} points in {self.equal} of {len(self)}"
        return self._cover(verdict, evidence, total, what, number=number, **options)

    def _cover(
        self,
        verdict: str,
        evidence: str,
        total: int,
        what: str,
        *,
        is_decisive: bool = False,
        number: str = "",
        **options: Any,
    ) -> Finding:
        """The finding, if enough of the cells are there; `options` are those of `Finding.require`."""
        found = Finding(verdict, evidence, is_decisive, number or self.number)
        return found.require(len(self), total, what, **options)

    def is_never_lower(self) -> bool | None:
        """Whether no cell is lower by the margin; None where that is undecided."""
        if self.lower:
            return False
        return True if self.not_worse == len(self) else None

    @property
    def number(self) -> str:
        """`+1.2 points, better in 5 of 23`"""
        return f"{self.points:+.1f} points, better in {self.better} of {len(self)}" if self.gaps else ""

    def __str__(self) -> str:
        if not self.gaps:
            return "nothing to compare"
        undecided = len(self) - self.better - self.worse
        return (
            f"{self.points:+.2f} points on average; better in {self.better}, worse in {self.worse}, "
            f"undecided in {undecided} of {len(self)} cells ({ADJUSTED})"
        )


def _choose_verdict(is_refuted: bool, is_confirmed: bool, decided: int, total: int) -> str:
    """Undecided where less than half of the cells show anything."""
    if not total:
        return UNDECIDED
    if is_refuted or is_confirmed:
        return REFUTED if is_refuted else CONFIRMED
    return PARTLY if 2 * decided > total else UNDECIDED


def gap_text(gap: Gap | None, digits: int = 1) -> str:
    """`5.4 (2.5 to 8.4)` in points, bold where the interval does not contain zero; a dash for None."""
    if gap is None:
        return NOT_RUN
    difference, low, high = (points_text(value, digits) for value in gap[:3])
    text = f"{difference} ({low} to {high})"
    return f"**{text}**" if gap.low > 0 or gap.high < 0 else text


def points_text(share: float, digits: int = 1) -> str:
    """`−1.2` for −0.012."""
    rounded = round(100 * share, digits) + 0.0  # no −0.0
    return f"{rounded:.{digits}f}".replace("-", "−")
