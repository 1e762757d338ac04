"""Is Neural Sheaf Diffusion, x⁺ = x − Lx, the case K = 1? Not with convex weights, exactly with free ones.

Propositions "K = 1 induces a first-order polynomial" (eq. cheb-k1-a-b) and "strict generalisation for
K > 1". With θ_0 + θ_1 = 1 the map to (a, b) is not onto: a + λ_max b = tanh ε lies in (−1, 1), while
plain diffusion has a = 1, b = −1, λ_max = 2. And b = −θ_1 there, so θ_1 = B/2 gives −B/2, not −B.
"""

import pytest
import torch
from frozen_layers import frozen_layer, only, set_filter
from hypothesis import assume, given
from hypothesis import strategies as st
from random_sheaves import build, close, lambda_max, laplacians, law, matrix_of, path, seeds, signal, spectrum

from polynsd import Topology

normalized = laplacians(normalizations=("sheaf", "sheaf-augmented"))
numbers = st.floats(-2, 2)


def first_order(layer, bound):
    """(a, b) with r(λ) = a + bλ."""
    a, end = layer.response(torch.tensor([0.0, bound]).double(), bound).r[0]
    return a.item(), ((end - a) / bound).item()


def distance_to_first_order(matrix, L):
    """How far a matrix is from every aI + bL."""
    span = torch.stack([torch.eye(L.shape[0]).double().flatten(), L.to_dense().flatten()], 1)
    best = torch.linalg.lstsq(span, matrix.reshape(-1, 1)).solution
    return (span @ best - matrix.reshape(-1, 1)).norm().item()


@law
@given(laplacians(), numbers, numbers, numbers)
def test_first_order_coefficients_are_those_printed(L, logit, alpha, epsilon):
    layer = set_filter(frozen_layer(L, degree=1), torch.tensor([0.0, logit]), alpha, epsilon)
    bound, (theta0, theta1) = lambda_max(L) or 1.0, layer.filter.weights().tolist()
    gate = torch.tensor(epsilon).double().tanh().item()
    a, b = 1 + gate - (theta0 - theta1 + alpha), -(2 * theta1 - alpha) / bound
    assert first_order(layer, bound) == pytest.approx((a, b), abs=1e-6)
    assert close(layer.diffuse(signal(L), L), a * signal(L) + b * (L @ signal(L)), atol=1e-5)
    assert a + bound * b == pytest.approx(gate, abs=1e-12)


@law
@given(normalized, seeds)
def test_convex_weights_cannot_reach_plain_diffusion(L, seed):
    layer, plain = frozen_layer(L, seed, degree=1), frozen_layer(L, filter="diffusion", gate="none")
    top = torch.tensor([2.0]).double()
    assert plain.response(top).r[0].item() == -1
    assert layer.response(top).r[0].item() == pytest.approx(layer.epsilon.tanh()[0].item())


@law
@given(normalized)
def test_free_weights_are_plain_diffusion_exactly(L):
    free = set_filter(frozen_layer(L, degree=1, coefficients="free", gate="none"), torch.ones(2))
    plain = frozen_layer(L, filter="diffusion", gate="none")
    assert close(free.diffuse(signal(L), L), signal(L) - L @ signal(L))
    assert close(free.diffuse(signal(L), L), plain.diffuse(signal(L), L))


@law
@given(normalized, numbers)
def test_so_are_convex_weights_under_a_linear_gate(L, logit):
    layer = set_filter(frozen_layer(L, degree=1, gate="linear"), torch.tensor([0.0, logit]), epsilon=-1.0)
    layer.filter.alpha.copy_(2 * layer.filter.weights()[1] - 2)
    assert close(layer.diffuse(signal(L), L), signal(L) - L @ signal(L))


def test_half_of_B_as_weight_gives_half_of_B_as_slope():
    L, B = build("diagonal", path(3)), 0.8
    layer = frozen_layer(L, degree=1, coefficients="free")
    set_filter(layer, torch.tensor([1 - B / 2, B / 2]).double())
    assert first_order(layer, 2.0)[1] == pytest.approx(-B / 2)


@law
@given(laplacians(), st.integers(2, 5))
def test_higher_degrees_leave_first_order_where_there_are_three_frequencies(L, degree):
    lam = spectrum(L)[0]
    distinct = lam[torch.cat([torch.ones(1).bool(), lam.diff() > 0.05])]
    assume(len(distinct) >= 3)
    layer = set_filter(frozen_layer(L, degree=degree, correction="none"), only(2, degree))
    assert distance_to_first_order(matrix_of(lambda x: layer.diffuse(x, L), L), L) > 1e-4


@law
@given(st.integers(2, 6), seeds)
def test_two_frequencies_are_not_enough(n, seed):
    complete = Topology.from_edge_index(torch.ones(n, n).nonzero().t(), n)
    L = build("identity", complete, d=1, normalization="sheaf")  # eigenvalues 0 and n/(n − 1)
    layer = frozen_layer(L, seed, degree=5)
    assert distance_to_first_order(matrix_of(lambda x: layer.diffuse(x, L), L), L) < 1e-9
