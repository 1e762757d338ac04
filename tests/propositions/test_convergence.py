"""Truncated Chebyshev series of analytic responses converge exponentially, in operator norm too.

Lemma "Chebyshev coefficients under Bernstein analyticity" (eq. cheb-coeff-bound) and theorem
"exponential convergence" (eq. bernstein-operator): |a_k| ≤ 2M ρ^{−k} for k ≥ 1 and
‖f(L) − p_K(L̃)‖ ≤ 2M ρ^{−K} / (ρ − 1), with M the maximum of |f| on the Bernstein ellipse of ρ.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_sheaves import calculus, lambda_max, laplacians, law, matrix_of

from polynsd import PolynomialFilter, heat_kernel
from polynsd.spectral import chebyshev_truncation

RHOS = (1.2, 2.0, 4.0, 8.0)


def ellipse_maximum(rho, t, bound):
    """Max |e^{−tλ(z)}|, attained at the left end −(ρ + 1/ρ)/2 of the ellipse."""
    return np.exp(t * bound / 2 * ((rho + 1 / rho) / 2 - 1))


@law
@given(laplacians(), st.integers(0, 20), st.floats(0, 5), st.sampled_from(RHOS))
def test_the_heat_kernel_is_approached_at_the_stated_rate(L, K, t, rho):
    bound = lambda_max(L) or 1.0
    p = PolynomialFilter.from_response(heat_kernel(t), K, bound, torch.float64).requires_grad_(False)
    truth = calculus(L, lambda lam: torch.exp(-t * lam))
    error = torch.linalg.matrix_norm(matrix_of(lambda x: p(L, x), L) - truth, 2).item()
    assert error <= 2 * ellipse_maximum(rho, t, bound) / (rho**K * (rho - 1)) + 1e-12


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("t", [0.1, 1.0, 5.0])
def test_coefficients_decay_with_the_ellipse(rho, t):
    phi = np.abs(chebyshev_truncation(heat_kernel(t), 20))
    bound = 2 * ellipse_maximum(rho, t, 2.0) / rho ** np.arange(21)
    assert (phi[1:] <= bound[1:] + 1e-15).all()


def test_the_laurent_constant_term_is_the_whole_first_coefficient():
    """In f((w + 1/w)/2) = Σ c_k w^k the printed c_0 = a_0/2 lacks a factor 2; c_k = a_k/2 is right."""
    circle = np.exp(2j * np.pi * np.arange(64) / 64)
    laurent = np.fft.fft(np.exp(-(circle + 1 / circle).real / 2 - 1)).real / 64
    phi = chebyshev_truncation(heat_kernel(1.0), 8)
    assert laurent[0] == pytest.approx(phi[0])
    assert laurent[1:9] == pytest.approx(phi[1:] / 2)


def test_joukowskis_singularity_at_zero_is_not_removable():
    w = 10.0 ** -np.arange(1, 4)
    values = heat_kernel(1.0)(1 - (w + 1 / w) / 2)  # f̃ at (w' + 1/w')/2 with w' = −w → 0
    assert (values[1:] > 1e10 * values[:-1]).all()
