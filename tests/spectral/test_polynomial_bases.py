"""The basis contract over all families and over bases of one's own."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev as cheb
from scipy import special

from polynsd.errors import ConfigError
from polynsd.spectral import Basis, PolynomialFilter, bases, basis_names, get_basis, register_basis
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


# The tables against scipy.special, against each other, and under their weights


K = 32
ANGLE = np.linspace(0.0, np.pi, 401)
XI = np.cos(ANGLE)
INSIDE = np.linspace(0.01, np.pi - 0.01, 401)  # trigonometric formulas are 0/0 at the ends


def values(spec, xi=XI):
    return get_basis(spec).raw().evaluate(xi, K)


def assert_same(found, expected, tolerance=1e-10):
    """Row k holds the polynomial of degree k; errors are relative to its largest value."""
    errors = np.abs(found - expected).max(axis=1) / np.abs(expected).max(axis=1)
    assert errors.max() <= tolerance


@pytest.mark.parametrize(
    ("spec", "truth"),
    [
        ("chebyshev1", special.eval_chebyt),
        ("chebyshev2", special.eval_chebyu),
        ("legendre", special.eval_legendre),
        ("monomial", lambda k, xi: xi**k),
        *[
            (f"gegenbauer({lam})", lambda k, xi, lam=lam: special.eval_gegenbauer(k, lam, xi))
            for lam in (0.1, 0.3, 0.5, 1.0, 1.5, 4.0)
        ],
        *[
            (f"jacobi({a}, {b})", lambda k, xi, a=a, b=b: special.eval_jacobi(k, a, b, xi))
            for a, b in [
                (0, 0),
                (-0.5, -0.5),
                (0.5, -0.5),
                (1, 0.3),
                (-0.7, -0.6),
                (-0.9, 1.5),
                (-0.25, -0.75),
            ]
        ],
    ],
)
def test_values_against_scipy(spec, truth):
    degrees = np.arange(K + 1.0)[:, None]
    assert_same(values(spec), truth(degrees, XI))


@pytest.mark.parametrize(
    ("spec", "formula"),
    [
        ("chebyshev1", lambda k, t: np.cos(k * t)),
        ("chebyshev2", lambda k, t: np.sin((k + 1) * t) / np.sin(t)),
        ("chebyshev3", lambda k, t: np.cos((k + 0.5) * t) / np.cos(t / 2)),
        ("chebyshev4", lambda k, t: np.sin((k + 0.5) * t) / np.sin(t / 2)),
    ],
)
def test_chebyshev_kinds_by_their_angles(spec, formula):
    assert_same(values(spec, np.cos(INSIDE)), formula(np.arange(K + 1)[:, None], INSIDE))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("jacobi(0, 0)", "legendre"),
        ("gegenbauer(0.5)", "legendre"),
        ("gegenbauer(1)", "chebyshev2"),
        ("chebyshev1", "jacobi(-0.5, -0.5)"),
        ("chebyshev2", "jacobi(0.5, 0.5)"),
        ("chebyshev3", "jacobi(-0.5, 0.5)"),
        ("chebyshev4", "jacobi(0.5, -0.5)"),
        ("gegenbauer(1.5)", "jacobi(1, 1)"),
    ],
)
def test_identities_between_families(one, other):
    """Up to a factor per degree; none is needed once both are normalized."""
    a, b = (get_basis(spec).evaluate(XI, K) for spec in (one, other))
    assert_same(a, b)


@pytest.mark.parametrize("pair", [("jacobi(0, 0)", "legendre"), ("gegenbauer(1)", "chebyshev2")])
def test_identities_that_hold_without_any_factor(pair):
    assert_same(*map(values, pair))


@pytest.mark.parametrize(
    ("spec", "largest"),
    [
        ("chebyshev1", lambda k: 1),
        ("chebyshev2", lambda k: k + 1),
        ("chebyshev3", lambda k: 2 * k + 1),
        ("chebyshev4", lambda k: 2 * k + 1),
        ("legendre", lambda k: 1),
        ("monomial", lambda k: 1),
        ("gegenbauer(1)", lambda k: k + 1),
        ("gegenbauer(1.5)", lambda k: (k + 1) * (k + 2) / 2),
        ("jacobi(0.5, 0)", lambda k: special.binom(k + 0.5, k)),
        ("jacobi(-0.4, 2)", lambda k: special.binom(k + 2, k)),
        ("jacobi(-0.5, -0.8)", lambda k: special.binom(k - 0.5, k)),
    ],
)
def test_largest_values_in_closed_form(spec, largest):
    found = [get_basis(spec).sup_norm(k) for k in range(K + 1)]
    assert found == pytest.approx([largest(k) for k in range(K + 1)], rel=1e-12)


WEIGHTS = {  # exponents of (1 − ξ) and (1 + ξ)
    "chebyshev1": (-0.5, -0.5),
    "chebyshev2": (0.5, 0.5),
    "chebyshev3": (-0.5, 0.5),
    "chebyshev4": (0.5, -0.5),
    "legendre": (0.0, 0.0),
    "gegenbauer(0.3)": (-0.2, -0.2),
    "gegenbauer(1.5)": (1.0, 1.0),
    "jacobi(0.5, -0.3)": (0.5, -0.3),
    "jacobi(-0.7, -0.6)": (-0.7, -0.6),
}


@pytest.mark.parametrize(("spec", "exponents"), WEIGHTS.items())
def test_orthogonality_under_the_weight(spec, exponents):
    xi, weight = special.roots_jacobi(K + 1, *exponents)  # exact up to degree 2K + 1
    B = get_basis(spec).evaluate(xi, K)
    gram = (B * weight) @ B.T
    norm = np.sqrt(np.diag(gram))
    np.testing.assert_allclose(gram / np.outer(norm, norm), np.eye(K + 1), atol=1e-11)


@pytest.mark.parametrize(("spec", "exponents"), WEIGHTS.items())
@pytest.mark.parametrize("count", [1, 2, 17])
def test_nodes_are_the_zeros(spec, exponents, count):
    expected, _ = special.roots_jacobi(count, *exponents)
    np.testing.assert_allclose(get_basis(spec).nodes(count), expected, atol=1e-13)


def test_the_monomial_has_no_distinct_zeros():
    with pytest.raises(ConfigError, match=r"monomial has no distinct real zeros .*use an orthogonal basis"):
        get_basis("monomial").nodes(3)


@pytest.mark.parametrize("spec", [*WEIGHTS, "monomial"])
def test_a_basis_prints_the_name_that_makes_it(spec):
    basis = get_basis(spec)
    assert repr(basis) == spec
    assert repr(basis.raw()) == f"{spec}.raw()"
    assert get_basis(repr(basis.raw())) == basis.raw()
    assert get_basis(basis) is basis
    np.testing.assert_array_equal(get_basis(repr(basis)).evaluate(XI, K), basis.evaluate(XI, K))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("chebychev1", "unknown basis 'chebychev1'.* Did you mean 'chebyshev1'"),
        ("gegenbauer(0)", r"lambda > 0; got 0\.0"),
        ("gegenbauer(-1)", r"lambda > 0; got -1\.0"),
        ("gegenbauer(nan)", "lambda > 0; got nan"),
        ("gegenbauer(inf)", "got inf"),
        ("jacobi(-1, 0)", r"alpha > -1 and beta > -1; got alpha=-1\.0, beta=0\.0"),
        ("jacobi(0, -1.5)", r"beta=-1\.5"),
        ("jacobi(0, inf)", "beta=inf"),
        ("jacobi(0.5)", "does not take the arguments"),
        ("gegenbauer", "does not take the arguments"),
        ("legendre(1)", "does not take the arguments"),
        ("jacobi(a, b)", "does not take the arguments"),
        ("legendre)", "expected a name such as 'legendre'"),
    ],
)
def test_bad_names_and_arguments(spec, text):
    with pytest.raises(ConfigError, match=text):
        get_basis(spec)


def test_registered_bases_can_be_named(monkeypatch):
    monkeypatch.setattr(bases, "_families", dict(bases._families))
    register_basis("scaled", lambda factor: Basis(f"scaled({factor})", lambda k: (factor, 0.0, 0.0)))
    assert "scaled" in basis_names()
    np.testing.assert_allclose(values("scaled(2)")[5], (2 * XI) ** 5)
    with pytest.raises(ConfigError, match="a basis named 'legendre' exists already"):
        register_basis("legendre", bases.legendre)
