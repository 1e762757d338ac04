"""Orthogonal parametrisations against their textbook formulas."""

import math

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from polynsd.kernels.ops.householder import householder_product
from polynsd.sheaf.orthogonal import METHODS, cayley, euler, householder, matrix_exp
from polynsd.testing import TOLERANCE, assert_close, assert_orthogonal, random_tensor
from polynsd.testing.strategies import raw_parameters

MEMBERS = [(name, d) for name, method in METHODS.items() for d in range(2, 6) if d in method.dimensions]
every_member = pytest.mark.parametrize(("name", "d"), MEMBERS)


def params(d, seed=0, **options):
    return random_tensor(4, d * (d - 1) // 2, seed=seed, **options)


def lower_triangle(numbers, d):
    matrix = np.zeros((d, d))
    matrix[np.tril_indices(d, -1)] = numbers
    return matrix


def reflections(numbers, d):
    columns = (lower_triangle(numbers, d) + np.eye(d)).T
    return np.linalg.multi_dot([np.eye(d) - 2 * np.outer(v, v) / (v @ v) for v in columns])


def cayley_transform(numbers, d):
    A = lower_triangle(numbers, d) - lower_triangle(numbers, d).T
    return np.linalg.inv(np.eye(d) - A / 2) @ (np.eye(d) + A / 2)


def exponential(numbers, d):
    return scipy.linalg.expm(lower_triangle(numbers, d) - lower_triangle(numbers, d).T)


@pytest.mark.parametrize("d", [2, 3, 4, 5])
@pytest.mark.parametrize(
    ("method", "formula"),
    [(householder, reflections), (cayley, cayley_transform), (matrix_exp, exponential)],
)
def test_formula(method, formula, d):
    raw = params(d)
    expected = np.stack([formula(numbers, d) for numbers in raw.numpy()])
    np.testing.assert_allclose(method(raw, d).numpy(), expected, atol=1e-12)


def test_euler_angles_count_full_turns():
    turns = params(3)
    expected = Rotation.from_euler("ZYX", 2 * math.pi * turns.numpy()).as_matrix()
    np.testing.assert_allclose(euler(turns, 3).numpy(), expected, atol=1e-12)
    quarter = euler(torch.tensor([[0.25]], dtype=torch.float64), 2)
    np.testing.assert_allclose(quarter[0].numpy(), [[0.0, -1.0], [1.0, 0.0]], atol=1e-15)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@every_member
def test_orthogonality_in_every_dtype(name, d, dtype):
    assert_orthogonal(METHODS[name].build(params(d, dtype=dtype), d), d)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(MEMBERS).flatmap(
        lambda m: st.tuples(st.just(m), raw_parameters(m[1] * (m[1] - 1) // 2, largest=20.0))
    )
)
def test_orthogonality_for_any_numbers(sample):
    (name, d), raw = sample
    assert_orthogonal(METHODS[name].build(raw, d), d)


@every_member
def test_component_of_the_orthogonal_group(name, d):
    sign = (-1.0) ** d if name == "householder" else 1.0
    determinants = torch.linalg.det(METHODS[name].build(params(d), d))
    torch.testing.assert_close(determinants, torch.full_like(determinants, sign))


@every_member
def test_zero_parameters(name, d):
    Q = METHODS[name].build(torch.zeros(1, d * (d - 1) // 2, dtype=torch.float64), d)
    sign = -1.0 if name == "householder" else 1.0
    torch.testing.assert_close(Q[0], sign * torch.eye(d, dtype=torch.float64))


@every_member
def test_transport_between_neighbours_is_a_rotation(name, d):
    Q = METHODS[name].build(params(d), d)
    P = METHODS[name].build(params(d, seed=1), d)
    determinants = torch.linalg.det(Q.mT @ P)
    torch.testing.assert_close(determinants, torch.ones_like(determinants))


@pytest.mark.parametrize("d", [2, 4, 9])
def test_the_operation_is_the_formula_with_its_gradients(d):
    params, G = random_tensor(2, 5, d * (d - 1) // 2), random_tensor(2, 5, d, d, seed=1)

    def derivatives(build):
        leaf = params.clone().requires_grad_()
        Q = build(leaf, d)
        (first,) = torch.autograd.grad((Q * G).square().sum(), leaf, create_graph=True)
        return Q, first, *torch.autograd.grad(first.square().sum(), leaf)

    for found, expected in zip(derivatives(householder_product), derivatives(householder), strict=True):
        assert_close(found, expected, "Q and its derivatives", 1e-11)
