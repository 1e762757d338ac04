"""The tables: eight classical families, and the register that names them."""

import math
from collections.abc import Callable
from functools import lru_cache

from scipy.special import binom

from polynsd.errors import ConfigError
from polynsd.spec import parse_spec, resolve
from polynsd.spectral.basis import Basis, Row


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
    """ξ^k."""
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
    """A basis from its name with arguments, e.g. `legendre`, `gegenbauer(1.5)`, `jacobi(0.5, -0.5)`."""
    return spec if isinstance(spec, Basis) else _resolved(spec)


@lru_cache(maxsize=256)
def _resolved(spec: str) -> Basis:
    """The same spec gives the same object, so bases compare equal."""
    return resolve("basis", parse_spec(spec), _families)
