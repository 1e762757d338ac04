"""The Jacobi recurrence as printed is not that of the Jacobi polynomials.

The printed A_k, B_k, C_k belong to ξ P_k = A_k P_{k+1} + B_k P_k + C_k P_{k−1}; used as
P_{k+1} = A_k ξ P_k + B_k P_k − C_k P_{k−1} they generate something else, which is not even
orthogonal. Solved for P_{k+1} they are right.
"""

import numpy as np
import pytest
from scipy.special import eval_jacobi, eval_legendre

from polynsd import get_basis

XI = np.linspace(-1, 1, 2001)
EXPONENTS = [(0.0, 0.0), (0.5, -0.5), (-0.5, -0.5), (1.0, 0.5), (-0.7, 2.0)]


def printed_row(k, alpha, beta):
    s = alpha + beta
    n = 2 * k + s
    return (
        2 * (k + 1) * (k + s + 1) / ((n + 1) * (n + 2)),
        (beta**2 - alpha**2) / (n * (n + 2)),
        2 * (k + alpha) * (k + beta) / (n * (n + 1)),
    )


def as_printed(degree):
    """B_0, …, B_degree of the printed recurrence with α = β = 0."""
    values = [np.ones_like(XI), XI]
    for k in range(1, degree):
        A, B, C = printed_row(k, 0.0, 0.0)
        values.append(A * XI * values[k] + B * values[k] - C * values[k - 1])
    return values


@pytest.mark.parametrize(("alpha", "beta"), EXPONENTS)
def test_the_coefficients_belong_to_the_product_with_xi(alpha, beta):
    P = [eval_jacobi(k, alpha, beta, XI) for k in range(9)]
    for k in range(1, 8):
        A, B, C = printed_row(k, alpha, beta)
        assert np.allclose(XI * P[k], A * P[k + 1] + B * P[k] + C * P[k - 1], atol=1e-12)


@pytest.mark.parametrize(("alpha", "beta"), EXPONENTS)
def test_the_basis_is_the_classical_one(alpha, beta):
    ours = get_basis(f"jacobi({alpha}, {beta})").raw().evaluate(XI, 8)
    assert np.allclose(ours, [eval_jacobi(k, alpha, beta, XI) for k in range(9)], atol=1e-10)


def test_the_printed_recurrence_is_neither_legendre_nor_orthogonal_nor_of_constant_size():
    printed = as_printed(6)
    errors = [np.abs(printed[k] - eval_legendre(k, XI)).max() for k in (2, 4)]
    assert errors == pytest.approx([0.67, 1.26], abs=0.005)
    assert np.trapezoid(printed[2], XI) == pytest.approx(-0.22, abs=0.005)
    assert np.abs(printed[6]).max() == pytest.approx(0.10, abs=0.005)
