"""Differences between two models in one cell and in many, and what they say about a statement.

"As good as" means: not lower by two points (`CLAIM_MARGIN`). Nothing is refuted because it is not shown: a
statement is refuted where its contrary is shown, and undecided where neither is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from statistics import fmean
from typing import Any

from polynsd.stats import Difference, Family, holm, judge_family
from polynsd.stats.families import LOSS, WIN
from polynsd_paper.claims.claim import CONFIRMED, PARTLY, REFUTED, UNDECIDED, Finding
from polynsd_paper.tables.formatting import NOT_RUN

CLAIM_MARGIN = 0.02  # two models are as good as each other where the whole interval is within this
CHANCE = 0.05  # of a wrong word about any of the cells
ADJUSTED = "paired, Holm-adjusted"
FEW = 0.25  # better in a smaller share of cells is not "mostly better"; worse in as large a share neither


class Gaps:
    """Differences in many cells. The `judge_*` methods give the finding on a statement about all of them.

    What they count as better, worse or equal is so beyond chance in all cells together: p-values of one kind
    are Holm-adjusted over the cells, α = 0.05. Their `total` says how many cells the statement is about, and
    `what` what these are called: where too few are compared, the finding says how many are missing. Options:
    `is_decisive` of `Finding`, `share` of `Finding.require`.

    Args:
        gaps: the comparisons; those that were impossible (None) are left out.
    """

    def __init__(self, gaps: Iterable[Difference | None]) -> None:
        self.gaps = tuple(gap for gap in gaps if gap is not None)

    def __len__(self) -> int:
        return len(self.gaps)

    @cached_property
    def _family(self) -> Family:
        numbered = {str(number): gap for number, gap in enumerate(self.gaps)}
        return judge_family(numbered, margin=CLAIM_MARGIN, alpha=CHANCE)

    def _shown(self, p: Callable[[Difference], float]) -> list[bool]:
        """In which cells something is shown, by its adjusted one-sided p-values."""
        return [bool(value <= CHANCE) for value in holm([p(gap) for gap in self.gaps])]

    @property
    def better(self) -> int:
        """Cells in which the first is better."""
        return self._family.count(WIN)

    @property
    def worse(self) -> int:
        """Cells in which it is worse."""
        return self._family.count(LOSS)

    @cached_property
    def not_better(self) -> int:
        """Cells in which it is not better by the margin, nor at all as far as can be told."""
        shown = self._shown(lambda gap: 1 - gap.p_above(CLAIM_MARGIN))
        outcomes = self._family.outcomes.values()
        return sum(no and one.verdict != WIN for no, one in zip(shown, outcomes, strict=True))

    @cached_property
    def not_worse(self) -> int:
        """Cells in which it is not lower by the margin."""
        return sum(self._shown(lambda gap: gap.p_above(-CLAIM_MARGIN)))

    @cached_property
    def lower(self) -> int:
        """Cells in which it is lower by more than the margin."""
        return sum(self._shown(lambda gap: 1 - gap.p_above(-CLAIM_MARGIN)))

    @cached_property
    def equal(self) -> int:
        """Cells in which the two are within the margin of each other."""
        return sum(outcome.p_tie <= CHANCE for outcome in self._family.outcomes.values())

    @cached_property
    def apart(self) -> int:
        """Cells in which they differ by more than the margin."""
        return self.lower + sum(self._shown(lambda gap: gap.p_above(CLAIM_MARGIN)))

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
        evidence = f"{title}: {self}, not worse by {100 * CLAIM_MARGIN:g} points in {self.not_worse}"
        return self._cover(verdict, evidence, total, what, **options)

    def judge_equal(self, title: str, total: int = 0, what: str = "cells", **options: Any) -> Finding:
        """Confirmed where most cells are within the margin, and none is beyond it."""
        is_clear = 2 * self.equal > len(self) and not self.apart
        verdict = _choose_verdict(2 * self.apart >= len(self), is_clear, self.equal + self.apart, len(self))
        evidence = (
            f"{title}: within ±{100 * CLAIM_MARGIN:g} points in {self.equal}, beyond in {self.apart}, "
            f"undecided in {len(self) - self.equal - self.apart} of {len(self)} pairs ({ADJUSTED})"
        )
        number = f"within {100 * CLAIM_MARGIN:g} points in {self.equal} of {len(self)}"
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


def judge_gain(gap: Difference, printed: float) -> str:
    """Of a gain of the printed size: refuted where one as large is excluded and none is not."""
    if gap.low > 0:
        return CONFIRMED if gap.high >= printed else PARTLY
    return REFUTED if gap.high < printed else UNDECIDED


def gap_evidence(gap: Difference | None) -> str:
    """`+5.40 [2.50, 8.40]` in points; a dash for None."""
    if gap is None:
        return NOT_RUN
    return f"{100 * gap.difference:+.2f} [{100 * gap.low:.2f}, {100 * gap.high:.2f}]"
