"""L = δᵀδ is symmetric and positive semidefinite, and its energy is Σ λ_i x̂_i².

Lemma "sheaf coboundary and Laplacian", propositions "spectral decomposition" and "Dirichlet energy
in the spectral domain" (eq. dirichlet-spectral), lemma "Parseval".
"""

import torch
from hypothesis import given
from random_sheaves import close, dense_maps, laplacians, law, matrix_of, seeds, signal, spectrum


def assembled(L):
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
    assert close(matrix_of(L.__matmul__, L), assembled(L))


@law
@given(laplacians())
def test_the_operator_is_the_square_of_the_coboundary(L):
    delta = matrix_of(L.coboundary, L)
    assert close(delta.mT @ delta, L.to_dense())
    assert close(matrix_of(L.__matmul__, L), L.to_dense())


@law
@given(laplacians())
def test_the_operator_is_symmetric_and_positive_semidefinite(L):
    dense = L.to_dense()
    assert close(dense, dense.mT)
    assert spectrum(L)[0].min() >= -1e-9


@law
@given(laplacians(), seeds)
def test_energy_is_a_sum_over_modes_and_a_sum_over_edges(L, seed):
    x = signal(L, channels=1, seed=seed)
    lam, U = spectrum(L)
    coefficients = U.mT @ x.flatten()
    assert close((lam * coefficients.square()).sum(), L.energy(x))
    assert close((x * (L @ x)).sum(), L.energy(x))
    assert close(coefficients.square().sum(), x.square().sum())


@law
@given(laplacians())
def test_harmonic_signals_are_those_without_disagreement(L):
    lam, U = spectrum(L)
    shape = (L.topology.num_nodes, L.stalk_dim, -1)
    harmonic, rough = U[:, lam < 1e-9].reshape(shape), U[:, lam >= 1e-9].reshape(shape)
    assert close(L.coboundary(harmonic), torch.zeros(()).double(), atol=1e-4)
    assert (L.coboundary(rough).square().sum((0, 1)) > 1e-10).all()
