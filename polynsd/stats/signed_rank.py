"""Wilcoxon's signed-rank test, exact also with ties and zeros; SciPy's is exact only without them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from polynsd.stats.scores import Array, round_scores


@dataclass(frozen=True)
class SignedRank:
    """W⁺ and W⁻ are the sums of the ranks of positive and negative differences; `p` is two-sided."""

    plus: float
    minus: float
    p: float

    @property
    def rank_biserial(self) -> float:
        """(W⁺ − W⁻) / (W⁺ + W⁻), the matched-pairs rank-biserial correlation in [−1, 1]; 0 without ranks."""
        total = self.plus + self.minus
        return (self.plus - self.minus) / total if total else 0.0


def signed_rank(differences: Array) -> SignedRank:
    """The two-sided Wilcoxon signed-rank test of symmetry about 0, exact also with ties and zeros.

    |d₁|, …, |dₙ| are ranked together; equal ones share their mean rank. Pratt's rule for zeros: they take
    part in the ranking and are left out of the sums, so that many ties weaken the evidence.
    Under the null hypothesis every rank rᵢ with dᵢ ≠ 0 has its sign by a fair coin, hence

        Σ_w P(W⁺ = w) xʷ = Π_{dᵢ ≠ 0} (1 + x^{rᵢ}) / 2,

    a polynomial which is multiplied out here (Pratt, JASA 1959).
    """
    d = round_scores(differences)
    ranks = stats.rankdata(np.abs(d))
    plus, minus = float(ranks[d > 0].sum()), float(ranks[d < 0].sum())
    return SignedRank(plus, minus, _two_sided_p(ranks[d != 0], min(plus, minus)))


def _two_sided_p(ranks: Array, smaller: float) -> float:
    """2 P(W⁺ ≤ smaller), at most 1: the distribution of W⁺ is symmetric."""
    distribution = _null_distribution(np.rint(2 * ranks).astype(np.int64))
    return min(1.0, 2 * float(distribution[: round(2 * smaller) + 1].sum()))


def _null_distribution(steps: NDArray[np.int64]) -> Array:
    """P(2W⁺ = w) for w = 0, 1, …; doubled, because mean ranks may be halves."""
    distribution = np.zeros(int(steps.sum()) + 1)
    distribution[0] = 1.0
    for step in steps:
        # nothing wraps around: the last index is the sum of all steps
        distribution = (distribution + np.roll(distribution, step)) / 2
    return distribution
