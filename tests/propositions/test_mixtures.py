"""Convex mixtures are nonexpansive in every normalised basis, and in the raw ones only where sup |B_k| = 1.

Proposition "boundedness of convex Chebyshev mixtures" (eq. cheb-operator-norm). The remark behind
it, that any uniformly bounded basis will do, leaves out U, V and W: raw, they reach k + 1 and
2k + 1 at an end of the spectrum, and an edge between two nodes has eigenvalues at both ends.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_sheaves import BASES, build, degrees, laplacians, law, matrix_of, path, seeds
from scipy.special import binom

from polynsd import PolynomialFilter, get_basis

GRID = np.cos(np.linspace(0, np.pi, 4001))


def mixture(basis, logits):
    p = PolynomialFilter(basis, len(logits) - 1).double().requires_grad_(False)
    p.theta.copy_(torch.as_tensor(logits))
    return p


def operator_norm(p, L):
    return torch.linalg.matrix_norm(matrix_of(lambda x: p(L, x), L), 2).item()


@law
@given(laplacians(), st.sampled_from(BASES), degrees, seeds)
def test_convex_mixtures_of_normalised_bases_are_nonexpansive(L, basis, degree, seed):
    logits = 3 * torch.randn(degree + 1, generator=torch.Generator().manual_seed(seed))
    assert operator_norm(mixture(basis, logits), L) <= 1 + 1e-9


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


@pytest.mark.parametrize(
    ("basis", "at_start", "at_worst"), [("chebyshev2", 9, 17), ("chebyshev3", 1, 33), ("chebyshev4", 17, 33)]
)
def test_raw_bases_expand_already_with_uniform_weights(basis, at_start, at_worst):
    K, edge = 16, build("identity", path(2), d=1, normalization="sheaf")  # eigenvalues 0 and 2
    raw = get_basis(basis).raw()
    assert operator_norm(mixture(raw, torch.zeros(K + 1)), edge) == pytest.approx(at_start)
    only_last = torch.full((K + 1,), -800.0).index_fill(0, torch.tensor(K), 0.0)
    assert operator_norm(mixture(raw, only_last), edge) == pytest.approx(at_worst)
    assert operator_norm(mixture(basis, only_last), edge) == pytest.approx(1)
