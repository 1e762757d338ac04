"""Interpolating coefficients: p takes the value γ_j at the node ξ_j = cos((j + ½)π/(K + 1)).

The published "ChebyInterp" filter, (2/(K + 1)) Σ_k [Σ_j γ_j T_k(ξ_j)] T_k, forgets to halve the term
k = 0 and is therefore off by the mean of γ everywhere.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import chebyshev
from random_sheaves import degrees, law, random, seeds

from polynsd import PolynomialFilter

BASES = ["chebyshev1", "chebyshev2", "legendre", "jacobi(0.5, -0.5)"]


def interpolating(basis, K, seed):
    p = PolynomialFilter(basis, K, "interpolation").double().requires_grad_(False)
    p.theta.copy_(random(seed, K + 1))
    return p


@law
@given(st.sampled_from(BASES), degrees, seeds)
def test_the_filter_takes_its_coefficients_as_values(basis, K, seed):
    p = interpolating(basis, K, seed)
    nodes = torch.as_tensor(p.basis.nodes(K + 1))
    assert p.response(nodes + 1).numpy() == pytest.approx(p.theta.numpy(), abs=1e-9)


@law
@given(degrees, seeds)
def test_the_published_filter_is_off_by_the_mean(K, seed):
    p, xi = interpolating("chebyshev1", K, seed), np.linspace(-1, 1, 11)
    nodes, gamma = p.basis.nodes(K + 1), p.theta.numpy()
    assert nodes == pytest.approx(np.cos((np.arange(K + 1)[::-1] + 0.5) * np.pi / (K + 1)))
    published = chebyshev.chebval(xi, 2 / (K + 1) * chebyshev.chebvander(nodes, K).T @ gamma)
    ours = p.response(torch.as_tensor(xi + 1)).numpy()
    assert published - ours == pytest.approx(np.full(11, gamma.mean()), abs=1e-9)
