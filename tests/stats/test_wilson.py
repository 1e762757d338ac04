"""Wilson's interval against the test that it inverts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polynsd.stats import paired_interval, wilson_interval

counts = st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts)
def test_its_ends_are_the_shares_that_the_score_test_just_does_not_reject(count):
    k, n = count
    for end in wilson_interval(k / n, n):
        assert (k / n - end) ** 2 == pytest.approx(1.96**2 * end * (1 - end) / n, rel=1e-6, abs=1e-12)


@given(st.lists(counts, min_size=1, max_size=5))
def test_lies_in_the_unit_interval_around_the_share_and_mirrors_its_complement(many):
    k, n = np.array(many).T
    low, high = wilson_interval(k / n, n)
    assert ((low <= k / n + 1e-12) & (k / n <= high + 1e-12) & (low < high)).all()
    assert ((low >= -1e-12) & (high <= 1 + 1e-12)).all()
    mirrored = wilson_interval(1 - k / n, n)
    np.testing.assert_allclose(mirrored, (1 - high, 1 - low), atol=1e-12)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 5000))
def test_a_paired_interval_turns_round_with_the_two_and_is_never_empty(only_first, only_second, equal):
    n = only_first + only_second + equal + 1
    low, high = paired_interval(only_first, only_second, n)
    np.testing.assert_allclose(paired_interval(only_second, only_first, n), (-high, -low))
    assert low < high
    assert low <= (only_first - only_second) / n * n / (n + 2) <= high


def test_paired_intervals_hold_the_difference_as_often_as_they_say():
    """Two models, right on 80 % and 75 % of rows, both on 70 %."""
    rng, n, held = np.random.default_rng(0), 60, 0
    for _ in range(2000):
        only_first, only_second, *_ = rng.multinomial(n, [0.1, 0.05, 0.85])
        low, high = paired_interval(only_first, only_second, n)
        held += low <= 0.05 <= high
    assert 0.94 < held / 2000 < 0.99
