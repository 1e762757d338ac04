"""Inverse square roots: the right value, and a gradient that stays bounded where eigenvalues meet."""

import numpy as np
import pytest
import scipy.linalg
import torch
from torch.autograd import gradcheck, gradgradcheck

from polynsd.sheaf.inverse_sqrt import inverse_sqrt, lyapunov
from polynsd.testing import TOLERANCE, assert_close, random_tensor
from polynsd.testing.dense import inverse_root


def rotated(values):
    """A symmetric matrix with the given eigenvalues."""
    Q, _ = torch.linalg.qr(random_tensor(len(values), len(values), seed=len(values)))
    return (Q * torch.tensor(values, dtype=torch.float64)) @ Q.mT


def random_spd(d, *lead):
    B = random_tensor(*lead, d, d, seed=d)
    return B @ B.mT + 0.3 * torch.eye(d, dtype=torch.float64)


def symmetric(A):
    return (A + A.mT) / 2


def root(A):
    """Finite differences leave the symmetric matrices; the symmetric part brings them back."""
    return inverse_sqrt(symmetric(A))


MATRICES = {
    "I": torch.eye(3, dtype=torch.float64),
    "4 I": 4 * torch.eye(2, dtype=torch.float64),
    "two equal eigenvalues": rotated([2.0, 2.0, 5.0]),
    "nearly equal eigenvalues": rotated([2.0, 2.0 + 1e-9, 2.0 - 1e-13]),
    "random": random_spd(4),
    "a stack": random_spd(2, 3),
    "d = 1": torch.tensor([[0.7]], dtype=torch.float64),
}
every_matrix = pytest.mark.parametrize("A", MATRICES.values(), ids=MATRICES)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
def test_value_against_scipy(d, dtype):
    A = random_spd(d, 4)
    expected = np.stack([scipy.linalg.inv(scipy.linalg.sqrtm(matrix)) for matrix in A.numpy()])
    assert_close(inverse_sqrt(A.to(dtype)), torch.as_tensor(expected), "inverse_sqrt")
    assert_close(inverse_root(A), torch.as_tensor(expected), "the oracle of the dense truth")


@every_matrix
def test_first_and_second_derivatives(A):
    A = A.clone().requires_grad_()
    assert gradcheck(root, A)
    assert gradgradcheck(root, A)


@every_matrix
def test_gradient_is_bounded_by_the_smallest_eigenvalue(A):
    """‖∂A‖ ≤ ½ λ_min^{−3/2} ‖g‖, whatever the gaps between eigenvalues."""
    A = A.clone().requires_grad_()
    g = random_tensor(*A.shape, seed=3)
    (gradient,) = torch.autograd.grad(inverse_sqrt(A), A, g)
    smallest = torch.linalg.eigvalsh(A.detach())[..., 0]
    limit = 0.5 * smallest.pow(-1.5) * torch.linalg.matrix_norm(g)
    assert (torch.linalg.matrix_norm(gradient) <= limit * (1 + 1e-12)).all()


def test_gradient_at_the_identity_is_minus_one_half():
    A, g = torch.eye(3, dtype=torch.float64, requires_grad=True), random_tensor(3, 3)
    (gradient,) = torch.autograd.grad(inverse_sqrt(A), A, g)
    assert_close(gradient, -symmetric(g) / 2, "gradient at I")


def test_differentiating_an_eigendecomposition_fails_at_the_identity():
    """The reason for the Lyapunov equation."""
    A = torch.eye(3, dtype=torch.float64, requires_grad=True)
    values, Q = torch.linalg.eigh(A)
    (gradient,) = torch.autograd.grad((Q * values.rsqrt()) @ Q.mT, A, random_tensor(3, 3))
    assert not gradient.isfinite().all()


@every_matrix
def test_lyapunov_solves_its_equation(A):
    X = random_tensor(*A.shape, seed=4)
    Y = lyapunov(A, X)
    assert_close(A @ Y + Y @ A, X, "S Y + Y S")


@every_matrix
def test_derivatives_of_the_lyapunov_solution(A):
    inputs = (A.clone().requires_grad_(), random_tensor(*A.shape, seed=4).requires_grad_())
    assert gradcheck(lambda S, X: lyapunov(symmetric(S), X), inputs)
    assert gradgradcheck(lambda S, X: lyapunov(symmetric(S), X), inputs)
