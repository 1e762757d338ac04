"""The reversible backward pass against autograd through each basis's own recurrence."""

import pytest
import torch
from torch.func import functional_call

from polynsd import kernels
from polynsd.sheaf import SheafLaplacian
from polynsd.spectral import PolynomialFilter, get_basis
from polynsd.testing import (
    TOLERANCE,
    assert_close,
    assert_same_gradients,
    example_graph,
    random_maps,
    random_sheaf,
    random_tensor,
)

TOPOLOGY = example_graph("complete")
BASES = [
    "chebyshev1", "chebyshev2", "chebyshev3", "chebyshev4", "legendre",
    "gegenbauer(0.3)", "gegenbauer(1)", "gegenbauer(1.5)",
    "jacobi(0, 0)", "jacobi(0.5, -0.5)", "jacobi(2, 1)", "jacobi(-0.9, 1.5)", "jacobi(-0.7, -0.6)",
    "monomial",
]  # fmt: skip
DEGREES = [0, 1, 2, 3, 8, 16, 32]
every_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
every_degree = pytest.mark.parametrize("degree", DEGREES)


def inputs(degree, dtype):
    return {
        "theta": random_tensor(degree + 1, seed=1, dtype=dtype),
        "alpha": random_tensor(1, seed=2, dtype=dtype)[0],
        "maps": random_maps("general", TOPOLOGY, 2, dtype=dtype),
        "x": random_tensor(5, 2, 3, seed=3, dtype=dtype),
    }


@every_dtype
@every_degree
@pytest.mark.parametrize("basis", BASES)
def test_filter_against_the_recurrence_of_its_basis(basis, degree, dtype):
    module = PolynomialFilter(basis, degree, "free", "linear").to(dtype)
    terms = get_basis(basis).polynomials

    def filtered(theta, alpha, maps, x):
        L = SheafLaplacian(TOPOLOGY, maps)
        return functional_call(module, {"theta": theta, "alpha": alpha}, (L, x))

    def truth(theta, alpha, maps, x):
        L = SheafLaplacian(TOPOLOGY, maps)
        mixture = sum(theta[k] * term for k, term in enumerate(terms(lambda t: L @ t - t, x, degree)))
        return mixture + alpha * (x - L @ x / 2)

    values = inputs(degree, dtype)
    exact = truth(*(value.double() for value in values.values()))
    assert_close(filtered(*values.values()), exact, "filter")
    assert_same_gradients(filtered, truth, values)


@every_dtype
@every_degree
@pytest.mark.parametrize("family", ["identity", "diagonal", "orthogonal", "general"])
def test_reversible_gradients_are_those_of_autograd(family, degree, dtype):
    A = random_sheaf("isolated nodes", family, 3, "sheaf-augmented", dtype=dtype).laplacian().blocks

    def using(function):
        return lambda x, phi, diag, off: function(A._replace(diag=diag, off=off), phi, x, 1.0)

    assert_same_gradients(
        using(kernels.chebyshev_filter),
        using(kernels.chebyshev_filter_autograd),
        {
            "x": random_tensor(8, 3, 2, seed=1, dtype=dtype),
            "phi": random_tensor(degree + 1, seed=2, dtype=dtype),
            "diag": A.diag,
            "off": A.off,
        },
    )


def test_a_filter_leaves_its_inputs_alone():
    A = random_sheaf("path", "general", 2, "sheaf").laplacian().blocks
    for degree in (0, 1, 2, 5):
        x, phi = random_tensor(5, 2, 3), random_tensor(degree + 1)
        y = kernels.chebyshev_filter(A, phi, x, 1.0)
        y += 1.0
        assert torch.equal(x, random_tensor(5, 2, 3))
        assert torch.equal(phi, random_tensor(degree + 1))
