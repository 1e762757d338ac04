"""Polynomial bases on [−1, 1] as tables of three-term recurrences.

    B_0 = 1,   B_{k+1}(ξ) = (a_k ξ + b_k) B_k(ξ) − c_k B_{k−1}(ξ),   c_0 = 0.

A basis is its table (a_k, b_k, c_k) and the largest value M_k = max |B_k| on [−1, 1]; one evaluator
serves all. `normalized` bases use B_k / M_k. That is the default, because only then does a convex
mixture Σ θ_k B_k stay within [−1, 1] for every family, so that the filter p(L̃) is nonexpansive:
raw U, V and W reach k + 1, 2k + 1 and 2k + 1.

Filters never run these recurrences on a graph. They change to the Chebyshev basis T_k once
(`Basis.to_chebyshev`, a small matrix), where the recurrence is reversible and perfectly
conditioned.

Eight classical families are registered by name. A basis of your own takes a few lines::

    hermite = Basis("hermite", lambda k: (2.0, 0.0, 2.0 * k))
    PolynomialFilter(hermite, degree=8)
    register_basis("hermite", lambda: hermite)  # now "hermite" can be named anywhere
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pickle import PicklingError
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev as cheb
from numpy.typing import NDArray
from scipy.special import binom

from polynsd.errors import ConfigError, require_at_least
from polynsd.spec import parse_spec, resolve

Row = tuple[float, float, float]  # a_k, b_k, c_k
RAW = ".raw()"  # behind the name of a basis that is not normalized


@dataclass(frozen=True)
class Basis:
    """A family of polynomials B_k of degree k.

    Args:
        name: how the basis prints, e.g. `jacobi(0.5, 0.0)`.
        recurrence: k ↦ (a_k, b_k, c_k) for the raw polynomials.
        sup: k ↦ max |B_k| on [−1, 1] of the raw polynomials; computed when not given.
        normalized: divide B_k by that maximum.
    """

    name: str
    recurrence: Callable[[int], Row]
    sup: Callable[[int], float] | None = None
    normalized: bool = True

    def raw(self) -> Basis:
        """The same basis in its textbook scaling."""
        return replace(self, normalized=False)

    def sup_norm(self, degree: int) -> float:
        """Max |B_degree| on [−1, 1] of the raw polynomial."""
        return _sup_norm(replace(self, normalized=True), degree)

    def polynomials(self, times_xi: Callable[[Any], Any], one: Any, degree: int) -> Iterator[Any]:
        """B_0, …, B_degree, given what multiplication by ξ means and what 1 is.

        The same evaluator serves numbers (`lambda t: xi * t`), operators (`lambda t: L @ t`) and
        coefficient vectors.
        """
        require_at_least("degree", degree, 0)
        for k, polynomial in enumerate(_recur(self.recurrence, times_xi, one, degree)):
            yield polynomial / self.sup_norm(k) if self.normalized else polynomial

    def evaluate(self, xi: NDArray[np.float64], degree: int) -> NDArray[np.float64]:
        """[degree + 1, ...] values at ξ."""
        xi = np.asarray(xi, dtype=np.float64)
        return np.stack(list(self.polynomials(lambda t: xi * t, np.ones_like(xi), degree)))

    def to_chebyshev(self, degree: int) -> NDArray[np.float64]:
        """M `[K + 1, K + 1]` with B_k = Σ_j M_{jk} T_j."""
        return np.stack(list(self.polynomials(_times_xi, _unit(degree), degree)), axis=1)

    def nodes(self, count: int) -> NDArray[np.float64]:
        """The zeros of B_count, ascending: where interpolation is well conditioned."""
        require_at_least("count", count, 1)
        a, b, c = np.array([self.recurrence(k) for k in range(count)]).T
        coupling = c[1:] / (a[1:] * a[:-1])  # Golub–Welsch: the symmetric Jacobi matrix of the recurrence
        if (coupling <= 0).any():
            raise ConfigError(
                f"{self.name} has no distinct real zeros to interpolate at; use an orthogonal basis "
                "such as 'chebyshev1', or coefficients='free'."
            )
        off = np.sqrt(coupling)
        return np.linalg.eigvalsh(np.diag(-b / a) + np.diag(off, 1) + np.diag(off, -1))

    def __repr__(self) -> str:
        return self.name if self.normalized else f"{self.name}{RAW}"

    def __deepcopy__(self, memo: object) -> Basis:
        return self  # immutable

    def __reduce__(self) -> tuple[Callable[..., Basis], tuple[str, bool]]:
        """Pickles the name: tables are functions, which only the register can bring back."""
        if not _is_registered(self):
            raise PicklingError(f"the basis {self.name} is not registered; call register_basis first.")
        return _by_name, (self.name, self.normalized)


def _is_registered(basis: Basis) -> bool:
    try:
        registered = _by_name(basis.name, basis.normalized)
    except ConfigError:
        return False
    return all(registered.recurrence(k) == basis.recurrence(k) for k in range(4))


def _by_name(name: str, normalized: bool) -> Basis:
    return replace(get_basis(name), normalized=normalized)


def _recur(
    recurrence: Callable[[int], Row], times_xi: Callable[[Any], Any], one: Any, degree: int
) -> Iterator[Any]:
    previous, current = one, one
    yield current
    for k in range(degree):
        a, b, c = recurrence(k)
        following = a * times_xi(current) + b * current
        if k:
            following = following - c * previous
        previous, current = current, following
        yield current


def _unit(degree: int) -> NDArray[np.float64]:
    return np.eye(1, degree + 1)[0]


def _times_xi(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Multiplies a Chebyshev series by ξ: ξ T_0 = T_1 and ξ T_j = (T_{j+1} + T_{j−1}) / 2.

    The length stays the same; the caller has left room at the end.
    """
    product = np.zeros_like(series)
    product[1] = series[0]
    product[2:] = series[1:-1] / 2
    product[:-1] += series[1:] / 2
    return product


@lru_cache(maxsize=4096)
def _sup_norm(basis: Basis, degree: int) -> float:
    if basis.sup is not None:
        return float(basis.sup(degree))
    series = list(_recur(basis.recurrence, _times_xi, _unit(degree), degree))[-1]
    return sup_norm(series)


def sup_norm(series: NDArray[np.float64]) -> float:
    """Max |p| on [−1, 1] of a Chebyshev series: at an end point or where p′ vanishes."""
    series = np.asarray(cheb.chebtrim(series, np.abs(series).max() * np.finfo(np.float64).eps))
    stationary = cheb.chebroots(cheb.chebder(series)) if len(series) > 2 else np.empty(0)
    inside = np.real(stationary[np.abs(np.real(stationary)) < 1.0])
    return float(np.abs(cheb.chebval(np.concatenate([[-1.0, 1.0], inside]), series)).max())


def _chebyshev_like(first: Row) -> Callable[[int], Row]:
    return lambda k: first if k == 0 else (2.0, 0.0, 1.0)


def chebyshev1() -> Basis:
    """T_k(cos t) = cos kt."""
    return Basis("chebyshev1", _chebyshev_like((1.0, 0.0, 0.0)), lambda k: 1.0)


def chebyshev2() -> Basis:
    """U_k(cos t) = sin (k+1)t / sin t."""
    return Basis("chebyshev2", _chebyshev_like((2.0, 0.0, 0.0)), lambda k: k + 1.0)


def chebyshev3() -> Basis:
    """V_k(cos t) = cos (k+½)t / cos ½t."""
    return Basis("chebyshev3", _chebyshev_like((2.0, -1.0, 0.0)), lambda k: 2.0 * k + 1.0)


def chebyshev4() -> Basis:
    """W_k(cos t) = sin (k+½)t / sin ½t."""
    return Basis("chebyshev4", _chebyshev_like((2.0, 1.0, 0.0)), lambda k: 2.0 * k + 1.0)


def legendre() -> Basis:
    """P_k, orthogonal under the weight 1."""
    return Basis("legendre", lambda k: ((2.0 * k + 1) / (k + 1), 0.0, k / (k + 1)), lambda k: 1.0)


def gegenbauer(lam: float) -> Basis:
    """C_k^λ, orthogonal under (1 − ξ²)^{λ − ½}; λ = ½ is Legendre, λ = 1 is U."""
    if not 0 < lam < math.inf:
        raise ConfigError(f"gegenbauer needs lambda > 0; got {lam}. For lambda → 0 use 'chebyshev1'.")
    return Basis(
        f"gegenbauer({float(lam)})",
        lambda k: (2 * (k + lam) / (k + 1), 0.0, (k + 2 * lam - 1) / (k + 1)),
        lambda k: float(binom(k + 2 * lam - 1, k)),
    )


def jacobi(alpha: float, beta: float) -> Basis:
    """P_k^{α,β}, orthogonal under (1 − ξ)^α (1 + ξ)^β."""
    if not (-1 < alpha < math.inf and -1 < beta < math.inf):
        raise ConfigError(f"jacobi needs alpha > -1 and beta > -1; got alpha={alpha}, beta={beta}.")
    s, largest = alpha + beta, max(alpha, beta)

    def recurrence(k: int) -> Row:
        if k == 0:
            return (s + 2) / 2, (alpha - beta) / 2, 0.0
        n = 2 * k + s  # ξ P_k = A P_{k+1} + B P_k + C P_{k−1}, solved for P_{k+1}
        A = 2 * (k + 1) * (k + s + 1) / ((n + 1) * (n + 2))
        B = (beta**2 - alpha**2) / (n * (n + 2))
        C = 2 * (k + alpha) * (k + beta) / (n * (n + 1))
        return 1 / A, -B / A, C / A

    # the maximum sits at an end point, unless both exponents are below −½: then it is searched for
    sup = (lambda k: float(binom(k + largest, k))) if largest >= -0.5 else None
    return Basis(f"jacobi({float(alpha)}, {float(beta)})", recurrence, sup)


def monomial() -> Basis:
    """ξ^k: not orthogonal, so it cannot interpolate."""
    return Basis("monomial", lambda k: (1.0, 0.0, 0.0), lambda k: 1.0)


_families: dict[str, Callable[..., Basis]] = {
    family.__name__: family
    for family in (
        chebyshev1, chebyshev2, chebyshev3, chebyshev4, legendre, gegenbauer, jacobi, monomial,
    )
}  # fmt: skip


def register_basis(name: str, family: Callable[..., Basis]) -> None:
    """Makes `family(*numbers)` available under `name` wherever a basis can be named."""
    if name in _families:
        raise ConfigError(f"a basis named '{name}' exists already; choose another name.")
    _families[name] = family


def basis_names() -> list[str]:
    """The names that `get_basis` knows."""
    return sorted(_families)


def get_basis(spec: str | Basis) -> Basis:
    """A basis from its name with arguments, e.g. `legendre`, `gegenbauer(1.5)`, `jacobi(0.5, -0.5)`.

    `chebyshev2.raw()` names a basis in its textbook scaling.
    """
    return spec if isinstance(spec, Basis) else _resolve_name(spec)


@lru_cache(maxsize=256)
def _resolve_name(spec: str) -> Basis:
    """The same spec gives the same object, so bases compare equal."""
    name = spec.removesuffix(RAW)
    return resolve("basis", parse_spec(name), _families) if name == spec else _resolve_name(name).raw()
