"""Operators similar to a symmetric one: flat sheaves and random walks, against their definitions."""

import pytest
import torch

from polynsd import SheafLaplacian
from polynsd.kernels.ops import blocks, edges
from polynsd.sheaf import Conformal, SimilarLaplacian
from polynsd.spectral import PolynomialFilter
from polynsd.testing import assert_close, example_graph, random_tensor

D, C = 3, 2


def flat_and_on_edges(name="isolated nodes", normalization="sheaf-augmented", d=D, lead=()):
    """The flat operator of maps on nodes, and the same maps put on the half-edges."""
    topology, family = example_graph(name), Conformal()
    raw = 0.5 * random_tensor(*lead, topology.num_nodes, family.num_params(d), seed=3)
    scale, rotation = family.split(raw, d)
    weight = random_tensor(topology.num_half_edges, seed=4).square() + 0.1
    weight = weight + weight[topology.twin]
    plain = SheafLaplacian(
        topology, edges.at_rows(scale, topology.pattern), normalization, edge_weight=weight, stalk_dim=d
    )
    maps = edges.at_rows(family.build(raw, d), topology.pattern)
    on_edges = SheafLaplacian(topology, maps, normalization, edge_weight=weight, orthogonal_columns=True)
    return SimilarLaplacian(plain, rotation), on_edges


@pytest.mark.parametrize("normalization", ["none", "sheaf", "sheaf-augmented", "degree"])
def test_a_flat_sheaf_is_that_of_the_same_maps_on_edges(normalization):
    flat, on_edges = flat_and_on_edges(normalization=normalization)
    assert_close(flat.to_dense(), on_edges.to_dense(), "L")
    assert_close(flat.diagonal_blocks, on_edges.diagonal_blocks, "diagonal blocks")
    x = random_tensor(flat.topology.num_nodes, D, C)
    assert_close(flat @ x, on_edges @ x, "L x")
    assert_close(flat.energy(x), on_edges.energy(x), "energy")
    assert torch.as_tensor(flat.lambda_max()).max() <= torch.as_tensor(on_edges.lambda_max()).max() * (
        1 + 1e-9
    )
    assert flat.is_symmetric


@pytest.mark.parametrize("lead", [(), (2,)])
def test_its_filter_and_gradients_are_those_on_edges(lead):
    x = random_tensor(*lead, flat_and_on_edges()[0].topology.num_nodes, D, C).requires_grad_()
    module = PolynomialFilter("legendre", 4, "free", "linear").double()
    results = [module(L, x) for L in flat_and_on_edges(lead=lead)]
    assert_close(*results, "p(L) x")
    grads = [torch.autograd.grad(y.pow(3).sum(), [x, *module.parameters()]) for y in results]
    for mine, right in zip(*grads, strict=True):
        assert_close(mine, right, "gradient")


def test_gradients_reach_the_rotations():
    flat, _ = flat_and_on_edges("path", d=2)
    P = flat.P.detach().requires_grad_()
    x = random_tensor(flat.topology.num_nodes, 2, 1)
    module = PolynomialFilter(degree=3, coefficients="free").double()
    assert torch.autograd.gradcheck(lambda P: module(SimilarLaplacian(flat.base, P), x), P)


def test_a_random_walk_divides_by_degrees():
    _, L = flat_and_on_edges(normalization="sheaf-augmented")
    S = L.node_scale
    walk = SimilarLaplacian(L, 1 / S, S)
    N = L.topology.num_nodes
    bare = SheafLaplacian(L.topology, L.maps, "none", edge_weight=L.edge_weight, orthogonal_columns=True)
    degree = torch.block_diag(*bare.diagonal_blocks) + torch.eye(N * D, dtype=torch.float64)
    assert_close(walk.to_dense(), torch.linalg.solve(degree, bare.to_dense()), "(D + I)⁻¹ L")
    x, module = random_tensor(N, D, C), PolynomialFilter(degree=3, coefficients="free").double()
    dense = walk.to_dense() - torch.eye(N * D, dtype=torch.float64)
    powers = [torch.eye(N * D, dtype=torch.float64), dense]
    for _ in range(2):
        powers.append(2 * dense @ powers[-1] - powers[-2])
    phi = module.chebyshev_coefficients()
    expected = sum(p * T for p, T in zip(phi, powers, strict=True)) @ x.flatten(0, 1)
    assert_close(module(walk, x), expected.reshape(N, D, C), "p(L) x")
    assert not walk.is_symmetric
    assert blocks.is_elementwise(S)
