"""Where the spectrum lies: [0, 2] when normalised, [0, 2 max ‖D_v‖] always.

Propositions "spectral enclosure for the normalised sheaf Laplacian" and "Gershgorin-type bound".
The conclusion of the second is true without its hypothesis of block domination, which ordinary
sheaves violate: ‖a − b‖² ≤ 2‖a‖² + 2‖b‖² gives L ⪯ 2 blkdiag(D_v). Twice the largest degree, which
is what published code takes for it, bounds nothing once maps may stretch.
"""

import pytest
import torch
from hypothesis import given
from random_sheaves import (
    FAMILIES,
    build,
    close,
    dense_maps,
    lambda_max,
    laplacians,
    law,
    path,
    random_maps,
    spectrum,
    topologies,
)  # fmt: skip

from polynsd import GraphError, SheafLaplacian, Topology

STAR = Topology.from_edge_index(torch.tensor([[0, 0, 0], [1, 2, 3]]), 5)  # node 4 is isolated


@law
@given(laplacians(normalizations=("sheaf",)))
def test_the_sheaf_normalisation_encloses_the_spectrum_in_0_2(L):
    lam, _ = spectrum(L)
    assert lam.min() >= -1e-8
    assert lam.max() <= 2 + 1e-8
    assert L.lambda_max() == 2


@law
@given(laplacians(normalizations=("sheaf-augmented",)))
def test_the_augmented_normalisation_stays_below_2(L):
    raw = SheafLaplacian(L.topology, L.maps, "none", edge_weight=L.edge_weight, stalk_dim=L.stalk_dim)
    largest = torch.linalg.matrix_norm(raw.diagonal_blocks, 2).max()
    lam, _ = spectrum(L)
    assert lam.min() >= -1e-9
    assert lam.max() <= 2 * largest / (largest + 1) + 1e-9 < 2


@law
@given(laplacians())
def test_both_bounds_hold_without_any_hypothesis(L):
    largest = spectrum(L)[0].max().item()
    tight, certified = lambda_max(L, "lanczos"), lambda_max(L)
    assert largest <= tight + 1e-9
    assert tight <= certified


@law
@given(laplacians(normalizations=("none", "degree")))
def test_the_analytic_bound_is_twice_the_largest_diagonal_block(L):
    norms = torch.linalg.matrix_norm(L.diagonal_blocks, 2)
    assert lambda_max(L) == pytest.approx(2 * norms.max().item())


def test_an_ordinary_sheaf_violates_block_domination():
    sides = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).double()  # node 1 shows each neighbour another axis
    middle = path(3)
    maps = torch.ones(4, 2, 1).double()
    maps[middle.row == 1] = sides[..., None]
    L = SheafLaplacian(middle, maps, "none")
    dense = L.to_dense().reshape(3, 2, 3, 2)
    couplings = sum(torch.linalg.matrix_norm(dense[1, :, u], 2) for u in (0, 2))
    assert couplings > torch.linalg.matrix_norm(dense[1, :, 1], 2)
    assert spectrum(L)[0].max() <= lambda_max(L)


def test_twice_the_largest_degree_is_no_bound_for_stretching_maps():
    d = 3
    maps = torch.full((STAR.num_half_edges, d, d), 2.0).double().tanh()
    L = SheafLaplacian(STAR, maps, "none")
    largest, degree = spectrum(L)[0].max().item(), STAR.degree.max().item()
    assert largest > d**2 * 0.9 * degree > 2 * degree
    assert largest <= lambda_max(L)


@law
@given(topologies())
def test_twice_the_largest_degree_bounds_maps_that_do_not_stretch(topology):
    for family in ("identity", "orthogonal"):
        largest = spectrum(build(family, topology, normalization="none"))[0].max()
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
