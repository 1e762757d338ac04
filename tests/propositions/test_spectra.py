"""Where the spectrum lies, and what the power method says about its top. (C16 to C20 of the ledger)

Propositions "spectral enclosure for the normalised sheaf Laplacian", "Gershgorin-type bound" and
"power-iteration error". The conclusion of the second is true without its hypothesis of block domination,
which ordinary sheaves violate: ‖a − b‖² ≤ 2‖a‖² + 2‖b‖² gives L ⪯ 2 blkdiag(D_v). Twice the largest degree,
which published code takes for it, bounds nothing once maps may stretch. The prefactor λ_1 − λ_2 of the
third must be λ_1 − λ_n.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_sheaves import (
    FAMILIES,
    build,
    close,
    dense_maps,
    lambda_max,
    laplacians,
    law,
    random_maps,
    seeds,
    topologies,
)

from polynsd import GraphError, PolynomialFilter, SheafLaplacian, Topology, get_basis
from polynsd_paper.claims.samples import filter_matrix, operator_norm, path, spectrum
from polynsd_paper.claims.spectra import (
    block_bound,
    chebyshev_norm,
    is_block_dominated,
    rayleigh_bound,
    rayleigh_error,
    rayleigh_quotient,
)

STAR = Topology.from_edge_index(torch.tensor([[0, 0, 0], [1, 2, 3]]), 5)  # node 4 is isolated


@law
@given(laplacians(normalizations=("sheaf",)))
def test_the_sheaf_normalisation_encloses_the_spectrum_in_0_2(L):
    lam = spectrum(L)
    assert lam.min() >= -1e-8
    assert lam.max() <= 2 + 1e-8
    assert L.lambda_max() == 2


@law
@given(laplacians(normalizations=("sheaf-augmented",)))
def test_the_augmented_normalisation_stays_below_2(L):
    raw = SheafLaplacian(L.topology, L.maps, "none", edge_weight=L.edge_weight, stalk_dim=L.stalk_dim)
    largest = block_bound(raw) / 2
    lam = spectrum(L)
    assert lam.min() >= -1e-9
    assert lam.max() <= 2 * largest / (largest + 1) + 1e-9 < 2


@law
@given(laplacians())
def test_both_bounds_hold_without_any_hypothesis(L):
    largest, tight, certified = spectrum(L).max().item(), lambda_max(L, "lanczos"), lambda_max(L)
    assert largest <= tight + 1e-9
    assert tight <= certified


@law
@given(laplacians(normalizations=("none", "degree")))
def test_the_analytic_bound_is_twice_the_largest_diagonal_block(L):
    assert float(torch.as_tensor(L.lambda_max())) == pytest.approx(block_bound(L))
    assert spectrum(L).max() <= block_bound(L) + 1e-9


def test_an_ordinary_sheaf_violates_block_domination():
    middle = path(3)
    maps = torch.ones(4, 2, 1).double()
    maps[middle.row == 1] = torch.eye(2).double()[..., None]  # node 1 shows each neighbour another axis
    L = SheafLaplacian(middle, maps, "none")
    assert not is_block_dominated(L)
    assert spectrum(L).max() <= block_bound(L)


def test_twice_the_largest_degree_is_no_bound_for_stretching_maps():
    d = 3
    maps = torch.full((STAR.num_half_edges, d, d), 2.0).double().tanh()
    L = SheafLaplacian(STAR, maps, "none")
    largest, degree = spectrum(L).max().item(), STAR.degree.max().item()
    assert largest > d**2 * 0.9 * degree > 2 * degree
    assert largest <= block_bound(L)


@law
@given(topologies())
def test_twice_the_largest_degree_bounds_maps_that_do_not_stretch(topology):
    for family in ("identity", "orthogonal"):
        largest = spectrum(build(family, topology, normalization="none")).max()
        assert largest <= 2 * topology.degree.max().item() + 1e-9


@pytest.mark.parametrize("family", FAMILIES)
def test_the_degree_block_of_an_isolated_node_has_no_inverse_and_counts_as_zero(family):
    maps = random_maps(family, STAR, 2)
    L = SheafLaplacian(STAR, maps, "sheaf", stalk_dim=2)
    degree = SheafLaplacian(STAR, maps, "none", stalk_dim=2).diagonal_blocks
    assert torch.linalg.matrix_rank(degree).tolist() == [2, 2, 2, 2, 0]
    assert close(L.diagonal_blocks[:4], torch.eye(2).double().expand(4, 2, 2))
    assert (L.to_dense()[8:] == 0).all()


def test_a_singular_degree_block_of_a_connected_node_is_an_error():
    edge = path(2)
    maps = torch.ones(2, 2, 2).double()  # rank one at both ends
    assert torch.linalg.matrix_rank(dense_maps(SheafLaplacian(edge, maps))).tolist() == [1, 1]
    with pytest.raises(GraphError, match=r"node 0 is singular.*sheaf-augmented"):
        SheafLaplacian(edge, maps, "sheaf")


@law
@given(laplacians(), st.integers(0, 10), seeds)
def test_rayleigh_quotients_never_exceed_the_spectrum(L, t, seed):
    assert rayleigh_quotient(L, t, seed) <= spectrum(L).max() + 1e-9


@law
@given(
    st.lists(st.floats(0.1, 1), min_size=3, max_size=6, unique=True),
    st.lists(st.floats(0.1, 1), min_size=6, max_size=6),
    st.integers(0, 8),
)
def test_the_power_method_errs_by_at_most_the_bound_with_the_full_width_as_prefactor(values, weights, t):
    lam, weight = np.sort(values)[::-1], np.array(weights[: len(values)])
    error = rayleigh_error(lam, weight, t)
    assert -1e-12 <= error <= rayleigh_bound(lam, weight, t, lam[0] - lam[-1]) + 1e-12


def test_the_printed_prefactor_is_too_small():
    lam, weight = np.array([1.0, 0.9, 0.0]), np.ones(3)
    assert rayleigh_error(lam, weight, 0) > 1.8 * rayleigh_bound(lam, weight, 0, lam[0] - lam[1])


@law
@given(st.floats(1.0, 1.5), st.sampled_from([-1, 1]), st.integers(0, 12))
def test_outside_the_spectrum_chebyshev_polynomials_grow_like_cosh(xi, sign, k):
    """T_k(ξ) = sign(ξ)^k cosh(k arcosh |ξ|): on the left odd polynomials are negative."""
    truth = np.cosh(k * np.arccosh(xi))
    assert get_basis("chebyshev1").evaluate(np.array(sign * xi), k)[-1] == pytest.approx(sign**k * truth)
    assert chebyshev_norm(
        torch.diag(torch.tensor([0.3, sign * xi], dtype=torch.float64)), k
    ) == pytest.approx(truth)


def test_a_raw_estimate_as_scale_makes_the_filter_expand():
    """Rayleigh quotients are below λ_1, so the rescaled spectrum leaves [−1, 1]."""
    L = build("general", path(8), normalization="none")
    p = PolynomialFilter("chebyshev1", 16).double().requires_grad_(False)
    estimate, *bounds = (
        operator_norm(filter_matrix(lambda L, x, lam=lam: p(L, x, lam), L))
        for lam in (rayleigh_quotient(L, 3), L.lambda_max("lanczos"), L.lambda_max())
    )
    assert estimate > 1.5
    assert max(bounds) <= 1 + 1e-9
