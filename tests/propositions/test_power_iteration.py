"""Rayleigh quotients approach λ_1 from below, so they are no λ_max; and how fast they do.

Proposition "power-iteration error". Its prefactor λ_1 − λ_2 must be λ_1 − λ_n, because
λ_1 − λ_i ≤ λ_1 − λ_2 is the wrong way round. Below λ_1 the rescaled spectrum leaves [−1, 1], where
T_k(ξ) = sign(ξ)^k cosh(k arcosh |ξ|) explodes.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_sheaves import build, laplacians, law, matrix_of, path, seeds, signal, spectrum

from polynsd import PolynomialFilter, get_basis


def rayleigh(lam, weight, t):
    """λ̂^{(t)} of a start vector with squared coefficients `weight` in the eigenbasis."""
    powers = weight * lam ** (2 * t)
    return (powers * lam).sum() / powers.sum()


def error_bound(lam, weight, t, prefactor):
    return prefactor * (lam[1] / lam[0]) ** (2 * t) * weight[1:].sum() / weight[0]


@law
@given(laplacians(), st.integers(0, 10), seeds)
def test_rayleigh_quotients_never_exceed_the_spectrum(L, t, seed):
    x = signal(L, channels=1, seed=seed)
    for _ in range(t):
        x = L @ x
    largest = spectrum(L)[0].max()
    assert L.energy(x) <= (largest + 1e-9) * x.square().sum()


@law
@given(
    st.lists(st.floats(0.1, 1), min_size=3, max_size=6, unique=True),
    st.lists(st.floats(0.1, 1), min_size=6, max_size=6),
    st.integers(0, 8),
)
def test_the_error_is_bounded_with_the_full_width_as_prefactor(values, weights, t):
    lam, weight = np.sort(values)[::-1], np.array(weights[: len(values)])
    error = lam[0] - rayleigh(lam, weight, t)
    assert -1e-12 <= error <= error_bound(lam, weight, t, lam[0] - lam[-1]) + 1e-12


def test_the_printed_prefactor_is_too_small():
    lam, weight = np.array([1.0, 0.9, 0.0]), np.ones(3)
    error = lam[0] - rayleigh(lam, weight, 0)
    assert error == pytest.approx(0.367, abs=1e-3)
    assert error_bound(lam, weight, 0, lam[0] - lam[1]) == pytest.approx(0.2)


def test_chebyshev_polynomials_explode_outside_the_spectrum():
    T = get_basis("chebyshev1")
    assert T.evaluate(np.array(1.05), 16)[-1] == pytest.approx(77, abs=0.5)


@law
@given(st.floats(-1.5, -1.0), st.integers(0, 12))
def test_left_of_the_spectrum_odd_polynomials_are_negative(xi, k):
    value = get_basis("chebyshev1").evaluate(np.array(xi), k)[-1]
    assert value == pytest.approx((-1) ** k * np.cosh(k * np.arccosh(-xi)))


def test_a_raw_estimate_as_scale_makes_the_filter_expand():
    L = build("general", path(8), normalization="none")
    x = signal(L, channels=1)
    for _ in range(3):
        x = L @ x
    estimate = float(L.energy(x) / x.square().sum())
    p = PolynomialFilter("chebyshev1", 16).double().requires_grad_(False)
    norms = [
        torch.linalg.matrix_norm(matrix_of(lambda x, lam=lam: p(L, x, lam), L), 2).item()
        for lam in (estimate, L.lambda_max("lanczos"), L.lambda_max())
    ]
    assert norms[0] > 1.5
    assert max(norms[1:]) <= 1 + 1e-9
