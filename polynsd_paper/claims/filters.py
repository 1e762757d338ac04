"""Polynomials of a sheaf Laplacian: reach, energy, norm, and which responses they can have. (C08 to C15, C21)

Convex weights on T_k mean p(λ_max) = Σ θ_k T_k(1) = 1. How much of that restriction is left in the filter
m = p + α c and in the layer r = 1 + tanh ε − m is found by linear programming. The best fit in the maximum
norm is

    min s   such that   |Σ_k θ_k T_k(ξ_i) + extra(ξ_i) − f(λ_i)| ≤ s,   θ ≥ 0,  Σ θ_k = 1.

tests/propositions tries the same functions on arbitrary sheaves (test_filters.py, test_approximation.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.config import LayerConfig
from polynsd.nn.layer import SheafLayer
from polynsd.published import PUBLISHED_LAYER
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.spectral.bases import get_basis
from polynsd.spectral.filter import PolynomialFilter, chebyshev_truncation, heat_kernel
from polynsd.testing.samples import random_tensor
from polynsd_paper.claims.claim import CONFIRMED, PARTLY, REFUTED, Finding, check, combine, confirm_if
from polynsd_paper.claims.comparisons import compare_ablations, describe_searches, judge_ablation
from polynsd_paper.claims.samples import (
    FAMILIES,
    count_hops,
    filter_matrix,
    operator_norm,
    path,
    random_laplacian,
    random_mixture,
    random_signal,
    spectrum,
)

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
Bounds = tuple[float | None, float | None]

REACH_DEGREE = 3
BASES = (
    "chebyshev1", "legendre", "gegenbauer(0.5)", "chebyshev2", "chebyshev3", "chebyshev4", "gegenbauer(1.5)",
    "jacobi(1, 1)",
)  # fmt: skip
TIMES = (0.5, 1.0, 2.0)  # of heat kernels
GOOD_FIT = 0.1

LAM: Array = 1 - np.cos(np.linspace(0, np.pi, 241))  # in [0, 2], both ends included
TARGETS: dict[str, Array] = {
    "low-pass": 1 / (1 + np.exp(6 * (LAM - 1))),
    "band-pass": np.exp(-(((LAM - 1) / 0.4) ** 2)),
    "high-pass": 1 / (1 + np.exp(-6 * (LAM - 1))),
}
FREE: Bounds = (None, None)
EXTRAS: dict[str, tuple[tuple[Array, Bounds], ...]] = {  # what is added to p: a column and its range
    "p": (),
    "m": ((1 - LAM / 2, FREE),),
    "r": ((1 - LAM / 2, FREE), (-np.ones_like(LAM), (0.0, 2.0))),  # −r = p + αc − (1 + tanh ε)
}


def sample_sheaves() -> Iterator[tuple[int, SheafLaplacian]]:
    """Forty sheaves of all families with their seeds, half of them with edge weights."""
    for family in FAMILIES:
        for seed in range(10):
            yield seed, random_laplacian(family, seed, weighted=seed % 2 == 1)


@check("C08")
def check_strict_generalisation() -> Finding:
    """The distance of p(L) from span{I, L}, relative to p(L), on random sheaves."""
    distances = [
        distance_to_first_order(
            random_mixture(degree, seed, spread=1.0), spectrum(random_laplacian(family, seed))
        )
        for family in FAMILIES
        for degree in (2, 4, 8)
        for seed in range(10)
    ]
    two = distance_to_first_order(
        random_mixture(8, 0, spread=1.0), torch.tensor([0.0, 1.5], dtype=torch.float64)
    )
    evidence = (
        f"relative distance of p(L) from span{{I, L}}: at least {min(distances):.3f} in {len(distances)} "
        f"random filters of degree 2, 4 and 8; {two:.0e} where there are only two eigenvalues. Whether "
        "trained filters make use of it: C46"
    )
    return confirm_if(min(distances) > 1e-3, evidence, number=f"distance ≥ {min(distances):.3f}")


def distance_to_first_order(p: PolynomialFilter, lam: Tensor, lam_max: float = 2.0) -> float:
    """Min ‖p(L) − aI − bL‖ / ‖p(L)‖ in the Frobenius norm, given the eigenvalues of L."""
    values = p.response(lam, lam_max)[:, None]
    line = torch.stack([torch.ones_like(lam), lam], 1)
    return float((values - line @ torch.linalg.lstsq(line, values).solution).norm() / values.norm())


@check("C09")
def check_locality() -> Finding:
    """Blocks (v, u) of p(L) with dist(v, u) > K, and the reach of a layer with learned maps."""
    beyond = [
        largest_entry_beyond(random_mixture(REACH_DEGREE, seed), L, REACH_DEGREE)
        for seed, L in sample_sheaves()
    ]
    fixed, learned = measure_layer_reach(maps="identity"), measure_layer_reach(maps="diagonal")
    evidence = (
        f"largest entry of p(L) beyond K = {REACH_DEGREE} hops on {len(beyond)} sheaves: {max(beyond):g}. "
        f"The input gradient of a layer of degree {REACH_DEGREE} reaches {fixed} hops with fixed maps and "
        f"{learned} with learned ones, through the normalisation"
    )
    return confirm_if(
        max(beyond) == 0 and fixed == REACH_DEGREE, evidence, number=f"{max(beyond):g} beyond K hops"
    )


def largest_entry_beyond(p: PolynomialFilter, L: SheafLaplacian, hops: int) -> float:
    """The largest |entry| of p(L) between nodes that are more than so many hops apart."""
    n, d = L.topology.num_nodes, L.stalk_dim
    blocks = filter_matrix(p, L).detach().reshape(n, d, n, d).abs().amax((1, 3))
    far = torch.as_tensor(count_hops(L.topology) > hops)
    return float(blocks[far].max()) if far.any() else 0.0


def measure_layer_reach(degree: int = REACH_DEGREE, **options: Any) -> int:
    """Hops to the farthest node on which a layer's output at the end of a path depends."""
    config = LayerConfig(**PUBLISHED_LAYER | {"stalk_dim": 2, "degree": degree} | options)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = SheafLayer(1, config).double()
    topology = path(degree + 4)
    x = random_tensor(topology.num_nodes, config.total_stalk_dim, 1, seed=1)
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x, topology)[0], x)
    return int((jacobian.abs().amax((0, 1, 3, 4)) > 1e-12).nonzero().max())


@check("C10")
def check_commutation_and_energy() -> Finding:
    """The commutator pq − qp, and ⟨px, Lpx⟩ / ⟨x, Lx⟩ for p = (1 + mixture) / 2 ∈ [0, 1]."""
    commutators, ratios = [], []
    for seed, L in sample_sheaves():
        p, q = (filter_matrix(random_mixture(8, number), L) for number in (seed, seed + 100))
        commutators.append(operator_norm(p @ q - q @ p))
        ratios.append(energy_ratio((torch.eye(len(p)).double() + p) / 2, L, seed))
    evidence = (
        f"‖pq − qp‖ ≤ {max(commutators):.0e} and energy after / before ≤ {max(ratios):.3f} for 0 ≤ p ≤ 1, "
        f"on {len(ratios)} random sheaves"
    )
    return confirm_if(
        max(commutators) < 1e-12 and max(ratios) <= 1 + 1e-12,
        evidence,
        number=f"energy × {max(ratios):.2f} at most",
    )


def energy_ratio(p: Tensor, L: SheafLaplacian, seed: int = 0) -> float:
    """Dirichlet energy of p x over that of a random x; 0 where x has none, up to rounding."""
    x = random_signal(L, seed=seed)
    before, after = float(L.energy(x)), float(L.energy((p @ x.flatten(0, 1)).reshape(x.shape)))
    return after / before if max(before, after) > 1e-9 else 0.0


@check("C11")
def check_convex_mixtures() -> Finding:
    """‖p‖ and the energy for softmax weights; p(λ_max)."""
    norms, ratios = [], []
    for seed, L in sample_sheaves():
        p = filter_matrix(random_mixture(8, seed), L)
        norms.append(operator_norm(p))
        ratios.append(energy_ratio(p, L, seed))
    top = [float(random_mixture(8, seed).response(torch.tensor([2.0]).double())) for seed in range(10)]
    evidence = (
        f"‖p(L)‖ ≤ {max(norms):.4f} and energy after / before ≤ {max(ratios):.3f} on {len(norms)} sheaves "
        f"with random softmax weights. p(λ_max) = {min(top):.0f} whatever the weights: p never damps the "
        "highest frequency"
    )
    return confirm_if(
        max(norms) <= 1 + 1e-12 and max(ratios) <= 1 + 1e-12, evidence, number=f"‖p‖ ≤ {max(norms):.3f}"
    )


@check("C12")
def check_other_bases() -> Finding:
    """Sup norms of the bases in their usual scaling at K = 16, and of the library's."""
    raw = {name: get_basis(name).sup_norm(16) for name in BASES}
    grid = np.cos(np.linspace(0, np.pi, 4001))
    ours = max(float(np.abs(get_basis(name).evaluate(grid, 16)).max()) for name in raw)
    second, fourth = (initial_raw_norm(name, 16) for name in ("chebyshev2", "chebyshev4"))
    listed = ", ".join(f"{name} {value:.0f}" for name, value in raw.items())
    evidence = (
        f"max |B_16| on [−1, 1] in the usual scaling: {listed}; with uniform weights ‖p‖ is already "
        f"{second:.0f} for chebyshev2 and {fourth:.0f} for chebyshev4. The library divides by the maximum: "
        f"{ours:.4f} for all of them"
    )
    return confirm_if(
        max(raw.values()) <= 1 + 1e-9, evidence, number=f"max |B_16| up to {max(raw.values()):.0f}"
    )


def initial_raw_norm(basis: str, degree: int) -> float:
    """‖p‖ with uniform weights on unnormalised polynomials, on an edge: its eigenvalues are 0 and 2."""
    L = random_laplacian("identity", 0, "sheaf", graph=path(2), d=1)
    p = PolynomialFilter(get_basis(basis).raw(), degree).double().requires_grad_(False)
    return operator_norm(filter_matrix(p, L))


def best_fit(target: Array, degree: int, part: str = "p", convex: bool = True) -> float:
    """The smallest maximal error with which p, m or ±r of degree K can follow a target on `LAM`.

    The sign of r is left open, because the mixing of the next layer can turn it.
    """
    signs = (1, -1) if part == "r" else (1,)
    return min(_solve_fit(sign * target, degree, EXTRAS[part], convex) for sign in signs)


def _solve_fit(target: Array, degree: int, extras: tuple[tuple[Array, Bounds], ...], convex: bool) -> float:
    """The linear program of the module's docstring."""
    from scipy.optimize import linprog

    columns = [*get_basis("chebyshev1").evaluate(LAM - 1, degree), *(column for column, _ in extras)]
    A = np.stack(columns, 1)
    slack = -np.ones((len(LAM), 1))
    upper = np.block([[A, slack], [-A, slack]])
    cost, total = np.zeros(A.shape[1] + 1), np.zeros((1, A.shape[1] + 1))
    cost[-1], total[0, : degree + 1] = 1, 1
    weights: list[Bounds] = [(0.0, None) if convex else FREE] * (degree + 1)
    bounds = [*weights, *(allowed for _, allowed in extras), (0.0, None)]
    equality = {"A_eq": total, "b_eq": [1.0]} if convex else {}
    return float(linprog(cost, upper, np.concatenate([target, -target]), bounds=bounds, **equality).fun)


@check("C13")
def check_filter_classes(records: pd.DataFrame) -> Finding:
    """Errors for low-, band- and high-pass targets: of p, of m, of the whole layer, of free weights."""
    errors = {
        name: [*(best_fit(target, 16, part) for part in EXTRAS), best_fit(target, 16, convex=False)]
        for name, target in TARGETS.items()
    }
    listed = "; ".join(
        f"{name}: p {p:.2f}, m {m:.2f}, layer {r:.2f}, free weights {free:.3f}"
        for name, (p, m, r, free) in errors.items()
    )
    evidence = (
        f"best maximal error at K = 16 with convex weights (1 is no fit at all). {listed}. p(λ_max) = 1 "
        "keeps p and m from being low- or band-pass; the layer 1 + tanh ε − m, which decides, is freer"
        f"{describe_searches(records, 'coefficients')}"
    )
    fits = sum(row[2] < GOOD_FIT for row in errors.values())
    return Finding(
        CONFIRMED if fits == len(errors) else PARTLY if fits else REFUTED,
        evidence,
        number=f"{fits} of {len(errors)} responses reached",
    )


@check("C14")
def check_truncation_bound() -> Finding:
    """The error of the truncated heat kernel as a share of the bound, on operators."""
    sheaves = [random_laplacian(family, 0) for family in FAMILIES]
    ratios = [
        truncation_error(L, t, K) / truncation_bound(t, K, rho)
        for t in TIMES
        for K in (1, 2, 4, 8)
        for rho in (1.5, 2.0, 4.0)
        for L in sheaves
    ]
    evidence = (
        f"error ≤ {max(ratios):.2f} of the bound in {len(ratios)} cases: exp(−tL) on random sheaves, "
        "t = 0.5 to 2, K = 1 to 8, ρ = 1.5 to 4"
    )
    return confirm_if(max(ratios) <= 1, evidence, number=f"error ≤ {max(ratios):.2f} of the bound")


def truncation_error(L: SheafLaplacian, t: float, K: int, lam_max: float = 2.0) -> float:
    """‖exp(−tL) − p_K(L)‖ for the Chebyshev series of exp(−tλ), truncated after degree K."""
    p = PolynomialFilter.from_response(heat_kernel(t), K, lam_max, L.dtype).requires_grad_(False)
    return operator_norm(filter_matrix(p, L) - (-t * L.to_dense()).matrix_exp())


def ellipse_maximum(t: float, rho: float, lam_max: float = 2.0) -> float:
    """M = max |exp(−tλ(z))| on the Bernstein ellipse of ρ, attained at its left end −(ρ + 1/ρ)/2."""
    return float(np.exp(t * lam_max / 2 * ((rho + 1 / rho) / 2 - 1)))


def truncation_bound(t: float, K: int, rho: float, lam_max: float = 2.0) -> float:
    """The printed bound 2M / (ρ^K (ρ − 1)) for exp(−tλ)."""
    return 2 * ellipse_maximum(t, rho, lam_max) / (rho**K * (rho - 1))


@check("C15")
def check_heat_kernels() -> Finding:
    """Best error for exp(−tλ): convex weights, the whole layer, and free weights (a truncation)."""
    convex = {t: [best_fit(heat_kernel(t)(LAM), K) for K in (4, 16)] for t in TIMES}
    layer = {t: [best_fit(heat_kernel(t)(LAM), K, "r") for K in (4, 16)] for t in TIMES}
    series = [chebyshev_truncation(heat_kernel(1.0), K) for K in (4, 8, 16)]
    free = [
        np.abs(np.polynomial.chebyshev.chebval(LAM - 1, phi) - heat_kernel(1.0)(LAM)).max() for phi in series
    ]
    listed = ", ".join(
        f"t = {t}: {low:.3f} and {high:.3f} (1 − e^(−2t) = {1 - np.exp(-2 * t):.3f})"
        for t, (low, high) in convex.items()
    )
    whole = ", ".join(f"{low:.3f} and {high:.3f}" for low, high in layer.values())
    evidence = (
        f"best maximal error for exp(−tλ) with convex weights at K = 4 and 16: {listed}; of the whole layer: "
        f"{whole}. With free weights at K = 4, 8, 16 (t = 1): {', '.join(f'{error:.0e}' for error in free)}"
    )
    return confirm_if(
        all(high < 0.1 * low for low, high in convex.values()),
        evidence,
        number=f"error {convex[1.0][1]:.2f} at K = 16",
    )


@check("C21")
def check_conditioning(records: pd.DataFrame) -> Finding:
    """Condition numbers of the Gram matrices ∫ B_j B_k with max |B_k| = 1; T_k against ξ^k in training."""
    names = ("monomial", "chebyshev1", "legendre")
    table = {name: [gram_condition(name, K) for K in (4, 8, 16)] for name in names}
    listed = "; ".join(f"{name} {', '.join(f'{c:.1e}' for c in row)}" for name, row in table.items())
    evidence = (
        f"condition number of the Gram matrix at K = 4, 8, 16: {listed}. So learning is badly conditioned; "
        "but under softmax weights ξ^k is as bounded as T_k, and the library evaluates every basis by the "
        "recurrence of T_k"
    )
    is_worse = table["monomial"][-1] > 1e3 * table["chebyshev1"][-1]
    theory = Finding(
        PARTLY if is_worse else REFUTED,
        evidence,
        is_decisive=True,
        number=f"condition {table['monomial'][-1]:.0e} and {table['chebyshev1'][-1]:.0f}",
    )
    rows = {4: ("base", "monomials"), 16: ("degree 16", "monomials, degree 16")}
    gaps = {degree: compare_ablations(records, *pair) for degree, pair in rows.items()}
    if not any(map(len, gaps.values())):
        return combine(theory, Finding(PARTLY, "whether training suffers needs: polynsd reproduce ablations"))
    trained = (judge_ablation(gaps[K], f"T_k instead of ξ^k in training at K = {K}") for K in gaps)
    return combine(theory, *trained)


def gram_condition(name: str, degree: int) -> float:
    """Of ∫ B_j B_k over [−1, 1], by Gauss's quadrature, which is exact here."""
    xi, weight = np.polynomial.legendre.leggauss(2 * degree + 2)
    values = get_basis(name).evaluate(xi, degree)
    return float(np.linalg.cond((values * weight) @ values.T))
