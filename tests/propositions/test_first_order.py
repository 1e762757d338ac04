"""Is Neural Sheaf Diffusion, x⁺ = x − Lx, the case K = 1? Not with convex weights, only with free ones. (C07)

Propositions "K = 1 induces a first-order polynomial" (eq. cheb-k1-a-b) and "strict generalisation for K >
1" (see test_filters.py). With θ_0 + θ_1 = 1 the map to (a, b) is not onto: a + λ_max b = tanh ε lies in
(−1, 1), while plain diffusion has a = 1, b = −1, λ_max = 2. And b = −θ_1 there, so θ_1 = B/2 gives −B/2,
not −B.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_sheaves import close, lambda_max, laplacians, law, seeds

from polynsd_paper.claims.layers import first_order_coefficients, layer_with_coefficients
from polynsd_paper.claims.samples import plain_layer, random_signal, set_layer

normalized = laplacians(normalizations=("sheaf", "sheaf-augmented"))
numbers = st.floats(-2, 2)


@law
@given(laplacians(), numbers, numbers, numbers)
def test_first_order_coefficients_are_those_printed(L, logit, alpha, epsilon):
    layer = set_layer(plain_layer(L.stalk_dim, degree=1), [0.0, logit], alpha, epsilon)
    bound, (theta0, theta1) = lambda_max(L), layer.filter.weights().tolist()
    gate = torch.tensor(epsilon, dtype=torch.float64).tanh().item()
    a, b = 1 + gate - (theta0 - theta1 + alpha), -(2 * theta1 - alpha) / bound
    x = random_signal(L, channels=2)
    assert first_order_coefficients(layer, bound) == pytest.approx((a, b), abs=1e-9)
    assert close(layer.diffuse(x, L), a * x + b * (L @ x), atol=1e-8)
    assert a + bound * b == pytest.approx(gate, abs=1e-12)


@law
@given(seeds)
def test_convex_weights_cannot_reach_plain_diffusion(seed):
    layer, plain = plain_layer(seed=seed, degree=1), plain_layer(filter="diffusion", gate="none")
    top = torch.tensor([2.0]).double()
    assert plain.response(top).r[0].item() == -1
    assert layer.response(top).r[0].item() == pytest.approx(layer.epsilon.tanh()[0].item())


@law
@given(normalized)
def test_free_weights_are_plain_diffusion_exactly(L):
    free = set_layer(plain_layer(L.stalk_dim, degree=1, coefficients="free", gate="none"), 1.0)
    plain = plain_layer(L.stalk_dim, filter="diffusion", gate="none")
    x = random_signal(L, channels=2)
    assert close(free.diffuse(x, L), x - L @ x)
    assert close(free.diffuse(x, L), plain.diffuse(x, L))


@law
@given(normalized, numbers, numbers, numbers)
def test_under_a_linear_gate_convex_weights_reach_every_step(L, a, b, logit):
    layer, x = layer_with_coefficients(a, b, L.stalk_dim, logit), random_signal(L, channels=2)
    assert first_order_coefficients(layer) == pytest.approx((a, b), abs=1e-9)
    assert close(layer.diffuse(x, L), a * x + b * (L @ x))


def test_half_of_B_as_weight_gives_half_of_B_as_slope():
    layer, B = plain_layer(degree=1, coefficients="free"), 0.8
    set_layer(layer, [1 - B / 2, B / 2])
    assert first_order_coefficients(layer)[1] == pytest.approx(-B / 2)
