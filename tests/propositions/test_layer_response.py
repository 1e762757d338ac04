"""What one layer does to a mode: z = m(λ) x and x⁺ = r(λ) x, r = 1 + tanh ε − m; and how far it can stretch.

Proposition "spectral shape and global Lipschitz bound" (eq. hp-multiplier, hp-lip-constant), and the
reading of it: 1 − λ/λ_max is a low-pass profile, α < 0 amplifies harmonic modes, and m > 0 does not
save a mode from being annihilated.
"""

import pytest
import torch
from frozen_layers import frozen_layer, only, set_filter
from hypothesis import given
from hypothesis import strategies as st
from random_sheaves import (
    build,
    calculus,
    close,
    lambda_max,
    laplacians,
    law,
    matrix_of,
    path,
    random,
    seeds,
    signal,
    spectrum,
)  # fmt: skip

from polynsd import LayerConfig, PolynomialFilter
from polynsd.nn import SheafLayer

CORRECTIONS = ("none", "linear", "high-pass")
LAM = torch.linspace(0, 2, 41).double()


@law
@given(
    laplacians(), st.integers(0, 6), st.sampled_from(CORRECTIONS), st.sampled_from(["tanh", "linear"]), seeds
)
def test_a_layer_multiplies_modes_by_r(L, degree, correction, gate, seed):
    layer = frozen_layer(L, seed, degree=degree, correction=correction, gate=gate)
    set_filter(layer, epsilon=0.3)  # one gate for all stalk coordinates, else it would mix modes
    bound = lambda_max(L) or 1.0
    truth = calculus(L, lambda lam: layer.response(lam, bound).r[0])
    assert close(matrix_of(lambda x: layer.diffuse(x, L), L), truth)


@law
@given(laplacians(), st.sampled_from(CORRECTIONS), seeds)
def test_m_is_the_polynomial_plus_the_correction(L, correction, seed):
    layer = frozen_layer(L, seed, degree=3, correction=correction, gate="none")
    bound, alpha = lambda_max(L) or 1.0, layer.filter.alpha
    plain = set_filter(frozen_layer(L, degree=3, correction="none"), theta=layer.filter.theta).filter
    profile = {
        "none": lambda lam: 0 * lam,
        "linear": lambda lam: 1 - lam / bound,
        "high-pass": lambda lam: lam / bound,
    }
    truth = calculus(L, lambda lam: plain.response(lam, bound) + (alpha or 0) * profile[correction](lam))
    assert close(matrix_of(lambda x: layer.filter(L, x), L), truth)
    assert close(layer.diffuse(signal(L), L), signal(L) - layer.filter(L, signal(L)))


def test_every_stalk_coordinate_has_its_own_gate():
    L = build("identity", path(5), d=3, normalization="sheaf")
    layer = frozen_layer(L, seed=0, degree=4)
    lam, U = torch.linalg.eigh(build("identity", path(5), d=1, normalization="sheaf").to_dense())
    x = signal(L)
    modes = torch.einsum("vm,vdc->mdc", U, x) * layer.response(lam).r.mT[..., None]
    assert close(layer.diffuse(x, L), torch.einsum("vm,mdc->vdc", U, modes))


@law
@given(
    laplacians(), st.sampled_from(["elu", "relu", "tanh", "identity"]), st.sampled_from(CORRECTIONS), seeds
)
def test_a_layer_with_a_given_laplacian_is_lipschitz(L, activation, correction, seed):
    layer = frozen_layer(L, seed, activation=activation, correction=correction)
    x, y = signal(L, seed=seed), signal(L, seed=seed + 1)
    alpha = 0.0 if layer.filter.alpha is None else abs(layer.filter.alpha.item())
    constant = 1 + layer.epsilon.tanh().abs().max() + 1 + alpha  # the paper has 2|α|
    stretch = (layer.diffuse(x, L) - layer.diffuse(y, L)).norm() / (x - y).norm()
    assert stretch <= constant + 1e-9


def test_a_layer_that_learns_its_maps_breaks_the_lipschitz_bound():
    """Maps read one coordinate of the state and move another, which may be as large as it likes."""
    layer = SheafLayer(1, LayerConfig(stalk_dim=2, mixing="none", correction="none")).double()
    layer.learner.maps.linear.weight.data = torch.tensor([[1.0, 0, 0, 0], [1.0, 0, 0, 0]]).double()
    x = random(0, 4, 2, 1) * torch.tensor([[1.0], [100.0]])
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x, path(4)), x).reshape(8, 8)
    assert torch.linalg.matrix_norm(jacobian, 2) > 2  # ε = 0, α = 0


def test_the_linear_correction_is_low_pass_and_the_other_one_high_pass():
    for correction, profile in (("linear", 1 - LAM / 2), ("high-pass", LAM / 2)):
        f = PolynomialFilter("chebyshev1", 4, correction=correction).double().requires_grad_(False)
        before = f.response(LAM)
        f.alpha.fill_(1.0)
        assert close(f.response(LAM) - before, profile)


def test_a_negative_alpha_amplifies_harmonic_modes():
    L = build("identity", path(4), d=1, normalization="sheaf")
    harmonic = spectrum(L)[1][:, :1].reshape(4, 1, 1)
    layer = set_filter(frozen_layer(L, degree=1), alpha=-0.5)  # p(λ = 0) = 0 at the start
    assert close(layer.diffuse(harmonic, L), 1.5 * harmonic)
    assert layer.response(LAM).m[0] == pytest.approx(-0.5)


def test_a_positive_multiplier_may_still_annihilate_a_mode():
    L = build("orthogonal", path(5))
    lam, U = spectrum(L)
    chosen, alpha = 4, 0.5
    epsilon = torch.atanh(alpha * (1 - lam[chosen] / 2))
    layer = set_filter(frozen_layer(L, degree=2), theta=only(0, 2), alpha=alpha, epsilon=epsilon)  # p = 1
    assert (layer.response(LAM[:-1]).m > 0).all()
    mode = U[:, chosen].reshape(5, 2, 1)
    assert close(layer.diffuse(mode, L), torch.zeros_like(mode))
