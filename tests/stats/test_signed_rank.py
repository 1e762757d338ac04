"""The exact signed-rank test: scipy without ties, all signs written out with them."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from polynsd.stats import signed_rank


def by_all_signs(d):
    """The definition: the share of all 2ᵐ signs whose smaller rank sum is at most the observed one."""
    ranks = stats.rankdata(np.abs(d))[d != 0]
    sums = np.array([np.dot(signs, ranks) for signs in product((0, 1), repeat=len(ranks))])
    observed = ranks[d[d != 0] > 0].sum()
    smaller = min(observed, ranks.sum() - observed)
    return min(1.0, 2 * (sums <= smaller + 1e-9).mean())


@pytest.mark.parametrize("n", [3, 10, 30])
def test_without_ties_it_is_scipys_exact_test(n):
    d = np.random.default_rng(n).normal(0.3, 1, n)
    expected = stats.wilcoxon(d, method="exact")
    result = signed_rank(d)
    assert min(result.plus, result.minus) == expected.statistic
    assert result.p == pytest.approx(expected.pvalue)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9))
def test_with_ties_and_zeros_it_is_the_definition(values):
    d = np.array(values, dtype=float)
    assert signed_rank(d).p == pytest.approx(by_all_signs(d))


def test_pratt_ranks_zeros_and_leaves_them_out_of_the_sums():
    result = signed_rank(np.array([0.0, 0.0, 1.0, -2.0, 3.0]))
    assert (result.plus, result.minus) == (3 + 5, 4)
    assert result.rank_biserial == pytest.approx(4 / 12)
    assert stats.wilcoxon([0.0, 0.0, 1.0, -2.0, 3.0], zero_method="pratt", method="approx").statistic == 4


def test_many_splits_agree_with_the_normal_law():
    d = np.round(np.random.default_rng(0).normal(0.15, 1, 200), 1)  # ties and zeros
    assert signed_rank(d).p == pytest.approx(stats.wilcoxon(d, zero_method="pratt").pvalue, rel=0.05)


def test_no_difference_is_p_one():
    result = signed_rank(np.zeros(5))
    assert (result.plus, result.minus, result.p, result.rank_biserial) == (0, 0, 1, 0)
