"""The basis contract over all families and over bases of one's own."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev as cheb

from polynsd.errors import ConfigError
from polynsd.spectral import Basis, PolynomialFilter, get_basis
from polynsd.spectral.bases import sup_norm
from polynsd.testing import check_basis

HERMITE = Basis("hermite", lambda k: (2.0, 0.0, 2.0 * k))
exponents = st.floats(-0.95, 3.0)


@pytest.mark.parametrize(
    "basis",
    [
        *map(get_basis, ("chebyshev1", "chebyshev2", "chebyshev3", "chebyshev4", "legendre", "monomial")),
        *[get_basis(f"gegenbauer({lam})") for lam in (0.3, 1, 1.5)],
        *[
            get_basis(f"jacobi({a}, {b})")
            for a, b in [(0, 0), (-0.5, 0.5), (2, 1), (-0.7, -0.6), (-0.51, -0.9)]
        ],
        HERMITE,
        Basis("shifted", lambda k: (1.0, 0.5, 0.25)),
    ],
    ids=str,
)
@pytest.mark.parametrize("degree", [0, 1, 2, 16])
def test_contract(basis, degree):
    check_basis(basis, degree)


@settings(max_examples=40, deadline=None)
@given(exponents, exponents)
def test_contract_of_every_jacobi_basis(alpha, beta):
    check_basis(get_basis(f"jacobi({alpha}, {beta})"), 12)


def test_a_basis_of_ones_own_is_its_recurrence():
    """H_0 … H_3 of the physicists."""
    xi = np.linspace(-1, 1, 9)
    expected = [np.ones_like(xi), 2 * xi, 4 * xi**2 - 2, 8 * xi**3 - 12 * xi]
    np.testing.assert_allclose(HERMITE.raw().evaluate(xi, 3), expected, atol=1e-14)
    assert [HERMITE.sup_norm(k) for k in range(4)] == pytest.approx([1, 2, 2, 8 / 2**0.5])


@pytest.mark.parametrize(
    ("basis", "text"),
    [
        (Basis("low", lambda k: (2.0, 0.0, 1.0), sup=lambda k: 1.0), "sup_norm"),
        (Basis("high", lambda k: (1.0, 0.0, 0.0), sup=lambda k: 1.0 + 1e-6), "sup_norm"),
    ],
    ids=str,
)
def test_the_contract_refuses_a_wrong_maximum(basis, text):
    with pytest.raises(AssertionError, match=text):
        check_basis(basis, 4)


def test_evaluation_keeps_the_shape_of_its_argument():
    assert get_basis("legendre").evaluate(np.zeros((2, 3)), 4).shape == (5, 2, 3)
    assert get_basis("legendre").evaluate(np.array(1.0), 4).tolist() == pytest.approx([1.0] * 5)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-3, 3).map(lambda value: round(value, 6)), min_size=1, max_size=9))
def test_largest_value_of_any_series(coefficients):
    series = np.array(coefficients)
    on_grid = np.abs(cheb.chebval(np.cos(np.linspace(0, np.pi, 2001)), series)).max()
    # the grid misses a maximum by at most n² h²/8 of the largest value (Bernstein)
    assert on_grid * (1 - 1e-12) <= sup_norm(series) <= on_grid * (1 + 1e-4)


@pytest.mark.parametrize("method", ["evaluate", "to_chebyshev", "nodes"])
def test_bad_degrees(method):
    basis = get_basis("legendre")
    arguments = (np.zeros(1), -1) if method == "evaluate" else (-1,)
    with pytest.raises(ConfigError, match="must be an integer of at least"):
        getattr(basis, method)(*arguments)


def test_models_with_bases_can_be_pickled_and_copied():
    for spec in ("legendre", "jacobi(0.5, 0.0)"):
        module = PolynomialFilter(spec, 3)
        assert pickle.loads(pickle.dumps(module)).basis == module.basis
    assert pickle.loads(pickle.dumps(get_basis("chebyshev2").raw())) == get_basis("chebyshev2").raw()
    mine = Basis("hermite-of-mine", lambda k: (2.0, 0.0, 2.0 * k))
    assert copy.deepcopy(PolynomialFilter(mine, 3)).basis is mine


def test_bases_that_could_not_be_brought_back_are_not_pickled():
    for stranger in (
        Basis("of-mine", lambda k: (2.0, 0.0, 2.0 * k)),
        Basis("legendre", lambda k: (1.0, 0.0, 0.0)),
    ):
        with pytest.raises(pickle.PicklingError, match="not registered"):
            pickle.dumps(stranger)
