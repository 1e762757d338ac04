"""Which responses polynomials reach, and how fast. (C13 to C15 and C21 of the ledger)

Lemma "Chebyshev coefficients under Bernstein analyticity" (eq. cheb-coeff-bound) and theorem "exponential
convergence" (eq. bernstein-operator): |a_k| ≤ 2M ρ^{−k} for k ≥ 1 and ‖f(L) − p_K(L̃)‖ ≤ 2M ρ^{−K} / (ρ −
1), with M the maximum of |f| on the Bernstein ellipse of ρ. Convex weights are not free: p(λ_max) = 1 keeps
them from it.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_sheaves import lambda_max, laplacians, law

from polynsd import heat_kernel
from polynsd.spectral import chebyshev_truncation
from polynsd_paper.claims.filters import (
    LAM,
    TIMES,
    best_fit,
    ellipse_maximum,
    gram_condition,
    truncation_bound,
    truncation_error,
)

RHOS = (1.2, 2.0, 4.0, 8.0)


@law
@given(laplacians(), st.integers(0, 20), st.floats(0, 5), st.sampled_from(RHOS))
def test_the_heat_kernel_is_approached_at_the_stated_rate(L, K, t, rho):
    bound = lambda_max(L)
    assert truncation_error(L, t, K, bound) <= truncation_bound(t, K, rho, bound) + 1e-12


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("t", [0.1, 1.0, 5.0])
def test_coefficients_decay_with_the_ellipse(rho, t):
    phi = np.abs(chebyshev_truncation(heat_kernel(t), 20))
    bound = 2 * ellipse_maximum(t, rho) / rho ** np.arange(21)
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


@pytest.mark.parametrize("t", TIMES)
@pytest.mark.parametrize("K", [2, 8])
def test_convex_weights_keep_a_floor_under_the_heat_kernel_and_free_ones_do_not(t, K):
    target = heat_kernel(t)(LAM)
    assert best_fit(target, K) == pytest.approx(1 - np.exp(-2 * t), abs=1e-6)
    assert best_fit(target, 12, convex=False) < 1e-6


def test_a_layer_is_never_worse_than_its_filter():
    p, m, r = (best_fit(np.exp(-LAM), 8, part) for part in ("p", "m", "r"))
    assert r - 1e-9 <= m <= p + 1e-9


def test_monomials_are_badly_conditioned_and_orthogonal_bases_are_not():
    assert gram_condition("monomial", 16) > 1e10
    assert gram_condition("legendre", 16) == pytest.approx(33)  # 2K + 1: the matrix is diagonal
