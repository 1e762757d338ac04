"""A family of comparisons that is fixed in advance: wins, losses and ties, adjusted over all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from polynsd.errors import DataError
from polynsd.stats.paired import Difference
from polynsd.stats.scores import Array, require_inside

WIN, LOSS, TIE, UNDECIDED = "win", "loss", "tie", "undecided"
MARGIN = 0.01  # a point of accuracy: two models tie where they are shown to differ by less


@dataclass(frozen=True)
class Outcome:
    """One comparison of a family.

    Attributes:
        comparison: as it is alone.
        p: of a difference, Holm-adjusted over the family.
        p_tie: of |difference| < margin, Holm-adjusted over the family.
        verdict: "win", "loss", "tie" or "undecided".
    """

    comparison: Difference
    p: float
    p_tie: float
    verdict: str


@dataclass(frozen=True)
class Family:
    """The outcomes by name, with the margin and the level that they were decided by."""

    outcomes: Mapping[str, Outcome]
    margin: float
    alpha: float

    def count(self, verdict: str) -> int:
        """How many comparisons ended so."""
        return Counter(outcome.verdict for outcome in self.outcomes.values())[verdict]

    def __str__(self) -> str:
        """`2 wins, 1 loss, 3 ties, 5 undecided of 11`"""
        parts = ((WIN, "wins"), (LOSS, "losses"), (TIE, "ties"))
        counts = [f"{(n := self.count(one))} {one if n == 1 else many}" for one, many in parts]
        return f"{', '.join(counts)}, {self.count(UNDECIDED)} undecided of {len(self.outcomes)}"


def judge_family(
    comparisons: Mapping[str, Difference], *, margin: float = MARGIN, alpha: float = 0.05
) -> Family:
    """Decides all comparisons of a family, each error rate held at `alpha` over the whole family.

    A win or a loss where the Holm-adjusted p of a difference is at most α; otherwise a tie where the
    Holm-adjusted p of equivalence within the margin is; otherwise undecided. "Not significantly different" is
    no tie: it may be few splits.

    Args:
        comparisons: by name, first − second of each; they must have been chosen without looking at scores.
        margin: in the unit of the scores.
        alpha: of differences, and of ties.
    """
    require_inside("alpha", alpha)
    differences = holm([comparison.p for comparison in comparisons.values()])
    ties = holm([comparison.equivalence(margin) for comparison in comparisons.values()])
    outcomes = {}
    for (name, comparison), p, p_tie in zip(comparisons.items(), differences, ties, strict=True):
        if p <= alpha:
            verdict = WIN if comparison.difference > 0 else LOSS
        else:
            verdict = TIE if p_tie <= alpha else UNDECIDED
        outcomes[name] = Outcome(comparison, float(p), float(p_tie), verdict)
    return Family(outcomes, margin, alpha)


def holm(p: ArrayLike) -> Array:
    """Holm's step-down adjusted p-values, in the order given.

    With p₍₁₎ ≤ … ≤ p₍ₘ₎:  p̃₍ᵢ₎ = max_{j ≤ i} min(1, (m − j + 1) p₍ⱼ₎).  Rejecting where p̃ ≤ α keeps the
    probability of any false rejection at most α, whatever the dependence of the tests, and never
    rejects less than Bonferroni (Holm, 1979).
    """
    values = np.asarray(p, dtype=np.float64).ravel()
    if not np.all((values >= 0) & (values <= 1)):  # also False for NaN
        raise DataError(f"p-values must lie in [0, 1]; got {values.tolist()}.")
    order = np.argsort(values, kind="stable")
    left = np.arange(len(values), 0, -1)  # hypotheses not yet rejected: m, m − 1, …, 1
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(left * values[order]))
    return adjusted
