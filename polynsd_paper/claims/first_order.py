"""Is degree 1 Neural Sheaf Diffusion, and is a higher degree more? (C07, C08)

A layer of degree 1 multiplies the frequency λ by r(λ) = a + bλ with

    a = 1 + tanh ε − θ_0 + θ_1 − α,    b = −(2 θ_1 − α) / λ_max,    a + λ_max b = tanh ε ∈ (−1, 1),

because θ_0 + θ_1 = 1. A step of Neural Sheaf Diffusion has a = 1 + tanh ε, b = −1, λ_max = 2.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polynsd.nn.layer import SheafLayer
from polynsd.spectral.filter import PolynomialFilter
from polynsd.testing.samples import random_tensor
from polynsd_paper.claims.claim import CONFIRMED, PARTLY, REFUTED, Claim, Evidence, Finding, decided
from polynsd_paper.claims.layers import plain_layer, randomised, set_layer
from polynsd_paper.claims.sheaves import FAMILIES, random_laplacian, spectrum

DRAWS = 200
WANTED = [(a, b) for a in (-2.0, 0.0, 1.0, 2.0) for b in (-2.0, -1.0, 0.0, 1.0)]


def coefficients(layer: SheafLayer, lam_max: float = 2.0) -> tuple[float, float]:
    """(a, b) of a layer of degree 1."""
    start, end = layer.response(torch.tensor([0.0, lam_max], dtype=torch.float64), lam_max).r[0].tolist()
    return start, (end - start) / lam_max


def reachable_steps(evidence: Evidence) -> Finding:
    """The sum a + 2b over random layers, and how exactly 1 + ε as a gate meets sixteen given pairs."""
    sums = [a + 2 * b for a, b in (coefficients(_drawn(seed)) for seed in range(DRAWS))]
    error = max(_miss(a, b) for a, b in WANTED)
    numbers = (
        f"every layer of degree 1 is some aI + bL, but a + 2b = tanh ε: {min(sums):.3f} to {max(sums):.3f} "
        f"in {DRAWS} random layers. The plain step (1, −1) has a + 2b = −1, which is reached only in the "
        "limit; of NSD's own steps (1 + tanh ε, −1) those with ε ≤ 0 are out of reach. With gate='linear' "
        f"{len(WANTED)} of {len(WANTED)} given (a, b) are met (error {error:.0e})"
    )
    inside = max(abs(value) for value in sums) < 1 and error < 1e-12
    return Finding(PARTLY if inside else CONFIRMED, numbers)


def _drawn(seed: int) -> SheafLayer:
    return randomised(plain_layer(degree=1), seed)


def _miss(a: float, b: float) -> float:
    """How far a layer with gate 1 + ε stays from (a, b), solved for θ = (½, ½)."""
    alpha = 1 + 2 * b
    layer = set_layer(plain_layer(degree=1, gate="linear"), [0.0, 0.0], alpha, a - 1 + alpha)
    found = coefficients(layer)
    return max(abs(found[0] - a), abs(found[1] - b))


def strictly_more(evidence: Evidence) -> Finding:
    """The distance of p(L) from span{I, L}, relative to p(L), on random sheaves."""
    distances = [
        _distance_to_affine(_mixture(degree, seed), spectrum(random_laplacian(family, seed)))
        for family in FAMILIES
        for degree in (2, 4, 8)
        for seed in range(10)
    ]
    two = _distance_to_affine(_mixture(8, 0), torch.tensor([0.0, 1.5], dtype=torch.float64))
    numbers = (
        f"relative distance of p(L) from span{{I, L}}: at least {min(distances):.3f} in {len(distances)} "
        f"random filters of degree 2, 4 and 8; {two:.0e} where there are two eigenvalues only. Whether "
        "trained filters use it is a matter of C46"
    )
    return decided(min(distances) > 1e-3, numbers, REFUTED)


def _mixture(degree: int, seed: int) -> PolynomialFilter:
    mixture = PolynomialFilter("chebyshev1", degree).double().requires_grad_(False)
    mixture.theta.copy_(random_tensor(degree + 1, seed=seed))
    return mixture


def _distance_to_affine(polynomial: PolynomialFilter, lam: Tensor) -> float:
    """Frobenius distance of p(L) from its best aI + bL: a straight line through (λ_i, p(λ_i))."""
    values = polynomial.response(lam)[:, None]
    line = torch.stack([torch.ones_like(lam), lam], 1)
    return float((values - line @ torch.linalg.lstsq(line, values).solution).norm() / values.norm())


CLAIMS = (
    Claim("C07", "A layer of degree 1 is some aI + bL, and every (a, b) is one.", "theory", reachable_steps),
    Claim("C08", "Filters of degree above 1 are in general no aI + bL.", "theory", strictly_more),
)
