"""The bootstrap of a mean: its variance in closed form, scipy's interval, and repeatability."""

import numpy as np
import pytest
from scipy import stats

from polynsd.errors import ConfigError, DataError
from polynsd.stats import mean_interval
from polynsd.stats.scores import resampled_means

TABLE = np.random.default_rng(0).normal(0.8, 0.04, (10, 1)) + np.random.default_rng(1).normal(
    0, 0.05, (10, 4)
)


def test_variance_is_that_of_splits_plus_that_of_seeds():
    """Var = (Var_splits of the means + mean_splits of Var_seeds / seeds) / splits, all with 1/n."""
    expected = (TABLE.mean(1).var() + TABLE.var(1).mean() / 4) / 10
    means = resampled_means(TABLE, 40_000, seed=0)
    assert means.var() == pytest.approx(expected, rel=0.03)
    assert means.mean() == pytest.approx(TABLE.mean(), abs=1e-3)


def test_one_seed_is_the_ordinary_bootstrap():
    ours = mean_interval(TABLE[:, :1])
    theirs = stats.bootstrap((TABLE[:, 0],), np.mean, method="percentile", random_state=5).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=2e-3)


def test_same_seed_same_interval():
    assert mean_interval(TABLE, seed=3) == mean_interval(TABLE, seed=3)
    assert mean_interval(TABLE, seed=3) != mean_interval(TABLE, seed=4)


def test_shift_and_level():
    here, there = mean_interval(TABLE), mean_interval(TABLE + 1)
    assert (there.low, there.high) == pytest.approx((here.low + 1, here.high + 1))
    wide = mean_interval(TABLE, level=0.99)
    assert wide.low < here.low < here.mean < here.high < wide.high


def test_constant_scores_are_known_exactly():
    interval = mean_interval(np.full((4, 2), 0.5))
    assert (interval.low, interval.mean, interval.high) == (0.5, 0.5, 0.5)


def test_mistakes_are_named():
    with pytest.raises(ConfigError, match="resamples must be an integer of at least 1"):
        mean_interval(TABLE, resamples=0)
    with pytest.raises(ConfigError, match="level must lie in"):
        mean_interval(TABLE, level=1.0)
    with pytest.raises(DataError, match="at least 3 splits"):
        mean_interval(TABLE[:2])
