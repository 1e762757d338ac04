"""Contract of a polynomial basis on [−1, 1]."""

import numpy as np
from numpy.polynomial import chebyshev as cheb
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from polynsd.spectral.bases import Basis

Array = NDArray[np.float64]

TOLERANCE = 1e-10  # relative to the largest value of the polynomial
GRID: Array = np.cos(np.linspace(0.0, np.pi, 4001))  # both end points, denser towards them


def check_basis(basis: Basis, degree: int = 16) -> None:
    """One evaluator for numbers, operators and series; a true maximum; normalized within [−1, 1]."""
    for version in (basis, basis.raw()):
        assert_evaluators_agree(version, degree)
    assert_sup_is_attained(basis, degree)
    largest = np.abs(basis.evaluate(GRID, degree)).max()
    assert largest <= 1 + TOLERANCE, f"normalized {basis} reaches {largest}"


def assert_evaluators_agree(basis: Basis, degree: int) -> None:
    """B_k of numbers, of a symmetric matrix and as a Chebyshev series are the same polynomial."""
    at_grid = basis.evaluate(GRID, degree)
    scale = np.abs(at_grid).max(axis=1)
    series = cheb.chebval(GRID, basis.to_chebyshev(degree))
    _assert_small(np.abs(series - at_grid).max(axis=1) / scale, f"{basis}: to_chebyshev")
    matrix, values, vectors = _symmetric_matrix()
    start = vectors @ np.ones(len(values))
    of_matrix = np.stack(list(basis.polynomials(lambda t: matrix @ t, start, degree)))
    of_values = basis.evaluate(values, degree) @ vectors.T  # B_k(A) Σ_i q_i = Σ_i B_k(λ_i) q_i
    _assert_small(np.abs(of_matrix - of_values).max(axis=1) / scale, f"{basis}: on an operator")


def assert_sup_is_attained(basis: Basis, degree: int) -> None:
    """`sup_norm(k)` is the maximum of |B_k|: reached, and never exceeded."""
    values = np.abs(basis.raw().evaluate(GRID, degree))
    actual = np.array([_refined_maximum(basis, k, values[k]) for k in range(degree + 1)])
    stated = np.array([basis.sup_norm(k) for k in range(degree + 1)])
    _assert_small(np.abs(actual - stated) / stated, f"{basis}: sup_norm")


def _refined_maximum(basis: Basis, k: int, values: Array) -> float:
    """The largest grid value, climbed to the top of its hill when that lies inside."""
    best = int(values.argmax())
    if best in (0, len(GRID) - 1):
        return float(values[best])
    climbed = minimize_scalar(
        lambda xi: -abs(float(basis.raw().evaluate(np.array(xi), k)[-1])),
        bounds=(GRID[best + 1], GRID[best - 1]),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return max(float(values[best]), float(-climbed.fun))


def _symmetric_matrix(size: int = 8) -> tuple[Array, Array, Array]:
    """A symmetric matrix with spectrum in [−1, 1], its eigenvalues and its eigenvectors."""
    values = np.linspace(-1.0, 1.0, size)
    vectors, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(size, size)))
    return (vectors * values) @ vectors.T, values, np.asarray(vectors)


def _assert_small(errors: Array, what: str) -> None:
    k = int(np.argmax(errors))
    assert bool((errors <= TOLERANCE).all()), f"{what}: error {errors[k]:.2e} at degree {k}"
