"""Which responses a layer can have, and how well it can have them. (C13 to C15, C21)

Convex weights on T_k mean p(λ_max) = Σ θ_k T_k(1) = 1. What is left of that in the filter m = p + α c and in
the layer r = 1 + tanh ε − m is found by linear programming: the best fit in the maximum norm is

    min s   such that   |Σ_k θ_k T_k(ξ_i) + extra(ξ_i) − f(λ_i)| ≤ s,   θ ≥ 0,  Σ θ_k = 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polynsd.spectral.filter import chebyshev_truncation, heat_kernel
from polynsd.spectral.bases import get_basis
from polynsd.spectral.filter import PolynomialFilter
from polynsd_paper.claims.claim import CONFIRMED, PARTLY, REFUTED, Claim, Evidence, Finding, decided
from polynsd_paper.claims.parts import Part, combine
from polynsd_paper.claims.readers import changed, changes_most, searched_choices
from polynsd_paper.claims.sheaves import FAMILIES, matrix_of, operator_norm, random_laplacian

Array = NDArray[np.float64]
Bounds = tuple[float | None, float | None]

LAM: Array = 1 - np.cos(np.linspace(0, np.pi, 241))  # in [0, 2], both ends included
TARGETS: dict[str, Array] = {
    "low-pass": 1 / (1 + np.exp(6 * (LAM - 1))),
    "band-pass": np.exp(-(((LAM - 1) / 0.4) ** 2)),
    "high-pass": 1 / (1 + np.exp(-6 * (LAM - 1))),
}
TIMES = (0.5, 1.0, 2.0)
GOOD_FIT = 0.1
FREE: Bounds = (None, None)
PARTS: dict[str, tuple[tuple[Array, Bounds], ...]] = {  # what may be added to p: a column and its range
    "p": (),
    "m": ((1 - LAM / 2, FREE),),
    "r": ((1 - LAM / 2, FREE), (-np.ones_like(LAM), (0.0, 2.0))),  # −r = p + αc − (1 + tanh ε)
}


def best_fit(target: Array, degree: int, part: str = "p", convex: bool = True) -> float:
    """The smallest maximal error with which p, m or ±r of degree K can follow a target.

    The sign of r is left open, because the mixing of the next layer can turn it.
    """
    if part == "r":
        return min(_fitted(sign * target, degree, PARTS["r"], convex) for sign in (1, -1))
    return _fitted(target, degree, PARTS[part], convex)


def _fitted(goal: Array, degree: int, extras: tuple[tuple[Array, Bounds], ...], convex: bool) -> float:
    from scipy.optimize import linprog

    columns = [*get_basis("chebyshev1").evaluate(LAM - 1, degree), *(column for column, _ in extras)]
    A = np.stack(columns, 1)
    slack = -np.ones((len(LAM), 1))
    upper = np.block([[A, slack], [-A, slack]])
    cost, total = np.zeros(A.shape[1] + 1), np.zeros((1, A.shape[1] + 1))
    cost[-1], total[0, : degree + 1] = 1, 1
    weights: list[Bounds] = [(0.0, None) if convex else FREE] * (degree + 1)
    bounds = [*weights, *(allowed for _, allowed in extras), (0.0, None)]
    equal = {"A_eq": total, "b_eq": [1.0]} if convex else {}
    return float(linprog(cost, upper, np.concatenate([goal, -goal]), bounds=bounds, **equal).fun)


def filter_classes(evidence: Evidence) -> Finding:
    """Errors for low-, band- and high-pass targets: of p, of m, of the whole layer, of free weights."""
    errors = {
        name: [*(best_fit(target, 16, part) for part in PARTS), best_fit(target, 16, convex=False)]
        for name, target in TARGETS.items()
    }
    listed = "; ".join(
        f"{name}: p {p:.2f}, m {m:.2f}, layer {r:.2f}, free weights {free:.3f}"
        for name, (p, m, r, free) in errors.items()
    )
    numbers = (
        f"best maximal error at K = 16 with convex weights (1 is no fit at all). {listed}. p(λ_max) = 1 "
        "keeps p and m from being low- or band-pass; the layer 1 + tanh ε − m, which decides, is freer"
        f"{searched_choices(evidence, 'coefficients')}"
    )
    can = sum(row[2] < GOOD_FIT for row in errors.values())
    return Finding(CONFIRMED if can == len(errors) else PARTLY if can else REFUTED, numbers)


def truncation_bound(evidence: Evidence) -> Finding:
    """Error of the truncated heat kernel divided by 2M / (ρ^K (ρ − 1)), on operators."""
    cases = [(t, K, rho) for t in TIMES for K in (1, 2, 4, 8) for rho in (1.5, 2.0, 4.0)]
    ratios = [_operator_error(t, K, family) / _bound(t, K, rho) for t, K, rho in cases for family in FAMILIES]
    numbers = (
        f"error ≤ {max(ratios):.2f} of the bound in {len(ratios)} cases: exp(−tL) on random sheaves, "
        "t = 0.5 to 2, K = 1 to 8, ρ = 1.5 to 4"
    )
    return decided(max(ratios) <= 1, numbers)


def _bound(t: float, K: int, rho: float) -> float:
    """M is the value at the left end −(ρ + 1/ρ)/2 of the ellipse."""
    M = np.exp(t * ((rho + 1 / rho) / 2 - 1))
    return float(2 * M / (rho**K * (rho - 1)))


def _operator_error(t: float, K: int, family: str) -> float:
    L = random_laplacian(family, 0, "sheaf-augmented")
    p = PolynomialFilter.from_response(heat_kernel(t), K, 2.0, L.dtype).requires_grad_(False)
    return operator_norm(matrix_of(lambda x: p(L, x), L) - (-t * L.to_dense()).matrix_exp())


def heat_kernels(evidence: Evidence) -> Finding:
    """Best error for exp(−tλ): convex weights, the whole layer, and free weights (a truncation)."""
    floors = {t: [best_fit(heat_kernel(t)(LAM), K) for K in (4, 16)] for t in TIMES}
    layer = {t: [best_fit(heat_kernel(t)(LAM), K, "r") for K in (4, 16)] for t in TIMES}
    free = [_truncation_error(1.0, K) for K in (4, 8, 16)]
    listed = ", ".join(
        f"t = {t}: {row[0]:.3f} and {row[1]:.3f} (1 − e^(−2t) = {1 - np.exp(-2 * t):.3f})"
        for t, row in floors.items()
    )
    whole = ", ".join(f"{row[0]:.3f} and {row[1]:.3f}" for row in layer.values())
    numbers = (
        f"best maximal error for exp(−tλ) with convex weights at K = 4 and 16: {listed}; of the whole layer: "
        f"{whole}. With free weights at K = 4, 8, 16 (t = 1): {', '.join(f'{e:.0e}' for e in free)}"
    )
    return decided(all(row[1] < 0.1 * row[0] for row in floors.values()), numbers)


def _truncation_error(t: float, K: int) -> float:
    series = np.polynomial.chebyshev.chebval(LAM - 1, chebyshev_truncation(heat_kernel(t), K))
    return float(np.abs(series - heat_kernel(t)(LAM)).max())


def conditioning(evidence: Evidence) -> Finding:
    """Condition numbers of the Gram matrices ∫ B_j B_k, with B_k scaled to maximum 1."""
    names = ("monomial", "chebyshev1", "legendre")
    table = {name: [gram_condition(name, K) for K in (4, 8, 16)] for name in names}
    listed = "; ".join(f"{name} {', '.join(f'{c:.1e}' for c in row)}" for name, row in table.items())
    numbers = (
        f"condition number of the Gram matrix at K = 4, 8, 16: {listed}. So learning is badly conditioned; "
        "but under softmax weights ξ^k is as bounded as T_k, and the library evaluates every basis by the "
        "recurrence of T_k"
    )
    is_worse = table["monomial"][-1] > 1e3 * table["chebyshev1"][-1]
    theory = Part(PARTLY if is_worse else REFUTED, numbers, decisive=True)
    return combine(theory, *_trained_with_monomials(evidence))


def _trained_with_monomials(evidence: Evidence) -> list[Part]:
    """T_k against ξ^k with free coefficients, in the ablations."""
    pairs = {4: ("base", "monomials"), 16: ("degree 16", "monomials, degree 16")}
    found = {degree: changed(evidence, *pair) for degree, pair in pairs.items()}
    if not any(map(len, found.values())):
        return [Part(PARTLY, "whether training suffers needs: polynsd reproduce ablations")]
    return [
        changes_most(tally, f"T_k instead of ξ^k in training at K = {degree}")
        for degree, tally in found.items()
    ]


def gram_condition(name: str, degree: int) -> float:
    """By Gauss's quadrature, which is exact here."""
    xi, weight = np.polynomial.legendre.leggauss(2 * degree + 2)
    values = get_basis(name).evaluate(xi, degree)
    return float(np.linalg.cond((values * weight) @ values.T))


CLAIMS = (
    Claim("C13", "A layer can learn low-, high- and band-pass responses.", "theory", filter_classes),
    Claim(
        "C14",
        "Truncating an analytic response costs at most 2M / (ρ^K (ρ − 1)), also for operators.",
        "theory",
        truncation_bound,
    ),
    Claim("C15", "Layers approach heat kernels exponentially fast in K.", "theory", heat_kernels),
    Claim(
        "C21",
        "Monomial coefficients are unstable at larger degrees; orthogonal bases are not.",
        "theory",
        conditioning,
    ),
)
