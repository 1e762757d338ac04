"""Bases: their sup norms, the Jacobi recurrence as printed, and interpolating coefficients. (C12)

The printed A_k, B_k, C_k belong to ξ P_k = A_k P_{k+1} + B_k P_k + C_k P_{k−1}; used as P_{k+1} = A_k ξ P_k
+ B_k P_k − C_k P_{k−1} they generate something else, which is not even orthogonal. Solved for P_{k+1} they
are right. The published "ChebyInterp" filter, (2/(K + 1)) Σ_k [Σ_j γ_j T_k(ξ_j)] T_k, forgets to halve the
term k = 0 and is therefore off by the mean of γ everywhere.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import chebyshev
from random_sheaves import BASES, degrees, law, seeds
from scipy.special import binom, eval_jacobi, eval_legendre

from polynsd import PolynomialFilter, get_basis
from polynsd.testing import random_tensor

GRID = np.cos(np.linspace(0, np.pi, 4001))
XI = np.linspace(-1, 1, 2001)
EXPONENTS = [(0.0, 0.0), (0.5, -0.5), (-0.5, -0.5), (1.0, 0.5), (-0.7, 2.0)]


@pytest.mark.parametrize("basis", BASES)
def test_normalised_polynomials_touch_one_and_stay_below(basis):
    largest = np.abs(get_basis(basis).evaluate(GRID, 10)).max(axis=1)
    assert np.allclose(largest, 1, atol=1e-5)


@pytest.mark.parametrize(
    ("basis", "sup"),
    [
        ("chebyshev1", lambda k: 1),
        ("legendre", lambda k: 1),
        ("gegenbauer(0.5)", lambda k: 1),
        ("chebyshev2", lambda k: k + 1),
        ("gegenbauer(1)", lambda k: k + 1),
        ("gegenbauer(1.5)", lambda k: (k + 1) * (k + 2) / 2),
        ("chebyshev3", lambda k: 2 * k + 1),
        ("chebyshev4", lambda k: 2 * k + 1),
        ("jacobi(0.5, 2)", lambda k: binom(k + 2, k)),
        ("jacobi(-0.5, -0.7)", lambda k: binom(k - 0.5, k)),
    ],
)
def test_raw_polynomials_reach_their_sup_norm(basis, sup):
    raw = get_basis(basis).raw()
    for k, values in enumerate(raw.evaluate(GRID, 8)):
        assert np.abs(values).max() == pytest.approx(sup(k))
        assert raw.sup_norm(k) == pytest.approx(sup(k))


def printed_coefficients(k, alpha, beta):
    s = alpha + beta
    n = 2 * k + s
    return (
        2 * (k + 1) * (k + s + 1) / ((n + 1) * (n + 2)),
        (beta**2 - alpha**2) / (n * (n + 2)),
        2 * (k + alpha) * (k + beta) / (n * (n + 1)),
    )


@pytest.mark.parametrize(("alpha", "beta"), EXPONENTS)
def test_the_printed_jacobi_coefficients_belong_to_the_product_with_xi(alpha, beta):
    P = [eval_jacobi(k, alpha, beta, XI) for k in range(9)]
    for k in range(1, 8):
        A, B, C = printed_coefficients(k, alpha, beta)
        assert np.allclose(XI * P[k], A * P[k + 1] + B * P[k] + C * P[k - 1], atol=1e-12)
    ours = get_basis(f"jacobi({alpha}, {beta})").raw().evaluate(XI, 8)
    assert np.allclose(ours, P, atol=1e-10)


def test_the_printed_jacobi_recurrence_is_neither_legendre_nor_orthogonal_nor_of_constant_size():
    printed = [np.ones_like(XI), XI]  # α = β = 0
    for k in range(1, 6):
        A, B, C = printed_coefficients(k, 0.0, 0.0)
        printed.append(A * XI * printed[k] + B * printed[k] - C * printed[k - 1])
    errors = [np.abs(printed[k] - eval_legendre(k, XI)).max() for k in (2, 4)]
    assert errors == pytest.approx([0.67, 1.26], abs=0.005)
    assert np.trapezoid(printed[2], XI) == pytest.approx(-0.22, abs=0.005)
    assert np.abs(printed[6]).max() == pytest.approx(0.10, abs=0.005)


def interpolating(basis, K, seed):
    p = PolynomialFilter(basis, K, "interpolation").double().requires_grad_(False)
    p.theta.copy_(random_tensor(K + 1, seed=seed))
    return p


@law
@given(st.sampled_from(["chebyshev1", "chebyshev2", "legendre", "jacobi(0.5, -0.5)"]), degrees, seeds)
def test_an_interpolating_filter_takes_its_coefficients_as_values_at_the_nodes(basis, K, seed):
    p = interpolating(basis, K, seed)
    nodes = torch.as_tensor(p.basis.nodes(K + 1))
    assert p.response(nodes + 1).numpy() == pytest.approx(p.theta.numpy(), abs=1e-9)


@law
@given(degrees, seeds)
def test_the_published_interpolation_is_off_by_the_mean(K, seed):
    p, xi = interpolating("chebyshev1", K, seed), np.linspace(-1, 1, 11)
    nodes, gamma = p.basis.nodes(K + 1), p.theta.numpy()
    assert nodes == pytest.approx(np.cos((np.arange(K + 1)[::-1] + 0.5) * np.pi / (K + 1)))
    published = chebyshev.chebval(xi, 2 / (K + 1) * chebyshev.chebvander(nodes, K).T @ gamma)
    ours = p.response(torch.as_tensor(xi + 1)).numpy()
    assert published - ours == pytest.approx(np.full(11, gamma.mean()), abs=1e-9)
