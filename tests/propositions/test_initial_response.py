"""The filter that training starts from, p = Σ T_k / (K + 1): high-pass, so that the layer smooths.

G_low and G_high are the means of p over the lowest and the highest fifth of [0, λ_max], and the last
column counts the sign changes of p′: with K − 1 of them the response starts as wavy as it can be.
"""

import numpy as np
import pytest
import torch

from polynsd import PolynomialFilter

TABLE = [  # K, p(0), p(λ_max), G_low, G_high, sign changes of the slope
    (1, 0.0, 1.0, 0.100, 0.900, 0),
    (2, 0.333, 1.0, 0.169, 0.702, 1),
    (3, 0.0, 1.0, 0.183, 0.471, 2),
    (4, 0.200, 1.0, 0.039, 0.269, 3),
    (8, 0.111, 1.0, 0.068, 0.088, 7),
    (16, 0.059, 1.0, 0.031, 0.046, 15),
]


def initial_response(K, lam):
    return PolynomialFilter("chebyshev1", K).double().response(torch.as_tensor(lam)).detach().numpy()


@pytest.mark.parametrize(("K", "at_0", "at_max", "low", "high", "turns"), TABLE)
def test_the_response_at_the_start(K, at_0, at_max, low, high, turns):
    midpoints = (np.arange(4000) + 0.5) / 4000 * 0.4
    assert initial_response(K, [0.0, 2.0]) == pytest.approx([at_0, at_max], abs=6e-4)
    assert initial_response(K, midpoints).mean() == pytest.approx(low, abs=6e-4)
    assert initial_response(K, 1.6 + midpoints).mean() == pytest.approx(high, abs=6e-4)
    slope = np.diff(initial_response(K, np.linspace(0, 2, 4000)))
    assert (np.diff(np.sign(slope)) != 0).sum() == turns


@pytest.mark.parametrize("K", range(1, 20))
def test_both_ends_in_closed_form(K):
    assert initial_response(K, [0.0, 2.0]) == pytest.approx([1 / (K + 1) if K % 2 == 0 else 0.0, 1.0])


@pytest.mark.parametrize("K", range(1, 12))
def test_the_response_itself_changes_sign_an_even_number_of_times(K):
    values = initial_response(K, np.linspace(1e-3, 2, 4001))
    assert (np.diff(np.sign(values)) != 0).sum() == K - K % 2
