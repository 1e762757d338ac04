"""L = δᵀδ is symmetric and positive semidefinite, has the energy Σ λ_i x̂_i², and follows a change of bases.

Lemma "sheaf coboundary and Laplacian", propositions "spectral decomposition" and "Dirichlet energy in the
spectral domain" (eq. dirichlet-spectral), lemma "Parseval". With g_v orthogonal and F_{v⊴e} ↦ F_{v⊴e} g_vᵀ,
the Laplacian, its filters and a layer without coordinate-wise parts satisfy L_g (g x) = g (L x), under
every normalisation.
"""

import torch
from hypothesis import given
from random_sheaves import close, dense_maps, lambda_max, laplacians, law, seeds

from polynsd import PolynomialFilter, SheafLaplacian
from polynsd.testing import random_tensor
from polynsd_paper.claims.samples import matrix_of, plain_layer, random_signal, set_layer, spectrum


def assemble(L):
    """D − A block by block from the definition, without any normalisation."""
    top, d, F = L.topology, L.stalk_dim, dense_maps(L)
    whole = torch.zeros(top.num_nodes, d, top.num_nodes, d, dtype=L.dtype)
    for h, (v, u, twin) in enumerate(zip(top.row, top.col, top.twin, strict=True)):
        weight = 1.0 if L.edge_weight is None else L.edge_weight[h]
        whole[v, :, v] += weight * F[h].mT @ F[h]
        whole[v, :, u] -= weight * F[h].mT @ F[twin]
    return whole.reshape(L.shape)


@law
@given(laplacians(normalizations=("none",)))
def test_the_operator_is_the_textbook_block_matrix(L):
    assert close(matrix_of(L.__matmul__, L), assemble(L))


@law
@given(laplacians())
def test_the_operator_is_the_square_of_the_coboundary(L):
    dense, delta = L.to_dense(), matrix_of(L.coboundary, L)
    assert close(delta.mT @ delta, dense)
    assert close(matrix_of(L.__matmul__, L), dense)
    assert close(dense, dense.mT)
    assert spectrum(L).min() >= -1e-9


@law
@given(laplacians(), seeds)
def test_energy_is_a_sum_over_modes_and_a_sum_over_edges(L, seed):
    x = random_signal(L, seed=seed)
    lam, U = torch.linalg.eigh(L.to_dense())
    coefficients = U.mT @ x.flatten()
    assert close((lam * coefficients.square()).sum(), L.energy(x))
    assert close((x * (L @ x)).sum(), L.energy(x))
    assert close(coefficients.square().sum(), x.square().sum())


@law
@given(laplacians())
def test_harmonic_signals_are_those_without_disagreement(L):
    lam, U = torch.linalg.eigh(L.to_dense())
    shape = (L.topology.num_nodes, L.stalk_dim, -1)
    harmonic, rough = U[:, lam < 1e-9].reshape(shape), U[:, lam >= 1e-9].reshape(shape)
    assert close(L.coboundary(harmonic), torch.zeros(()).double(), atol=1e-4)
    assert (L.coboundary(rough).square().sum((0, 1)) > 1e-10).all()


@law
@given(laplacians(), seeds)
def test_everything_follows_a_change_of_stalk_bases(L, seed):
    g = torch.linalg.qr(random_tensor(L.topology.num_nodes, L.stalk_dim, L.stalk_dim, seed=seed)).Q
    maps, x = dense_maps(L) @ g[L.topology.row].mT, random_signal(L, channels=2, seed=seed)
    L_g = SheafLaplacian(L.topology, maps, L.normalization, edge_weight=L.edge_weight)
    assert close(L_g @ (g @ x), g @ (L @ x))
    assert close(L_g.energy(g @ x), L.energy(x))
    assert close(spectrum(L_g), spectrum(L))
    assert abs(lambda_max(L_g) - lambda_max(L)) < 1e-9
    p = PolynomialFilter("legendre", 6, correction="high-pass").double().requires_grad_(False)
    p.alpha.fill_(0.7)
    assert close(p(L_g, g @ x), g @ p(L, x))
    layer = set_layer(plain_layer(L.stalk_dim, seed), epsilon=0.2)
    assert close(layer.diffuse(g @ x, L_g), g @ layer.diffuse(x, L))
