"""Which orthogonal matrices the parametrisations reach, and that transport is always a rotation.

The paper says F ∈ O(d). Householder products of d reflections have determinant (−1)^d and equal −I
at zero; Cayley's transform has no eigenvalue −1; so F_vᵀF_u ∈ SO(d) whatever is learned.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_sheaves import close, law, random_maps, seeds

from polynsd.sheaf.orthogonal import METHODS
from polynsd.testing import random_tensor
from polynsd_paper.claims.samples import path

dimensions = st.integers(2, 6)


@law
@given(st.sampled_from(["householder", "cayley", "matrix_exp", "euler"]), dimensions, seeds)
def test_maps_are_orthogonal_with_the_determinant_of_their_component(method, d, seed):
    d = min(d, 3) if method == "euler" else d
    Q = METHODS[method].build(random_tensor(8, d * (d - 1) // 2, seed=seed), d)
    determinant = (-1.0) ** d if method == "householder" else 1.0
    assert close(Q.mT @ Q, torch.eye(d).double().expand_as(Q))
    assert close(torch.linalg.det(Q), torch.full((8,), determinant).double())


@pytest.mark.parametrize("d", range(2, 7))
def test_zero_parameters_give_minus_identity_or_identity(d):
    zero = torch.zeros(d * (d - 1) // 2).double()
    eye = torch.eye(d).double()
    assert close(METHODS["householder"].build(zero, d), -eye)
    assert close(METHODS["cayley"].build(zero, d), eye)
    assert close(METHODS["matrix_exp"].build(zero, d), eye)


@law
@given(dimensions, seeds)
def test_householder_is_a_product_of_d_reflections_the_last_of_them_fixed(d, seed):
    parameters = random_tensor(d * (d - 1) // 2, seed=seed)
    V = torch.eye(d).double()
    V[tuple(torch.tril_indices(d, d, -1))] = parameters
    Q = torch.eye(d).double()
    for v in V.mT:
        Q = Q @ (torch.eye(d).double() - 2 * torch.outer(v, v) / v.dot(v))
    assert close(METHODS["householder"].build(parameters, d), Q)
    assert close(V[:, -1], torch.eye(d).double()[-1])


@law
@given(dimensions, seeds)
def test_cayley_never_has_the_eigenvalue_minus_one(d, seed):
    parameters = random_tensor(d * (d - 1) // 2, seed=seed)
    half = torch.zeros(d, d).double()
    half[tuple(torch.tril_indices(d, d, -1))] = parameters / 2
    half = half - half.mT
    shifted = METHODS["cayley"].build(parameters, d) + torch.eye(d)
    # I + Q = 2 (I − A/2)^{−1} is invertible, whatever the skew A
    assert close(shifted @ (torch.eye(d).double() - half), 2 * torch.eye(d).double())


@law
@given(st.sampled_from(["householder", "cayley", "matrix_exp"]), st.integers(2, 5), seeds)
def test_transport_along_an_edge_is_a_rotation(method, d, seed):
    edges = path(6)
    F = random_maps(f"orthogonal({method})", edges, d, seed)
    transport = F.mT @ F[edges.twin]
    assert close(torch.linalg.det(transport), torch.ones(edges.num_half_edges).double())
