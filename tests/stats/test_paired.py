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
from polynsd.stats import compare, compare_independent, corrected_interval, standard_errors

SHARES = (0.48, 0.32, 0.2)
accuracies = arrays(np.float64, (10, 3), elements=st.integers(0, 37).map(lambda hits: hits / 37))


def two_models(seed=0, splits=10, seeds=3, gap=0.02):
    draw = np.random.default_rng(seed)
    split = draw.normal(0.8, 0.05, (splits, 1))
    return (split + draw.normal(shift, 0.02, (splits, seeds)) for shift in (gap, 0.0))


def test_both_forms_of_the_correction_are_their_formulas():
    a, b = two_models()
    a += np.linspace(-0.05, 0.05, 10)[:, None]  # splits matter more than seeds
    d = a.mean(1) - b.mean(1)
    variance, seeds = d.var(ddof=1), (a.var(1, ddof=1).mean() + b.var(1, ddof=1).mean()) / 3
    split = math.sqrt(variance / 10 + (variance - seeds) * 0.2 / (0.48 + 0.32))
    classic = math.sqrt((1 / 10 + 0.2 / 0.48) * variance)
    result = compare(a, b, SHARES)
    assert (result.t, result.error) == pytest.approx((d.mean() / split, split))
    assert result.p == pytest.approx(2 * stats.t.sf(d.mean() / split, 9))
    assert (result.low, result.high) == pytest.approx(stats.t.interval(0.95, 9, d.mean(), split))
    assert result.p_classic == pytest.approx(2 * stats.t.sf(d.mean() / classic, 9))
    classic_ends = (result.low_classic, result.high_classic)
    assert classic_ends == pytest.approx(stats.t.interval(0.95, 9, d.mean(), classic))
    other = result.as_classic()
    assert (other.error, other.p, other.low) == (result.error_classic, result.p_classic, result.low_classic)
    assert result.d_z == pytest.approx(d.mean() / d.std(ddof=1))
    assert result.seed_share == pytest.approx(seeds / variance)


def test_at_most_half_of_the_variance_is_that_of_seeds():
    draw = np.random.default_rng(0)
    a, b = draw.normal(0.8, 0.1, (10, 2)), np.full((10, 1), 0.7)
    a[:, 0] = 1.6 - a[:, 1] + draw.normal(0, 1e-3, 10)  # nearly the same mean on every split
    result, plain = compare(a, b, SHARES), stats.ttest_rel(a.mean(1), b.mean(1))
    assert result.seed_share == 0.5
    assert result.t * math.sqrt(1 + 10 * 0.5 * 0.25) == pytest.approx(plain.statistic)


def test_with_one_seed_and_nothing_validated_it_is_the_classic_form():
    a, b = (table[:, :1] for table in two_models())
    result = compare(a, b, (0.8, 0.0, 0.2))
    assert (result.seed_share, result.p, result.low) == (0, result.p_classic, result.low_classic)


def test_the_interval_of_one_model_has_the_same_error():
    a, _ = two_models()
    reach = stats.t.ppf(0.975, 9) * standard_errors(a, None, SHARES).split
    assert corrected_interval(a, SHARES) == pytest.approx((a.mean() - reach, a.mean() + reach))
    assert standard_errors(a, np.zeros_like(a), SHARES) == pytest.approx(standard_errors(a, None, SHARES))


@given(accuracies, accuracies)
def test_interval_leaves_zero_out_exactly_where_p_is_small(a, b):
    result = compare(a, b, SHARES, level=0.9)
    if abs(result.p - 0.1) > 1e-9:
        assert (result.low > 0 or result.high < 0) == (result.p < 0.1)


@given(accuracies, accuracies, st.floats(0.01, 0.3))
def test_equivalence_is_shown_exactly_where_the_90_percent_interval_lies_within_the_margin(a, b, margin):
    result = compare(a, b, SHARES, level=0.9)
    p = result.equivalence(margin)
    if abs(p - 0.05) > 1e-9:
        assert (p < 0.05) == (-margin < result.low and result.high < margin)
    assert p == pytest.approx(compare(b, a, SHARES).equivalence(margin))


@given(accuracies, accuracies, st.floats(0.01, 0.3))
def test_two_sided_and_equivalence_tests_are_made_of_one_sided_ones(a, b, margin):
    result = compare(a, b, SHARES)
    above, below = result.p_above(0.0), compare(b, a, SHARES).p_above(0.0)
    assert above + below == pytest.approx(1)
    assert result.p == pytest.approx(2 * min(above, below))
    assert result.equivalence(margin) == pytest.approx(
        max(result.p_above(-margin), 1 - result.p_above(margin))
    )


def test_over_independent_graphs_it_is_the_paired_t_test():
    a, b = (table[:5, 0] for table in two_models())
    result, plain = compare_independent(a, b), stats.ttest_rel(a, b)
    assert (result.t, result.p) == pytest.approx((plain.statistic, plain.pvalue))
    assert (result.low, result.high) == pytest.approx(tuple(plain.confidence_interval()))
    assert result.difference / result.error == pytest.approx(result.t)
    with pytest.raises(DataError, match="needs 3 values"):
        compare_independent(a[:2], b[:2])


@given(accuracies, accuracies)
def test_swapping_models_flips_the_sign(a, b):
    there, back = compare(a, b, SHARES), compare(b, a, SHARES)
    for name in ("difference", "t", "d_z", "rank_biserial"):
        assert getattr(there, name) == pytest.approx(-getattr(back, name))
    assert (there.p, there.p_wilcoxon) == pytest.approx((back.p, back.p_wilcoxon))
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert (there.wins, there.ties, there.losses) == (back.losses, back.ties, back.wins)
    assert there.wins + there.ties + there.losses == there.splits == 10


@given(accuracies, accuracies, st.permutations(range(10)), st.floats(-1, 1))
def test_order_of_splits_and_a_constant_do_not_matter(a, b, order, shift):
    moved = compare(a[order] + shift, b[order] + shift, SHARES)
    assert asdict(moved) == pytest.approx(asdict(compare(a, b, SHARES)), rel=1e-6, abs=1e-9)


@given(accuracies, accuracies, st.floats(0.1, 100))
def test_unit_of_the_score_changes_no_p_value(a, b, unit):
    large, small = compare(unit * a, unit * b, SHARES), compare(a, b, SHARES)
    assert large.p == pytest.approx(small.p, rel=1e-6, abs=1e-9)
    assert large.difference == pytest.approx(unit * small.difference, abs=1e-9)


def test_equal_models_have_p_one():
    a = np.full((5, 2), 0.7)
    result = compare(a, a, SHARES)
    assert (result.p, result.p_wilcoxon, result.t, result.d_z, result.rank_biserial) == (1, 1, 0, 0, 0)
    assert (result.low, result.difference, result.high, result.ties) == (0, 0, 0, 5)


def test_rounding_errors_are_ties():
    a = np.array([[0.1, 0.2], [0.3, 0.3], [0.5, 0.6]])
    assert compare(a, a[:, ::-1] + 1e-16, SHARES).ties == 3


def test_the_same_difference_everywhere_is_certain():
    a = np.linspace(0.5, 0.9, 10)[:, None]
    result = compare(a + 0.1, a, SHARES)
    assert (result.t, result.d_z, result.p) == (math.inf, math.inf, 0.0)
    assert result.low == result.difference == result.high == pytest.approx(0.1)


def test_less_learned_from_for_the_same_test_is_less_certain():
    a, b = two_models()
    p = [compare(a, b, (0.2, val, 0.2)).p for val in (0.6, 0.3, 0.0)]
    assert p == sorted(p)


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
        compare(a, np.zeros((5, 1)), SHARES)


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ((1.0, 0.0, 0.0), "training nodes must lie in"),
        ((48, 32, 20), "training nodes must lie in"),
        ((0.5, 0.5, 0.0), "test nodes must lie in"),
        ((0.6, 0.0, 0.5), "0.6, 0, 0.5. Give them such as"),
        ((0.6, -0.1, 0.4), "must not be negative"),
    ],
)
def test_shares_are_shares(shares, words):
    with pytest.raises(ConfigError, match=words):
        compare(np.ones((5, 1)), np.zeros((5, 1)), shares)


def test_level_and_margin_are_checked():
    with pytest.raises(ConfigError, match="level must lie in"):
        compare(np.ones((5, 1)), np.zeros((5, 1)), SHARES, level=95)
    with pytest.raises(ConfigError, match="margin must be greater than 0"):
        compare(np.ones((5, 1)), np.zeros((5, 1)), SHARES).equivalence(0)
