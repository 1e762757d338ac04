"""Scores of a model as an array [splits, seeds]: checks, one number per split, the interval of the mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polynsd.errors import ConfigError, DataError, ShapeError, require_at_least

Array = NDArray[np.float64]

LEAST_SPLITS = 3  # with two, a t-test has one degree of freedom and no rank test can reject
DECIMALS = 12  # what differs by less is equal: accuracies are counts, their means carry rounding errors


def score_table(scores: ArrayLike, name: str = "scores", *, least: int = LEAST_SPLITS) -> Array:
    """The scores as float64 [splits, seeds]; anything no test could be computed from is an error."""
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] == 0:
        raise ShapeError(
            f"{name} must have shape [splits, seeds]; got {list(table.shape)}. "
            "For one seed per split pass scores[:, None]."
        )
    if len(table) < least:
        raise DataError(f"{name} must cover at least {least} splits; got {len(table)}. Train on more splits.")
    require_finite(table, name)
    return table


def split_means(scores: ArrayLike, name: str = "scores") -> Array:
    """The mean over seeds, [splits].

    Seeds share the training and test nodes of their split: ten seeds on one split tell ten times about the
    same split, not about ten. Counted as observations of their own they would shrink the variance
    without adding evidence, so a split counts once, with the score expected on it.
    """
    return score_table(scores, name).mean(axis=1)


def round_scores(values: Array) -> Array:
    """The values without rounding errors, so that equal scores are ties."""
    return np.round(values, DECIMALS) + 0.0  # no negative zeros


def require_finite(values: Array, name: str) -> None:
    """Raises, naming the first index, where a value is NaN or infinite."""
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        index = tuple(int(i) for i in bad[0])
        raise DataError(
            f"{name} must be finite; got {values[index]} at {list(index)} and {len(bad)} such values in all. "
            "Train what is missing, or leave the model out."
        )


def require_inside(name: str, value: float) -> None:
    """Raises unless 0 < value < 1."""
    if not 0.0 < value < 1.0:
        raise ConfigError(f"{name} must lie in (0, 1); got {value!r}.")


@dataclass(frozen=True)
class Interval:
    """A mean with the ends of its confidence interval."""

    mean: float
    low: float
    high: float


def mean_interval(
    scores: ArrayLike, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Interval:
    """Percentile interval of the mean of scores [splits, seeds], the same for the same `seed`.

    It describes one model. Two models on the same splits are paired, so overlapping intervals say
    nothing about their difference: `compare` does.
    """
    require_inside("level", level)
    table = score_table(scores)
    low, high = np.quantile(resampled_means(table, resamples, seed), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(table.mean()), float(low), float(high))


def resampled_means(table: Array, resamples: int, seed: int) -> Array:
    """Means of `resamples` tables: as many splits drawn with replacement, and seeds of each drawn split."""
    require_at_least("resamples", resamples, 1)
    splits, seeds = table.shape
    draw = np.random.default_rng(seed)
    means = np.zeros(resamples)
    for _ in range(splits):  # a split at a time keeps memory at resamples × seeds
        split = draw.integers(splits, size=(resamples, 1))
        means += table[split, draw.integers(seeds, size=(resamples, seeds))].mean(axis=1)
    return means / splits
