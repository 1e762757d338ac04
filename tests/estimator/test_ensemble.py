"""Greedy ensembles: never below the best member, small where asked, blind to what does not help."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polynsd.estimator.ensemble import average, select_ensemble


def objective_of(y):
    return lambda predictions: -float(np.square(predictions[:, 0] - y).mean())


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_it_is_never_below_the_best_member(seed, size):
    rng = np.random.default_rng(seed)
    y, members = rng.normal(size=12), list(rng.normal(size=(5, 12, 1)))
    objective = objective_of(y)
    weights = select_ensemble(members, objective, size)
    assert abs(weights.sum() - 1) < 1e-12
    assert (weights > 0).sum() <= size
    assert objective(average(members, weights)) >= max(map(objective, members)) - 1e-9


def test_errors_that_cancel_are_averaged():
    y = np.zeros(4)
    up, down, wild = np.ones((4, 1)), -np.ones((4, 1)), np.full((4, 1), 9.0)
    np.testing.assert_allclose(select_ensemble([up, down, wild], objective_of(y), 3), [0.5, 0.5, 0])
