"""How far the mean score of one model is known: a bootstrap over splits, then over seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from polynsd.errors import require_at_least
from polynsd.stats.scores import Array, require_inside, score_table


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
