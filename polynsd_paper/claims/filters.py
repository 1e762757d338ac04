"""What a polynomial of a sheaf Laplacian does: reach, energy and boundedness. (C09 to C12)"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from polynsd.config import LayerConfig
from polynsd.nn.layer import SheafLayer
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.spectral.bases import get_basis
from polynsd.spectral.filter import PolynomialFilter
from polynsd.testing.samples import random_tensor
from polynsd_paper.claims.claim import Claim, Evidence, Finding, decided
from polynsd_paper.claims.sheaves import (
    FAMILIES,
    hops,
    matrix_of,
    operator_norm,
    path,
    random_laplacian,
    random_signal,
    spectrum,
)

DEGREE = 3
SUP_DEGREE = 16
BOUNDED = ("chebyshev1", "legendre", "gegenbauer(0.5)")
UNBOUNDED = ("chebyshev2", "chebyshev3", "chebyshev4", "gegenbauer(1.5)", "jacobi(1, 1)")
GRID = np.cos(np.linspace(0, np.pi, 4001))


def samples() -> Iterator[tuple[int, SheafLaplacian]]:
    """Forty sheaves of all families, half of them with edge weights."""
    for family in FAMILIES:
        for seed in range(10):
            yield seed, random_laplacian(family, seed, weighted=seed % 2 == 1)


def mixture(seed: int, degree: int = 8, spread: float = 3.0) -> PolynomialFilter:
    """Random convex weights, from nearly uniform to nearly one-hot."""
    convex = PolynomialFilter("chebyshev1", degree).double().requires_grad_(False)
    convex.theta.copy_(spread * random_tensor(degree + 1, seed=seed))
    return convex


def _matrix(polynomial: PolynomialFilter, L: SheafLaplacian) -> Tensor:
    return matrix_of(lambda x: polynomial(L, x), L)


def locality(evidence: Evidence) -> Finding:
    """Blocks (v, u) of p(L) with dist(v, u) > K, and how far a layer with learned maps looks."""
    beyond = max(_beyond(mixture(seed, DEGREE), L, DEGREE) for seed, L in samples())
    learned, fixed = reach("diagonal"), reach("identity")
    numbers = (
        f"largest entry of p(L) beyond K = {DEGREE} hops on {len(list(samples()))} sheaves: {beyond:g}. The "
        f"input gradient of a layer of degree {DEGREE} reaches {fixed} hops with fixed maps and {learned} "
        "with learned ones, through the normalisation"
    )
    return decided(beyond == 0 and fixed == DEGREE, numbers)


def _beyond(polynomial: PolynomialFilter, L: SheafLaplacian, degree: int) -> float:
    n, d = L.topology.num_nodes, L.stalk_dim
    blocks = _matrix(polynomial, L).reshape(n, d, n, d).abs().amax((1, 3))
    far = torch.as_tensor(hops(L.topology) > degree)
    return float(blocks[far].max()) if far.any() else 0.0


def reach(maps: str) -> int:
    """Hops to the farthest node that a layer's output at the end of a path depends on."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = SheafLayer(1, LayerConfig(stalk_dim=2, degree=DEGREE, maps=maps)).double()
    topology = path(DEGREE + 4)
    x = random_tensor(topology.num_nodes, 2, 1, seed=1)
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x, topology)[0], x)
    return int((jacobian.abs().amax((0, 1, 3, 4)) > 1e-12).nonzero().max())


def commutation_and_energy(evidence: Evidence) -> Finding:
    """The commutator pq − qp, and ⟨px, Lpx⟩ / ⟨x, Lx⟩ for p = (1 + mixture) / 2 ∈ [0, 1]."""
    commutators, ratios = [], []
    for seed, L in samples():
        p, q = (_matrix(mixture(number), L) for number in (seed, seed + 100))
        commutators.append(operator_norm(p @ q - q @ p))
        ratios.append(_energy_ratio((torch.eye(len(p)).double() + p) / 2, L, seed))
    numbers = (
        f"‖pq − qp‖ ≤ {max(commutators):.0e} and energy after / before ≤ {max(ratios):.3f} for 0 ≤ p ≤ 1, "
        f"on {len(ratios)} random sheaves"
    )
    return decided(max(commutators) < 1e-12 and max(ratios) <= 1 + 1e-12, numbers)


def _energy_ratio(p: Tensor, L: SheafLaplacian, seed: int) -> float:
    x = random_signal(L, seed=seed)
    return float(L.energy((p @ x.flatten(0, 1)).reshape(x.shape)) / L.energy(x))


def convex_chebyshev(evidence: Evidence) -> Finding:
    """‖p‖ and the energy for softmax weights; p(λ_max)."""
    norms, ratios = [], []
    for seed, L in samples():
        p = _matrix(mixture(seed), L)
        norms.append(operator_norm(p))
        ratios.append(_energy_ratio(p, L, seed))
    top = [float(mixture(seed).response(torch.tensor([2.0]).double())) for seed in range(10)]
    numbers = (
        f"‖p(L)‖ ≤ {max(norms):.4f} and energy after / before ≤ {max(ratios):.3f} on {len(norms)} sheaves "
        f"with random softmax weights. p(λ_max) = {min(top):.0f} whatever the weights: the highest frequency "
        "is never damped by p"
    )
    return decided(max(norms) <= 1 + 1e-12 and max(ratios) <= 1 + 1e-12, numbers)


def other_bases(evidence: Evidence) -> Finding:
    """Sup norms of the raw bases at K = 16, and of the library's."""
    raw = {name: get_basis(name).sup_norm(SUP_DEGREE) for name in (*BOUNDED, *UNBOUNDED)}
    ours = max(float(np.abs(get_basis(name).evaluate(GRID, SUP_DEGREE)).max()) for name in raw)
    start = {name: _start_norm(name) for name in ("chebyshev2", "chebyshev4")}
    listed = ", ".join(f"{name} {value:.0f}" for name, value in raw.items())
    numbers = (
        f"max |B_16| on [−1, 1] in the usual scaling: {listed}; with uniform weights ‖p‖ is already "
        f"{start['chebyshev2']:.0f} for chebyshev2 and {start['chebyshev4']:.0f} for chebyshev4. The library "
        f"divides by the maximum: {ours:.4f} for all of them"
    )
    return decided(max(raw.values()) <= 1 + 1e-9, numbers)


def _start_norm(name: str) -> float:
    """‖p‖ at initialisation on two nodes joined by an edge, whose eigenvalues are 0 and 2."""
    L: SheafLaplacian = random_laplacian("identity", 0, "sheaf", graph=path(2), d=1)
    p = PolynomialFilter(get_basis(name).raw(), SUP_DEGREE).double().requires_grad_(False)
    return float(p.response(spectrum(L)).abs().max())


CLAIMS = (
    Claim("C09", "A filter of degree K sees exactly K hops.", "theory", locality),
    Claim(
        "C10",
        "Filters of one Laplacian commute; with 0 ≤ p ≤ 1 the Dirichlet energy cannot grow.",
        "theory",
        commutation_and_energy,
    ),
    Claim(
        "C11",
        "Convex mixtures of T_k have norm at most 1 and do not raise the energy.",
        "theory",
        convex_chebyshev,
    ),
    Claim("C12", "The same holds for the other bases.", "theory", other_bases),
)
