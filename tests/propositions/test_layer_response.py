"""What one layer does to a mode: x⁺ = r(λ) x, r = 1 + tanh ε − m; how far it stretches. (C22 to C24)

Proposition "spectral shape and global Lipschitz bound" (eq. hp-multiplier, hp-lip-constant), and what
follows from it: 1 − λ/λ_max is a low-pass profile, α < 0 amplifies harmonic modes, and m > 0 does not save
a mode from being annihilated.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_sheaves import build, calculus, close, lambda_max, laplacians, law, seeds

from polynsd_paper.claims.layers import (
    LAM,
    cancelling_layer,
    correction_profile,
    jacobian_norm,
    learned_jacobian_norm,
    lipschitz_bound,
)
from polynsd_paper.claims.samples import filter_matrix, matrix_of, path, plain_layer, random_signal, set_layer

CORRECTIONS = ("none", "linear", "high-pass")


@law
@given(
    laplacians(), st.integers(0, 6), st.sampled_from(CORRECTIONS), st.sampled_from(["tanh", "linear"]), seeds
)
def test_a_layer_multiplies_modes_by_r(L, degree, correction, gate, seed):
    layer = plain_layer(L.stalk_dim, seed, degree=degree, correction=correction, gate=gate)
    set_layer(layer, epsilon=0.3)  # one gate for all stalk coordinates, else it would mix modes
    truth = calculus(L, lambda lam: layer.response(lam, lambda_max(L)).r[0])
    assert close(matrix_of(lambda x: layer.diffuse(x, L), L), truth)


@law
@given(laplacians(), st.sampled_from(CORRECTIONS), seeds)
def test_m_is_the_polynomial_plus_the_correction(L, correction, seed):
    layer = plain_layer(L.stalk_dim, seed, degree=3, correction=correction, gate="none")
    bound, alpha = lambda_max(L), layer.filter.alpha
    p = set_layer(plain_layer(degree=3, correction="none"), theta=layer.filter.theta).filter
    profile = {
        "none": lambda lam: 0 * lam,
        "linear": lambda lam: 1 - lam / bound,
        "high-pass": lambda lam: lam / bound,
    }
    truth = calculus(L, lambda lam: p.response(lam, bound) + (alpha or 0) * profile[correction](lam))
    x = random_signal(L, channels=2)
    assert close(filter_matrix(layer.filter, L), truth)
    assert close(layer.diffuse(x, L), x - layer.filter(L, x))


def test_every_stalk_coordinate_has_its_own_gate():
    L = build("identity", path(5), d=3, normalization="sheaf")
    layer = plain_layer(3, seed=0, degree=4)
    lam, U = torch.linalg.eigh(build("identity", path(5), d=1, normalization="sheaf").to_dense())
    x = random_signal(L, channels=2)
    modes = torch.einsum("vm,vdc->mdc", U, x) * layer.response(lam).r.mT[..., None]
    assert close(layer.diffuse(x, L), torch.einsum("vm,mdc->vdc", U, modes))


@law
@given(
    laplacians(), st.sampled_from(["elu", "relu", "tanh", "identity"]), st.sampled_from(CORRECTIONS), seeds
)
def test_a_layer_with_a_given_laplacian_is_lipschitz(L, activation, correction, seed):
    layer = plain_layer(L.stalk_dim, seed, activation=activation, correction=correction)
    constant = lipschitz_bound(layer, alpha_factor=1)  # the paper has 2|α|
    x, y = random_signal(L, seed=seed), random_signal(L, seed=seed + 1)
    assert jacobian_norm(layer, L, x) <= constant + 1e-9
    assert (layer.diffuse(x, L) - layer.diffuse(y, L)).norm() <= (constant + 1e-9) * (x - y).norm()
    assert constant <= lipschitz_bound(layer, alpha_factor=2)


def test_a_layer_that_learns_its_maps_breaks_the_lipschitz_bound():
    assert learned_jacobian_norm() > 2


@pytest.mark.parametrize(("correction", "profile"), [("linear", 1 - LAM / 2), ("high-pass", LAM / 2)])
def test_the_linear_correction_is_low_pass_and_the_other_one_high_pass(correction, profile):
    of_m, of_r = correction_profile(correction)
    assert close(of_m, profile)
    assert close(of_r, -profile)


def test_a_negative_alpha_amplifies_harmonic_modes():
    L = build("identity", path(4), d=1, normalization="sheaf")
    harmonic = torch.linalg.eigh(L.to_dense())[1][:, :1].reshape(4, 1, 1)
    layer = set_layer(plain_layer(degree=1), alpha=-0.5)  # p(λ = 0) = 0 at the start
    assert close(layer.diffuse(harmonic, L), 1.5 * harmonic)
    assert layer.response(LAM).m[0] == pytest.approx(-0.5)


@pytest.mark.parametrize("index", [0, 4, 8])
def test_a_positive_multiplier_may_still_annihilate_a_mode(index):
    L = build("orthogonal", path(5))
    lam, U = torch.linalg.eigh(L.to_dense())
    layer = cancelling_layer(lam[index].item(), stalk_dim=2)
    assert (layer.response(LAM[:-1]).m > 0).all()
    mode = U[:, index].reshape(5, 2, 1)
    assert close(layer.diffuse(mode, L), torch.zeros_like(mode), atol=1e-6)
