"""Scores of a model as an array [splits, seeds]: checks, one number per split, and simple intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from polynsd.errors import ConfigError, DataError, ShapeError

Array = NDArray[np.float64]

LEAST_SPLITS = 3  # with two, a t-test has one degree of freedom and no rank test can reject
Z = 1.96  # standard deviations of a normal distribution to both sides, which hold 95 %
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


def student_interval(values: ArrayLike, level: float = 0.95) -> tuple[float, float]:
    """The interval of the mean of independent values, such as one per graph, by Student's t."""
    require_inside("level", level)
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or len(sample) < LEAST_SPLITS:
        raise DataError(f"an interval needs {LEAST_SPLITS} values or more; got shape {list(sample.shape)}.")
    error = float(sample.std(ddof=1)) / len(sample) ** 0.5
    reach = error * float(stats.t.ppf((1 + level) / 2, len(sample) - 1))
    return float(sample.mean()) - reach, float(sample.mean()) + reach


def wilson_interval(share: ArrayLike, n: ArrayLike) -> tuple[Array, Array]:
    """Wilson's 95 % interval of shares of n: within [0, 1], and not empty where a share is 0 or 1."""
    p, n = np.asarray(share, dtype=np.float64), np.asarray(n)
    centre, scale = p + Z**2 / (2 * n), 1 + Z**2 / n
    reach = Z * np.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    return (centre - reach) / scale, (centre + reach) / scale


def paired_interval(only_first: int, only_second: int, n: int) -> tuple[float, float]:
    """The 95 % interval of the difference of two shares of the same n rows, the first minus the second.

    By Agresti and Min (2005): half a row is added to each of the four cells, so that it is not empty where
    no row tells the two apart.

    Args:
        only_first: the rows on which only the first is right.
        only_second: those on which only the second is.
        n: the number of rows.
    """
    b, c, total = only_first + 0.5, only_second + 0.5, n + 2
    difference = (b - c) / total
    reach = Z * ((b + c) / total - difference**2) ** 0.5 / total**0.5
    return difference - reach, difference + reach


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
