"""Polynomials of one Laplacian act mode by mode, commute, and tame the energy when |p| ≤ 1.

Lemma "polynomial functional calculus" (eq. poly-functional-calc), proposition "continuous functional
calculus and operator norm", proposition "commutation and Dirichlet energy" (eq. polysd-energy-monotone).
The paper asks for 0 ≤ p ≤ 1; |p| ≤ 1 is enough, and is all that convex mixtures give.
"""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import chebyshev
from random_sheaves import (
    BASES,
    build,
    calculus,
    close,
    degrees,
    lambda_max,
    laplacians,
    law,
    matrix_of,
    path,
    seeds,
    signal,
)  # fmt: skip

from polynsd import PolynomialFilter


def free_filter(phi):
    """Σ φ_k T_k."""
    p = PolynomialFilter("chebyshev1", len(phi) - 1, "free").double()
    p.theta.data = torch.as_tensor(np.asarray(phi), dtype=torch.float64)
    return p.requires_grad_(False)


def convex_filter(basis, degree, seed):
    """A convex mixture with random weights, some of them close to one."""
    p = PolynomialFilter(basis, degree).double().requires_grad_(False)
    p.theta.normal_(std=3, generator=torch.Generator().manual_seed(seed))
    return p


coefficients = st.lists(st.floats(-1, 1), min_size=1, max_size=7)


@law
@given(laplacians(), coefficients)
def test_a_filter_multiplies_modes_by_its_response(L, phi):
    p, bound = free_filter(phi), lambda_max(L) or 1.0
    truth = calculus(L, lambda lam: p.response(lam, bound))
    matrix = matrix_of(lambda x: p(L, x), L)
    assert close(matrix, truth)
    largest = p.response(torch.linalg.eigvalsh(L.to_dense()), bound).abs().max()
    assert close(torch.linalg.matrix_norm(matrix, 2), largest)


@law
@given(laplacians(), coefficients, coefficients)
def test_filters_commute_and_compose_to_their_product(L, a, b):
    p, q = free_filter(a), free_filter(b)
    product = free_filter(chebyshev.chebmul(a, b))
    x = signal(L)
    assert close(p(L, q(L, x)), q(L, p(L, x)))
    assert close(p(L, q(L, x)), product(L, x))


@law
@given(laplacians(), st.sampled_from(BASES), degrees, seeds)
def test_convex_mixtures_never_raise_the_energy(L, basis, degree, seed):
    p, x = convex_filter(basis, degree, seed), signal(L, seed=seed)
    before, after = L.energy(x), L.energy(p(L, x))
    assert after <= before * (1 + 1e-9) + 1e-9


def test_convex_weights_do_not_keep_the_response_positive():
    p = PolynomialFilter("chebyshev1", 1).double()
    p.theta.data = torch.tensor([-800.0, 0.0], dtype=torch.float64)  # softmax: T_1 alone
    assert p.response(torch.zeros(1, dtype=torch.float64)).item() == -1.0


def test_a_response_above_one_raises_the_energy():
    L = build("general", path(4))
    x = signal(L)
    assert L.energy(free_filter([1.1])(L, x)) > L.energy(x)
