"""Two models on the same splits: is one better, by how much, and how certain is that?

Our own, because SciPy has no t-test for overlapping splits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from polynsd.errors import ConfigError, ShapeError
from polynsd.stats.scores import (
    Array,
    require_inside,
    round_scores,
    score_table,
    split_means,
    student_interval,
)
from polynsd.stats.signed_rank import signed_rank

MOST_BY_SEEDS = 0.5  # of the variance over splits; see `standard_errors`


class Shares(NamedTuple):
    """Shares of the nodes that a split trains on, chooses epochs and settings by, and tests on."""

    train: float
    val: float
    test: float


@dataclass(frozen=True)
class Difference:
    """The first model − the second by Student's t, over splits or independent graphs.

    Attributes:
        splits: n, the number of splits or graphs.
        difference: d̄, mean of first − second.
        error: its standard error; the overlap of splits counts for what splits contribute to it.
        low: lower end of the confidence interval of the difference.
        high: upper end of it.
        t: difference / error, n − 1 degrees of freedom.
        p: two-sided, of t.
    """

    splits: int
    difference: float
    error: float
    low: float
    high: float
    t: float
    p: float

    def p_above(self, bound: float) -> float:
        """One-sided: small where the difference is shown to be above the bound."""
        return float(stats.t.sf(_divide(self.difference - bound, self.error), self.splits - 1))

    def equivalence(self, margin: float) -> float:
        """The p-value of two one-sided tests (TOST): small where |difference| < margin is shown.

        The greater of P(T ≥ (d̄ + m)/e) and P(T ≥ (m − d̄)/e). At 0.05 it is small exactly where the 90 %
        interval of the difference lies within ± margin (Schuirmann, 1987).
        """
        if not margin > 0:
            raise ConfigError(f"margin must be greater than 0, in the unit of the scores; got {margin!r}.")
        nearest = _divide(margin - abs(self.difference), self.error)
        return float(stats.t.sf(nearest, self.splits - 1))


@dataclass(frozen=True)
class Comparison(Difference):
    """The first model against the second on the same splits: their difference, and how it comes about.

    Attributes:
        seed_share: share of s², the variance of the differences, that is put down to seeds, at most half.
        error_classic: standard error as Nadeau and Bengio have it, with all of s² put down to splits.
        low_classic: lower end with it.
        high_classic: upper end with it.
        p_classic: two-sided, with it.
        p_wilcoxon: two-sided and exact, of the signed-rank test.
        d_z: Cohen's d̄ / s.
        rank_biserial: (W⁺ − W⁻) / (W⁺ + W⁻).
        wins: splits on which the first model is better.
        ties: splits on which they are equal.
        losses: splits on which the second model is better.
    """

    seed_share: float
    error_classic: float
    low_classic: float
    high_classic: float
    p_classic: float
    p_wilcoxon: float
    d_z: float
    rank_biserial: float
    wins: int
    ties: int
    losses: int

    def as_classic(self) -> Comparison:
        """The same comparison with the classic error throughout."""
        t = _divide(self.difference, self.error_classic)
        low, high = self.low_classic, self.high_classic
        return replace(self, error=self.error_classic, low=low, high=high, t=t, p=self.p_classic)


def compare(
    a: ArrayLike, b: ArrayLike, shares: tuple[float, float, float], *, level: float = 0.95
) -> Comparison:
    """Compares models a and b by the t-test corrected for overlapping splits, and the signed-rank test.

    Args:
        a: scores [splits, seeds] of the first model, higher is better.
        b: scores of the second on the same splits in the same order; it may have another number of seeds.
        shares: shares of the nodes that a split trains, validates and tests on, such as (0.48, 0.32, 0.2).
        level: of the confidence intervals.
    """
    require_inside("level", level)
    d = paired_differences(a, b)
    n, mean, s = len(d), float(d.mean()), math.sqrt(_variance(d))
    errors = standard_errors(a, b, shares)
    reach = float(stats.t.ppf((1 + level) / 2, n - 1))
    t, t_classic = _divide(mean, errors.split), _divide(mean, errors.classic)
    ranks = signed_rank(d)
    return Comparison(
        splits=n,
        difference=mean,
        error=errors.split,
        low=mean - reach * errors.split,
        high=mean + reach * errors.split,
        t=t,
        p=float(2 * stats.t.sf(abs(t), n - 1)),
        seed_share=errors.seed_share,
        error_classic=errors.classic,
        low_classic=mean - reach * errors.classic,
        high_classic=mean + reach * errors.classic,
        p_classic=float(2 * stats.t.sf(abs(t_classic), n - 1)),
        p_wilcoxon=ranks.p,
        d_z=_divide(mean, s),
        rank_biserial=ranks.rank_biserial,
        wins=int((d > 0).sum()),
        ties=int((d == 0).sum()),
        losses=int((d < 0).sum()),
    )


def compare_independent(a: ArrayLike, b: ArrayLike, *, level: float = 0.95) -> Difference:
    """Compares models a and b by the paired t-test over independent graphs, with a score on each.

    Args:
        a: scores of the first model, [graphs].
        b: scores of the second on the same graphs.
        level: of the confidence interval.
    """
    d = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    low, high = student_interval(d, level)
    mean, error = float(d.mean()), float(d.std(ddof=1)) / math.sqrt(len(d))
    t = _divide(mean, error)
    return Difference(len(d), mean, error, low, high, t, p=float(2 * stats.t.sf(abs(t), len(d) - 1)))


def paired_differences(a: ArrayLike, b: ArrayLike) -> Array:
    """First − second on every split, [splits], seeds averaged, free of rounding errors."""
    first, second = split_means(a, "scores of the first model"), split_means(b, "scores of the second model")
    if len(first) != len(second):
        raise ShapeError(
            f"both models must be scored on the same splits; got {len(first)} and {len(second)} splits."
        )
    return round_scores(first - second)


class Errors(NamedTuple):
    """Standard errors of a mean over splits: with the overlap of splits, and as Nadeau and Bengio have it."""

    split: float
    classic: float
    seed_share: float


def standard_errors(a: ArrayLike, b: ArrayLike | None, shares: tuple[float, float, float]) -> Errors:
    """Of the mean of a − b over splits, or of a alone; scores are [splits, seeds].

    Splits draw from the same nodes, so what they contribute is correlated and s²/n is too small. Nadeau and
    Bengio (Machine Learning, 2003) put the correlation at test / (test + learned from), hence

        classic²  =  s²/n + s² · test/train.

    But s² = σ²_split + σ²_seed, and the noise of seeds is independent from split to split; and a model learns
    from validation nodes too, which choose its epoch and its settings:

        split²  =  s²/n + max(s² − σ²_seed, s²/2) · test/(train + val),

    where σ²_seed = Σ_models mean_i var_i / seeds, var_i over the seeds of split i. A model with one seed per
    split adds nothing to it, which is careful. At most half of s² is taken off: of ten splits s² is itself
    uncertain, and without that limit equal models are told apart in up to 9 % of all cases instead of 5 %.
    """
    train, val, test = _check_shares(shares)
    if b is None:
        means, tables = split_means(a), [score_table(a)]
    else:
        means, tables = paired_differences(a, b), [score_table(a), score_table(b)]
    variance = _variance(means)
    seeds = sum(float(t.var(axis=1, ddof=1).mean()) / t.shape[1] for t in tables if t.shape[1] > 1)
    seeds = min(seeds, MOST_BY_SEEDS * variance)
    between = variance / len(means)
    return Errors(
        math.sqrt(between + (variance - seeds) * test / (train + val)),
        math.sqrt(between + variance * test / train),
        seeds / variance if variance else 0.0,
    )


def corrected_interval(
    scores: ArrayLike, shares: tuple[float, float, float], level: float = 0.95
) -> tuple[float, float]:
    """The interval of one model's mean over splits, its scores [splits, seeds]; two models are `compare`d."""
    require_inside("level", level)
    means = split_means(scores)
    reach = standard_errors(scores, None, shares).split * float(stats.t.ppf((1 + level) / 2, len(means) - 1))
    return float(means.mean()) - reach, float(means.mean()) + reach


def _variance(values: Array) -> float:
    """s²; equal values have none, not one of 1e-36."""
    return float(values.var(ddof=1)) if np.ptp(values) else 0.0


def _check_shares(shares: tuple[float, float, float]) -> Shares:
    found = Shares(*shares)
    require_inside("the share of training nodes", found.train)
    require_inside("the share of test nodes", found.test)
    if not found.val >= 0 or sum(found) > 1 + 1e-9:
        raise ConfigError(
            "shares of training, validation and test nodes must not be negative nor exceed 1 together; got "
            f"{', '.join(f'{share:g}' for share in found)}. Give them such as 0.48, 0.32, 0.2."
        )
    return found


def _divide(mean: float, spread: float) -> float:
    """Mean / spread: 0 where nothing differs, ±∞ where every split differs by the same amount."""
    if spread > 0:
        return mean / spread
    return math.copysign(math.inf, mean) if mean else 0.0
