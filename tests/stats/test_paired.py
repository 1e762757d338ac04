"""Two models on the same splits: formulas, scipy, invariance, and errors that help."""

import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from polynsd.errors import ConfigError, DataError, ShapeError
from polynsd.stats import compare, variance_factor

SHARES = {"train_share": 0.48, "test_share": 0.2}
accuracies = arrays(np.float64, (10, 3), elements=st.integers(0, 37).map(lambda hits: hits / 37))


def two_models(seed=0, splits=10, seeds=3, gap=0.02):
    draw = np.random.default_rng(seed)
    split = draw.normal(0.8, 0.05, (splits, 1))
    return (split + draw.normal(shift, 0.02, (splits, seeds)) for shift in (gap, 0.0))


def test_corrected_t_is_the_formula():
    a, b = two_models()
    d = a.mean(1) - b.mean(1)
    error = math.sqrt((1 / 10 + 0.2 / 0.48) * d.var(ddof=1))
    result = compare(a, b, **SHARES)
    assert result.t == pytest.approx(d.mean() / error)
    assert result.p == pytest.approx(2 * stats.t.sf(d.mean() / error, 9))
    assert (result.low, result.high) == pytest.approx(stats.t.interval(0.95, 9, d.mean(), error))
    assert result.d_z == pytest.approx(d.mean() / d.std(ddof=1))


def test_without_the_correction_it_is_the_paired_t_of_scipy():
    a, b = two_models()
    result, plain = compare(a, b, 0.5), stats.ttest_rel(a.mean(1), b.mean(1))
    assert result.t * math.sqrt(variance_factor(10, 0.5) * 10) == pytest.approx(plain.statistic)


@given(accuracies, accuracies)
def test_interval_leaves_zero_out_exactly_where_p_is_small(a, b):
    result = compare(a, b, 0.6, level=0.9)
    if abs(result.p - 0.1) > 1e-9:
        assert (result.low > 0 or result.high < 0) == (result.p < 0.1)


@given(accuracies, accuracies)
def test_swapping_models_flips_the_sign(a, b):
    there, back = compare(a, b, **SHARES), compare(b, a, **SHARES)
    for name in ("difference", "t", "d_z", "rank_biserial"):
        assert getattr(there, name) == pytest.approx(-getattr(back, name))
    assert (there.p, there.p_wilcoxon) == pytest.approx((back.p, back.p_wilcoxon))
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert (there.wins, there.ties, there.losses) == (back.losses, back.ties, back.wins)
    assert there.wins + there.ties + there.losses == there.splits == 10


@given(accuracies, accuracies, st.permutations(range(10)), st.floats(-1, 1))
def test_order_of_splits_and_a_constant_do_not_matter(a, b, order, shift):
    moved = compare(a[order] + shift, b[order] + shift, **SHARES)
    assert asdict(moved) == pytest.approx(asdict(compare(a, b, **SHARES)), rel=1e-6, abs=1e-9)


@given(accuracies, accuracies, st.integers(1, 5))
def test_repeating_seeds_adds_no_evidence(a, b, times):
    repeated = compare(np.tile(a, times), b, **SHARES)
    assert asdict(repeated) == pytest.approx(asdict(compare(a, b, **SHARES)), abs=1e-9)


@given(accuracies, accuracies, st.floats(0.1, 100))
def test_unit_of_the_score_changes_no_p_value(a, b, unit):
    large, small = compare(unit * a, unit * b, **SHARES), compare(a, b, **SHARES)
    assert large.p == pytest.approx(small.p, rel=1e-6, abs=1e-9)
    assert large.difference == pytest.approx(unit * small.difference, abs=1e-9)


def test_equal_models_have_p_one():
    a = np.full((5, 2), 0.7)
    result = compare(a, a, **SHARES)
    assert (result.p, result.p_wilcoxon, result.t, result.d_z, result.rank_biserial) == (1, 1, 0, 0, 0)
    assert (result.low, result.difference, result.high, result.ties) == (0, 0, 0, 5)


def test_rounding_errors_are_ties():
    a = np.array([[0.1, 0.2], [0.3, 0.3], [0.5, 0.6]])
    assert compare(a, a[:, ::-1] + 1e-16, **SHARES).ties == 3


def test_the_same_difference_everywhere_is_certain():
    a = np.linspace(0.5, 0.9, 10)[:, None]
    result = compare(a + 0.1, a, **SHARES)
    assert (result.t, result.d_z, result.p) == (math.inf, math.inf, 0.0)
    assert result.low == result.difference == result.high == pytest.approx(0.1)


def test_less_training_for_the_same_test_is_less_certain():
    a, b = two_models()
    p = [compare(a, b, share, test_share=0.2).p for share in (0.8, 0.5, 0.2)]
    assert p == sorted(p)
    assert compare(a, b, 0.5).p == compare(a, b, 0.5, test_share=0.5).p


@pytest.mark.parametrize(
    ("a", "error", "words"),
    [
        (np.zeros((2, 5)), DataError, "at least 3 splits; got 2"),
        (np.zeros(5), ShapeError, r"\[splits, seeds\]; got \[5\]"),
        (np.zeros((5, 0)), ShapeError, r"\[splits, seeds\]; got \[5, 0\]"),
        (np.zeros((4, 1)), ShapeError, "same splits; got 4 and 5"),
        (
            np.array([[1, 2], [np.nan, 3], [3, np.inf]]),
            DataError,
            r"first model .* nan at \[1, 0\] and 2 such",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(a, error, words):
    with pytest.raises(error, match=words):
        compare(a, np.zeros((5, 1)), **SHARES)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"train_share": 1.0}, "train_share must lie in"),
        ({"train_share": 48}, "train_share must lie in"),
        ({"train_share": 0.5, "test_share": 0.0}, "test_share must lie in"),
        ({"train_share": 0.6, "test_share": 0.5}, "at most 1"),
        ({"train_share": 0.6, "level": 95}, "level must lie in"),
    ],
)
def test_shares_are_shares(options, words):
    with pytest.raises(ConfigError, match=words):
        compare(np.ones((5, 1)), np.zeros((5, 1)), **options)
