"""Holm's adjusted p-values against the procedure they summarise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polynsd.errors import DataError
from polynsd.stats import holm

p_values = st.lists(st.floats(0, 1), max_size=12)


def rejected_by_steps(p, alpha):
    """Holm's procedure: the smallest against α/m, the next against α/(m − 1), …, until one fails."""
    rejected = set()
    for left, index in zip(range(len(p), 0, -1), np.argsort(p, kind="stable"), strict=True):
        if left * p[index] > alpha:
            break
        rejected.add(int(index))
    return rejected


@given(p_values, st.floats(0.001, 0.999))
def test_adjusted_values_reject_what_the_procedure_rejects(p, alpha):
    assert set(np.flatnonzero(holm(p) <= alpha)) == rejected_by_steps(p, alpha)


@given(p_values)
def test_monotone_and_between_p_and_bonferroni(p):
    adjusted, order = holm(p), np.argsort(p)
    assert (np.diff(adjusted[order]) >= 0).all()
    assert (adjusted >= p).all()
    assert (adjusted <= np.minimum(1, len(p) * np.asarray(p))).all()


@given(p_values.flatmap(lambda p: st.tuples(st.just(p), st.permutations(range(len(p))))))
def test_order_does_not_matter(given_values):
    p, order = given_values
    p = np.asarray(p, dtype=float)
    order = np.asarray(order, dtype=int)
    assert np.array_equal(holm(p[order]), holm(p)[order])


def test_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]).shape == (0,)


@pytest.mark.parametrize("p", [[-0.1], [1.1], [0.5, np.nan]])
def test_what_is_no_probability_is_refused(p):
    with pytest.raises(DataError, match=r"p-values must lie in \[0, 1\]"):
        holm(p)
