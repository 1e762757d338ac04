"""Two models on the same splits: is one better, by how much, and how certain is that?

Our own, because SciPy has no t-test for overlapping splits (the corrected resampled one of Nadeau and Bengio)
and its signed-rank test is exact only without ties and zeros.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from polynsd.errors import ConfigError, DataError, ShapeError
from polynsd.stats.scores import Array, require_inside, round_scores, split_means


@dataclass(frozen=True)
class Comparison:
    """The first model against the second, over splits.

    Attributes:
        splits: n, the number of splits.
        difference: d̄, mean of first − second.
        low: lower end of the confidence interval of the difference.
        high: upper end of it.
        t: corrected resampled t, n − 1 degrees of freedom.
        p: two-sided, of t.
        p_wilcoxon: two-sided and exact, of the signed-rank test.
        d_z: Cohen's d̄ / s, with s the standard deviation of the differences.
        rank_biserial: (W⁺ − W⁻) / (W⁺ + W⁻).
        wins: splits on which the first model is better.
        ties: splits on which they are equal.
        losses: splits on which the second model is better.
    """

    splits: int
    difference: float
    low: float
    high: float
    t: float
    p: float
    p_wilcoxon: float
    d_z: float
    rank_biserial: float
    wins: int
    ties: int
    losses: int


def compare(
    a: ArrayLike, b: ArrayLike, train_share: float, *, test_share: float | None = None, level: float = 0.95
) -> Comparison:
    """Compares models a and b by the corrected resampled t-test and the signed-rank test.

    Args:
        a: scores [splits, seeds] of the first model, higher is better.
        b: scores of the second on the same splits in the same order; it may have another number of seeds.
        train_share: share of the nodes that a split trains on.
        test_share: share that it tests on; left out, all nodes it does not train on, which is careful.
        level: of the confidence interval.
    """
    require_inside("level", level)
    d = paired_differences(a, b)
    d_mean = float(d.mean())
    s = float(d.std(ddof=1)) if np.ptp(d) else 0.0  # equal differences have no spread, not one of 1e-18
    error = s * math.sqrt(variance_factor(len(d), train_share, test_share))
    t = _divide(d_mean, error)
    reach = error * float(stats.t.ppf((1 + level) / 2, len(d) - 1))
    ranks = signed_rank(d)
    return Comparison(
        splits=len(d),
        difference=d_mean,
        low=d_mean - reach,
        high=d_mean + reach,
        t=t,
        p=float(2 * stats.t.sf(abs(t), len(d) - 1)),
        p_wilcoxon=ranks.p,
        d_z=_divide(d_mean, s),
        rank_biserial=ranks.rank_biserial,
        wins=int((d > 0).sum()),
        ties=int((d == 0).sum()),
        losses=int((d < 0).sum()),
    )


def paired_differences(a: ArrayLike, b: ArrayLike) -> Array:
    """First − second on every split, [splits], seeds averaged, free of rounding errors."""
    first, second = split_means(a, "scores of the first model"), split_means(b, "scores of the second model")
    if len(first) != len(second):
        raise ShapeError(
            f"both models must be scored on the same splits; got {len(first)} and {len(second)} splits."
        )
    return round_scores(first - second)


def variance_factor(splits: int, train_share: float, test_share: float | None = None) -> float:
    """1/n + n_test/n_train: the variance of the mean difference in units of s².

    Splits draw from the same nodes, so their differences are correlated and s²/n is far too small.
    Nadeau and Bengio (Machine Learning, 2003) take the correlation to be n_test / (n_test + n_train).
    """
    require_inside("train_share", train_share)
    tested = 1.0 - train_share if test_share is None else test_share
    require_inside("test_share", tested)
    if train_share + tested > 1 + 1e-9:
        raise ConfigError(
            f"train_share + test_share must be at most 1; got {train_share} + {tested}. "
            "Give shares of all nodes, such as 0.48 and 0.2."
        )
    return 1 / splits + tested / train_share


def _divide(mean: float, spread: float) -> float:
    """Mean / spread: 0 where nothing differs, ±∞ where every split differs by the same amount."""
    if spread > 0:
        return mean / spread
    return math.copysign(math.inf, mean) if mean else 0.0


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
