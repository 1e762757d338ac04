"""Wilson's interval against the test that it inverts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polynsd.stats import wilson_interval

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
