"""Where the eigenvalues of a sheaf Laplacian lie, and how λ_max may be estimated. (C16 to C20)

The propositions are also tried on arbitrary sheaves in tests/propositions/test_spectra.py, with the same
functions.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.spectral.bases import get_basis
from polynsd_paper.claims.claim import Finding, check, confirm_if
from polynsd_paper.claims.samples import (
    FAMILIES,
    operator_norm,
    path,
    random_laplacian,
    random_signal,
    spectrum,
)

SEEDS = range(12)
DEGREE = 16

Array = NDArray[np.float64]


@check("C16")
def check_enclosure() -> Finding:
    """Extreme eigenvalues over families, edge weights, fixed channels and both normalisations."""
    cases = product(
        FAMILIES, SEEDS, ("sheaf", "sheaf-augmented"), (False, True), ((), ("laplacian", "signless"))
    )
    extremes = [
        spectrum(random_laplacian(family, seed, norm, weighted=weighted, channels=channels))[[0, -1]]
        for family, seed, norm, weighted, channels in cases
    ]
    low, high = float(min(lam[0] for lam in extremes)), float(max(lam[1] for lam in extremes))
    by_degree = max(float(spectrum(random_laplacian("general", seed, "degree")).max()) for seed in SEEDS)
    evidence = (
        f"{len(extremes)} random sheaves (all families, with and without edge weights and fixed channels, "
        f"normalised by D_v and by D_v + I): eigenvalues from {low:.0e} to {high:.4f}. Normalised by the "
        f"number of neighbours, as a variant does, general maps reach {by_degree:.1f}"
    )
    return confirm_if(low > -1e-8 and high < 2 + 1e-8, evidence, number=f"λ ≤ {high:.4f}")


@check("C17")
def check_block_bound() -> Finding:
    """The bound on unnormalised sheaves, and how many of them satisfy the assumption."""
    sheaves = [random_laplacian(("diagonal", "general")[seed % 2], seed, "none") for seed in range(200)]
    ratio = max(float(spectrum(L).max()) / block_bound(L) for L in sheaves)
    dominated = sum(is_block_dominated(L) for L in sheaves)
    evidence = (
        f"λ_1 ≤ {ratio:.3f} · 2 max ‖D_v‖ on {len(sheaves)} random sheaves with diagonal and general maps, "
        f"although only {dominated} of them satisfy the assumption of block domination. The bound needs "
        "none: ‖a − b‖² ≤ 2‖a‖² + 2‖b‖²"
    )
    return confirm_if(ratio <= 1 + 1e-9, evidence, number=f"λ_1 ≤ {ratio:.2f} of the bound")


def block_bound(L: SheafLaplacian) -> float:
    """2 max ‖D_v‖, the printed bound of λ_1."""
    return 2 * float(torch.linalg.matrix_norm(L.diagonal_blocks, 2).max())


def is_block_dominated(L: SheafLaplacian) -> bool:
    """The printed assumption: Σ_u ‖A_vu‖ ≤ ‖D_v‖ at every node."""
    n, d = L.topology.num_nodes, L.stalk_dim
    norms = torch.linalg.matrix_norm(L.to_dense().reshape(n, d, n, d).transpose(1, 2), 2)
    diagonal = norms.diagonal()
    return bool((norms.sum(1) - diagonal <= diagonal + 1e-12).all())


@check("C18")
def check_power_iteration_bound() -> Finding:
    """The error against the printed bound and against the one with λ_1 − λ_n."""
    lam, weight = np.array([1.0, 0.9, 0.5]), np.array([1.0, 0.1, 1.0]) ** 2
    (error_0, bound_0), (error_1, bound_1) = (
        (rayleigh_error(lam, weight, t), rayleigh_bound(lam, weight, t, lam[0] - lam[1])) for t in (0, 1)
    )
    rng = np.random.default_rng(0)
    printed = corrected = 0
    for _ in range(1000):
        lam, weight, t = np.sort(rng.random(6))[::-1], rng.random(6), int(rng.integers(6))
        error = rayleigh_error(lam, weight, t) - 1e-12
        printed += error > rayleigh_bound(lam, weight, t, lam[0] - lam[1])
        corrected += error > rayleigh_bound(lam, weight, t, lam[0] - lam[-1])
    evidence = (
        f"eigenvalues (1, 0.9, 0.5), start (1, 0.1, 1): error {error_0:.3f} > bound {bound_0:.3f} before the "
        f"first step, {error_1:.3f} > {bound_1:.3f} after it; {printed} of 1000 random cases violate it. "
        f"With λ_1 − λ_n in place of λ_1 − λ_2: {corrected} violations"
    )
    return confirm_if(printed == 0, evidence, number=f"{printed} of 1000 cases violate it")


def rayleigh_error(lam: Array, weight: Array, t: int) -> float:
    """λ_1 less the Rayleigh quotient after t power steps.

    Args:
        lam: the eigenvalues, descending.
        weight: squared coefficients of the start vector in the eigenbasis.
        t: number of steps.
    """
    powers = weight * lam ** (2 * t)
    return float(lam[0] - (powers * lam).sum() / powers.sum())


def rayleigh_bound(lam: Array, weight: Array, t: int, prefactor: float) -> float:
    """Prefactor (λ_2/λ_1)^(2t) tan²: the paper prints λ_1 − λ_2 as prefactor, λ_1 − λ_n is right."""
    return float(prefactor * (lam[1] / lam[0]) ** (2 * t) * weight[1:].sum() / weight[0])


@check("C19")
def check_power_iteration_scale() -> Finding:
    """The top of the rescaled spectrum when a Rayleigh quotient after 5 or 10 steps serves as λ_max."""
    sheaves = [random_laplacian(family, seed, "none") for family in FAMILIES for seed in SEEDS]
    largest = [float(spectrum(L).max()) for L in sheaves]
    five, ten = (
        np.array([2 * lam / rayleigh_quotient(L, steps) - 1 for lam, L in zip(largest, sheaves, strict=True)])
        for steps in (5, 10)
    )
    growth = [np.cosh(DEGREE * np.arccosh(np.median(top))) for top in (five, ten)]
    ours = max(
        lam / float(torch.as_tensor(L.lambda_max("lanczos"))) for lam, L in zip(largest, sheaves, strict=True)
    )
    unsafe = int((ten > 1 + 1e-9).sum())
    evidence = (
        "largest eigenvalue of the rescaled operator, which should be 1: after 5 steps "
        f"{np.median(five):.3f} in the median and up to {five.max():.2f}, after 10 {np.median(ten):.3f} and "
        f"up to {ten.max():.2f}; above 1 on {unsafe} of {len(sheaves)} unnormalised sheaves. At the medians "
        f"T_16 is {growth[0]:.0f} and {growth[1]:.0f} instead of 1. The library's estimate has a margin: "
        f"λ_1 ≤ {ours:.3f} of it"
    )
    return confirm_if(unsafe == 0, evidence, number=f"too small on {unsafe} of {len(sheaves)} sheaves")


def rayleigh_quotient(L: SheafLaplacian, steps: int, seed: int = 0) -> float:
    """⟨x, Lx⟩ / ⟨x, x⟩ after some power steps from a random start; never above λ_1."""
    x = random_signal(L, seed=seed)
    for _ in range(steps):
        x = L @ x
        x = x / x.norm().clamp(min=1e-300)
    return float(L.energy(x) / x.square().sum().clamp(min=1e-300))


@check("C20")
def check_rescaling() -> Finding:
    """‖T_k‖ of the raw Laplacian, of one scaled ten per cent too far, and of the right one."""
    L = random_laplacian("orthogonal", 0, "sheaf", graph=path(12), d=2).to_dense()
    eye = torch.eye(len(L), dtype=L.dtype)
    cases = {"L": L, "2L/(0.9 λ_1) − I": L * 2 / (0.9 * operator_norm(L)) - eye, "L − I": L - eye}
    norms = {name: [chebyshev_norm(A, K) for K in (4, DEGREE)] for name, A in cases.items()}
    listed = ", ".join(f"of {name} {low:.3g} and {high:.3g}" for name, (low, high) in norms.items())
    evidence = f"‖T_4‖ and ‖T_16‖ {listed}, for a normalised Laplacian with eigenvalues in [0, 2]"
    return confirm_if(
        norms["L"][1] > 1e6 and norms["L − I"][1] <= 1 + 1e-9,
        evidence,
        number=f"‖T_16‖ {norms['L'][1]:.0e} and {norms['L − I'][1]:.0f}",
    )


def chebyshev_norm(A: Tensor, degree: int) -> float:
    """‖T_K(A)‖ of a dense symmetric matrix."""
    polynomials = get_basis("chebyshev1").polynomials(lambda T: A @ T, torch.eye(len(A)).to(A), degree)
    return operator_norm(list(polynomials)[-1])
