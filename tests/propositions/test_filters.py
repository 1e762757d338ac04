"""Polynomials of one Laplacian: modes, energy, norm and reach. (C08 to C12 of the ledger)

Lemma "polynomial functional calculus" (eq. poly-functional-calc), propositions "continuous functional
calculus and operator norm", "commutation and Dirichlet energy" (eq. polysd-energy-monotone), "boundedness
of convex Chebyshev mixtures" (eq. cheb-operator-norm) and "K-hop locality" (prop. polysd-khop).

The paper asks for 0 ≤ p ≤ 1 where |p| ≤ 1 is enough, and is all that convex mixtures give. A layer that
learns its maps sees one hop more than its filter: the block (v, u) of D^{−1/2} L D^{−1/2} depends on D_u,
hence on the features of all neighbours of u.
"""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.polynomial import chebyshev
from random_sheaves import BASES, build, calculus, close, degrees, lambda_max, laplacians, law, seeds

from polynsd import PolynomialFilter, Topology, get_basis
from polynsd_paper.claims.filters import (
    REACH_DEGREE,
    distance_to_first_order,
    energy_ratio,
    initial_raw_norm,
    largest_entry_beyond,
    measure_layer_reach,
)
from polynsd_paper.claims.samples import (
    filter_matrix,
    operator_norm,
    path,
    random_mixture,
    spectrum,
    weight_on,
)


def free_filter(phi):
    """Σ φ_k T_k."""
    p = PolynomialFilter("chebyshev1", len(phi) - 1, "free").double()
    p.theta.data = torch.as_tensor(np.asarray(phi), dtype=torch.float64)
    return p.requires_grad_(False)


coefficients = st.lists(st.floats(-1, 1), min_size=1, max_size=7)


@law
@given(laplacians(), coefficients)
def test_a_filter_multiplies_modes_by_its_response(L, phi):
    p, bound = free_filter(phi), lambda_max(L)
    matrix = filter_matrix(p, L)
    assert close(matrix, calculus(L, lambda lam: p.response(lam, bound)))
    assert operator_norm(matrix) == pytest.approx(float(p.response(spectrum(L), bound).abs().max()), abs=1e-9)


@law
@given(laplacians(), coefficients, coefficients)
def test_filters_commute_and_compose_to_their_product(L, a, b):
    p, q = filter_matrix(free_filter(a), L), filter_matrix(free_filter(b), L)
    assert operator_norm(p @ q - q @ p) < 1e-9
    assert close(p @ q, filter_matrix(free_filter(chebyshev.chebmul(a, b)), L))


@law
@given(laplacians(), st.sampled_from(BASES), degrees, seeds)
def test_convex_mixtures_are_nonexpansive_and_never_raise_the_energy(L, basis, degree, seed):
    p = filter_matrix(random_mixture(degree, seed, basis=basis), L)
    assert operator_norm(p) <= 1 + 1e-9
    assert energy_ratio(p, L, seed) <= 1 + 1e-9


def test_convex_weights_do_not_keep_the_response_positive():
    p = PolynomialFilter("chebyshev1", 1).double().requires_grad_(False)
    p.theta.copy_(weight_on(1, 1))
    assert p.response(torch.zeros(1).double()).item() == -1.0


def test_a_response_above_one_raises_the_energy():
    L = build("general", path(4))
    assert energy_ratio(filter_matrix(free_filter([1.1]), L), L) == pytest.approx(1.21)


@pytest.mark.parametrize(
    ("basis", "at_start", "at_worst"), [("chebyshev2", 9, 17), ("chebyshev3", 1, 33), ("chebyshev4", 17, 33)]
)
def test_raw_bases_expand_already_with_uniform_weights(basis, at_start, at_worst):
    """ "Any uniformly bounded basis" leaves out U, V and W, which reach k + 1 and 2k + 1 at an end."""
    K, edge = 16, build("identity", path(2), d=1, normalization="sheaf")  # eigenvalues 0 and 2
    assert initial_raw_norm(basis, K) == pytest.approx(at_start)
    for kind, norm in ((get_basis(basis).raw(), at_worst), (basis, 1)):
        p = PolynomialFilter(kind, K).double().requires_grad_(False)
        p.theta.copy_(weight_on(K, K))
        assert operator_norm(filter_matrix(p, edge)) == pytest.approx(norm)


@law
@given(laplacians(), st.integers(2, 5))
def test_higher_degrees_leave_first_order_where_there_are_three_frequencies(L, degree):
    lam = spectrum(L)
    distinct = lam[torch.cat([torch.ones(1).bool(), lam.diff() > 0.05])]
    assume(len(distinct) >= 3)
    p = PolynomialFilter("chebyshev1", degree).double().requires_grad_(False)
    p.theta.copy_(weight_on(2, degree))
    assert distance_to_first_order(p, lam, lambda_max(L)) > 1e-5


@law
@given(st.integers(2, 6), seeds)
def test_two_frequencies_are_not_enough(n, seed):
    complete = Topology.from_edge_index(torch.ones(n, n).nonzero().t(), n)
    L = build("identity", complete, d=1, normalization="sheaf")  # eigenvalues 0 and n/(n − 1)
    assert distance_to_first_order(random_mixture(5, seed), spectrum(L)) < 1e-9


@law
@given(laplacians(), st.integers(0, 4), st.sampled_from(BASES), seeds)
def test_blocks_beyond_K_hops_are_exactly_zero(L, K, basis, seed):
    p = PolynomialFilter(basis, K, "free", "high-pass" if K else "none").double().requires_grad_(False)
    p.theta.normal_(generator=torch.Generator().manual_seed(seed))
    assert largest_entry_beyond(p, L, K) == 0


@pytest.mark.parametrize(
    ("extra", "options"),
    [
        (1, {"maps": "diagonal", "normalization": "sheaf-augmented"}),
        (1, {"maps": "general", "normalization": "sheaf"}),
        (1, {"maps": "orthogonal", "edge_weights": True}),
        (0, {"maps": "orthogonal"}),  # its normaliser is constant unless edges have weights
        (0, {"maps": "identity", "normalization": "none"}),
        (0, {"maps": "diagonal", "normalization": "none"}),
        (0, {"maps": "general", "normalization": "degree"}),
    ],
    ids=str,
)
def test_only_a_learned_normalised_sheaf_adds_one_hop(extra, options):
    assert measure_layer_reach(**options) == REACH_DEGREE + extra


def test_one_step_of_neural_sheaf_diffusion_reads_two_hops():
    assert measure_layer_reach(maps="diagonal", filter="diffusion") == 2


TABLE = [  # K, p(0), p(λ_max), G_low, G_high, sign changes of the slope
    (1, 0.0, 1.0, 0.100, 0.900, 0),
    (2, 0.333, 1.0, 0.169, 0.702, 1),
    (3, 0.0, 1.0, 0.183, 0.471, 2),
    (4, 0.200, 1.0, 0.039, 0.269, 3),
    (8, 0.111, 1.0, 0.068, 0.088, 7),
    (16, 0.059, 1.0, 0.031, 0.046, 15),
]


def initial_response(K, lam):
    """p = Σ T_k / (K + 1), the filter that training starts from."""
    return PolynomialFilter("chebyshev1", K).double().response(torch.as_tensor(lam)).detach().numpy()


@pytest.mark.parametrize(("K", "at_0", "at_max", "low", "high", "turns"), TABLE)
def test_training_starts_from_a_high_pass_filter_so_that_the_layer_smooths(K, at_0, at_max, low, high, turns):
    """G_low and G_high are the means of p over the lowest and the highest fifth of [0, λ_max]."""
    midpoints = (np.arange(4000) + 0.5) / 4000 * 0.4
    assert initial_response(K, [0.0, 2.0]) == pytest.approx([at_0, at_max], abs=6e-4)
    assert initial_response(K, midpoints).mean() == pytest.approx(low, abs=6e-4)
    assert initial_response(K, 1.6 + midpoints).mean() == pytest.approx(high, abs=6e-4)
    slope = np.diff(initial_response(K, np.linspace(0, 2, 4000)))
    assert (np.diff(np.sign(slope)) != 0).sum() == turns  # K − 1: as wavy as it can be


@pytest.mark.parametrize("K", [*range(1, 6), 12, 19])
def test_the_initial_response_in_closed_form(K):
    assert initial_response(K, [0.0, 2.0]) == pytest.approx([1 / (K + 1) if K % 2 == 0 else 0.0, 1.0])
    values = initial_response(K, np.linspace(1e-3, 2, 4001))
    assert (np.diff(np.sign(values)) != 0).sum() == K - K % 2
