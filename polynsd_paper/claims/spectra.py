"""Where eigenvalues lie, and how λ_max may be found. (C16 to C20)"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.spectral.bases import get_basis
from polynsd_paper.claims.claim import CONFIRMED, REFUTED, Claim, Evidence, Finding, decided
from polynsd_paper.claims.sheaves import (
    CHANNELS,
    FAMILIES,
    operator_norm,
    path,
    random_laplacian,
    random_signal,
    spectrum,
)

SEEDS = range(12)
SHEAVES = 200
STEPS = (5, 10)
DEGREE = 16


def enclosure(evidence: Evidence) -> Finding:
    """Extreme eigenvalues over families, edge weights, fixed channels and both normalisations."""
    lam = torch.cat([spectrum(_sheaf(*case)) for case in _cases()])
    others = max(float(spectrum(random_laplacian("general", seed, "degree")).max()) for seed in SEEDS)
    numbers = (
        f"{len(_cases())} random sheaves (all families, with and without edge weights and fixed channels, "
        f"normalised by D_v and by D_v + I): eigenvalues from {float(lam.min()):.0e} to "
        f"{float(lam.max()):.4f}. Normalised by the number of neighbours, as a variant does, general maps "
        f"reach {others:.1f}"
    )
    return decided(bool(lam.min() > -1e-8) and bool(lam.max() < 2 + 1e-8), numbers)


def _cases() -> list[tuple[str, int, str, bool, tuple[str, ...]]]:
    return [
        (family, seed, normalization, weighted, channels)
        for family in FAMILIES
        for seed in SEEDS
        for normalization in ("sheaf", "sheaf-augmented")
        for weighted in (False, True)
        for channels in ((), CHANNELS)
    ]


def _sheaf(
    family: str, seed: int, normalization: str, weighted: bool, channels: tuple[str, ...]
) -> SheafLaplacian:
    return random_laplacian(family, seed, normalization, weighted=weighted, channels=channels)


def block_bound(evidence: Evidence) -> Finding:
    """λ_1 / (2 max ‖D_v‖) of unnormalised sheaves, and how many of them dominate as assumed."""
    sheaves = [random_laplacian(("diagonal", "general")[seed % 2], seed, "none") for seed in range(SHEAVES)]
    ratios = [float(spectrum(L).max()) / float(torch.as_tensor(L.lambda_max())) for L in sheaves]
    dominated = sum(map(_dominates, sheaves))
    numbers = (
        f"λ_1 ≤ {max(ratios):.3f} · 2 max ‖D_v‖ on {SHEAVES} random sheaves with diagonal and general maps, "
        f"although {dominated} of them meet the assumption of block domination. The bound needs none: ‖a − "
        "b‖² ≤ 2‖a‖² + 2‖b‖²"
    )
    return decided(max(ratios) <= 1 + 1e-9, numbers)


def _dominates(L: SheafLaplacian) -> bool:
    """Σ_u ‖A_vu‖ ≤ ‖D_v‖ at every node."""
    n, d = L.topology.num_nodes, L.stalk_dim
    norms = torch.linalg.matrix_norm(L.to_dense().reshape(n, d, n, d).transpose(1, 2), 2)
    own = norms.diagonal()
    return bool((norms.sum(1) - own <= own + 1e-12).all())


def power_iteration_bound(evidence: Evidence) -> Finding:
    """The error against the printed bound and against the one with λ_1 − λ_n."""
    lam, weight = np.array([1.0, 0.9, 0.5]), np.array([1.0, 0.1, 1.0]) ** 2
    given = [(_error(lam, weight, t), _printed(lam, weight, t)) for t in (0, 1)]
    broken, right = _random_spectra()
    numbers = (
        f"eigenvalues (1, 0.9, 0.5), start (1, 0.1, 1): error {given[0][0]:.3f} > bound {given[0][1]:.3f} "
        f"before the first step, {given[1][0]:.3f} > {given[1][1]:.3f} after it; {broken} of 1000 random "
        f"cases violate it. With λ_1 − λ_n in place of λ_1 − λ_2: {right} violations"
    )
    return decided(broken == 0, numbers)


def _error(lam: NDArray[np.float64], weight: NDArray[np.float64], t: int) -> float:
    """λ_1 less the Rayleigh quotient after t steps from squared coefficients `weight`."""
    powers = weight * lam ** (2 * t)
    return float(lam[0] - (powers * lam).sum() / powers.sum())


def _printed(lam: NDArray[np.float64], weight: NDArray[np.float64], t: int, last: int = 1) -> float:
    """(λ_1 − λ_2) (λ_2/λ_1)^{2t} tan²; `last` = −1 puts λ_n in place of the first λ_2."""
    return float((lam[0] - lam[last]) * (lam[1] / lam[0]) ** (2 * t) * weight[1:].sum() / weight[0])


def _random_spectra() -> tuple[int, int]:
    rng = np.random.default_rng(0)
    broken = right = 0
    for _ in range(1000):
        lam, weight, t = np.sort(rng.random(6))[::-1], rng.random(6), int(rng.integers(6))
        error = _error(lam, weight, t)
        broken += error > _printed(lam, weight, t) + 1e-12
        right += error > _printed(lam, weight, t, -1) + 1e-12
    return broken, right


def power_iteration_scale(evidence: Evidence) -> Finding:
    """Top of the rescaled spectrum when a Rayleigh quotient after 5 or 10 steps serves as λ_max."""
    sheaves = [random_laplacian(family, seed, "none") for family in FAMILIES for seed in SEEDS]
    top = {t: [2 * _largest(L) / _rayleigh(L, t) - 1 for L in sheaves] for t in STEPS}
    middle = {t: float(np.median(top[t])) for t in STEPS}
    growth = [np.cosh(DEGREE * np.arccosh(middle[t])) for t in STEPS]
    ours = max(_largest(L) / float(torch.as_tensor(L.lambda_max("lanczos"))) for L in sheaves)
    unsafe = sum(value > 1 + 1e-9 for value in top[10])
    numbers = (
        f"largest eigenvalue of the rescaled operator, which should be 1: after 5 steps {middle[5]:.3f} in "
        f"the median and up to {max(top[5]):.2f}, after 10 {middle[10]:.3f} and up to {max(top[10]):.2f}; "
        f"above 1 on {unsafe} of {len(sheaves)} unnormalised sheaves. At the medians T_16 is {growth[0]:.0f} "
        f"and {growth[1]:.0f} instead of 1. The library's estimate has a margin: λ_1 ≤ {ours:.3f} of it"
    )
    return Finding(CONFIRMED if unsafe == 0 else REFUTED, numbers)


def _largest(L: SheafLaplacian) -> float:
    return float(spectrum(L).max())


def _rayleigh(L: SheafLaplacian, steps: int) -> float:
    x = random_signal(L)
    for _ in range(steps):
        x = L @ x
        x = x / x.norm()
    return float(L.energy(x) / x.square().sum())


def rescaling(evidence: Evidence) -> Finding:
    """‖T_k‖ at the raw Laplacian, at one scaled ten per cent too far, and at the right one."""
    L = random_laplacian("orthogonal", 0, "sheaf", graph=path(12), d=2).to_dense()
    eye = torch.eye(len(L), dtype=L.dtype)
    cases = {"L": L, "2L/(0.9 λ_1) − I": L * 2 / (0.9 * operator_norm(L)) - eye, "L − I": L - eye}
    norms = {name: [_chebyshev_norm(A, K) for K in (4, DEGREE)] for name, A in cases.items()}
    listed = ", ".join(f"of {name} {low:.3g} and {high:.3g}" for name, (low, high) in norms.items())
    numbers = f"‖T_4‖ and ‖T_16‖ {listed}, for a normalised Laplacian with eigenvalues in [0, 2]"
    return decided(norms["L"][1] > 1e6 and norms["L − I"][1] <= 1 + 1e-9, numbers)


def _chebyshev_norm(A: Tensor, degree: int) -> float:
    times: Callable[[Tensor], Tensor] = lambda T: A @ T  # noqa: E731
    return operator_norm(
        list(get_basis("chebyshev1").polynomials(times, torch.eye(len(A)).to(A), degree))[-1]
    )


CLAIMS = (
    Claim("C16", "The normalised Laplacian has its spectrum in [0, 2].", "theory", enclosure),
    Claim("C17", "Under block domination λ_1 ≤ 2 max ‖D_v‖.", "theory", block_bound),
    Claim(
        "C18",
        "The power method errs by at most (λ_1 − λ_2) r^(2t) tan² of the angle.",
        "theory",
        power_iteration_bound,
    ),
    Claim("C19", "5 to 10 power steps give a safe scale.", "theory", power_iteration_scale),
    Claim("C20", "Unscaled, T_k explodes; scaled to [−1, 1], it is stable.", "theory", rescaling),
)
