"""A change of basis in every stalk changes nothing but the names of the coordinates.

With g_v orthogonal and F_{v⊴e} ↦ F_{v⊴e} g_vᵀ, the Laplacian, its filters and a layer without
coordinate-wise parts satisfy L_g (g x) = g (L x), under every normalisation.
"""

import torch
from frozen_layers import frozen_layer, set_filter
from hypothesis import given
from random_sheaves import close, dense_maps, lambda_max, laplacians, law, random, seeds, signal, spectrum

from polynsd import PolynomialFilter, SheafLaplacian


def turned(L, g):
    """The same sheaf in other stalk bases."""
    F = dense_maps(L) @ g[L.topology.row].mT
    return SheafLaplacian(L.topology, F, L.normalization, edge_weight=L.edge_weight)


def random_gauge(L, seed):
    return torch.linalg.qr(random(seed, L.topology.num_nodes, L.stalk_dim, L.stalk_dim)).Q


@law
@given(laplacians(), seeds)
def test_the_laplacian_its_energy_and_its_spectrum_follow_the_gauge(L, seed):
    g, x = random_gauge(L, seed), signal(L, seed=seed)
    L_g = turned(L, g)
    assert close(L_g @ (g @ x), g @ (L @ x))
    assert close(L_g.energy(g @ x), L.energy(x))
    assert close(spectrum(L_g)[0], spectrum(L)[0])
    assert abs(lambda_max(L_g) - lambda_max(L)) < 1e-9


@law
@given(laplacians(), seeds)
def test_filters_and_layers_follow_the_gauge(L, seed):
    g, x = random_gauge(L, seed), signal(L, seed=seed)
    L_g = turned(L, g)
    p = PolynomialFilter("legendre", 6, correction="high-pass").double().requires_grad_(False)
    p.alpha.fill_(0.7)
    assert close(p(L_g, g @ x), g @ p(L, x))
    layer = set_filter(frozen_layer(L, seed), epsilon=0.2)
    assert close(layer.diffuse(g @ x, L_g), g @ layer.diffuse(x, L))
