"""How eigenvalues are distributed, without finding them: stochastic Lanczos quadrature.

For a random vector z with independent entries of mean 0 and variance 1, E zᵀ f(A) z = tr f(A). Lanczos from
z/‖z‖ gives a tridiagonal T = Q Θ Qᵀ with zᵀ f(A) z / ‖z‖² ≈ Σ_i q_{1i}² f(θ_i), exact for polynomials up to
degree 2m − 1. The mean over a few z is a distribution whose first 2m − 1 moments are those of the spectrum up
to the noise of the z, which shrinks like 1/√(n · number of z).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.spectral.bounds import tridiagonalize

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SpectralDensity:
    """The share of eigenvalues at places of the spectrum; shares add up to 1."""

    places: Numbers  # [n] ascending
    shares: Numbers  # [n]

    def below(self, lam: Numbers) -> Numbers:
        """The share of eigenvalues up to λ; half of a place counts at the place itself."""
        ends = np.cumsum(self.shares)
        return np.interp(lam, self.places, ends - self.shares / 2, left=0.0, right=1.0)

    def mean(self, values: Numbers) -> float:
        """The mean over all eigenvalues of what has these values at the places."""
        return float(self.shares @ values)

    def mean_of_lowest(self, values: Numbers, share: float) -> float:
        """The mean over a share of all eigenvalues, the lowest ones; over the highest if it is negative."""
        order = slice(None) if share > 0 else slice(None, None, -1)
        shares, values = self.shares[order], values[order]
        before = np.cumsum(shares) - shares
        weights = np.clip(abs(share) - before, 0.0, shares)
        return float(weights @ values / weights.sum())

    def curve(self, lam: Numbers, width: float) -> Numbers:
        """The density, smoothed by Gaussians of a width; its integral is 1."""
        offsets = (lam[:, None] - self.places) / width
        return np.asarray(np.exp(-0.5 * offsets**2) @ self.shares / (width * np.sqrt(2 * np.pi)))


@torch.no_grad()
def estimate_density(
    product: Callable[[Tensor], Tensor], like: Tensor, *, vectors: int = 8, steps: int = 40, seed: int = 0
) -> SpectralDensity:
    """The distribution of the eigenvalues of a symmetric operator.

    Args:
        product: x ↦ A x on signals `[N, d, C]`, channel by channel.
        like: any signal `[N, d, C]`; gives shape, dtype and device.
        vectors: how many random vectors.
        steps: of Lanczos' recurrence; at most as many as A has rows are taken.
        seed: of the random vectors.
    """
    N, d = like.shape[-3:-1]
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, (N, d, vectors), generator=generator).to(like) * 2 - 1
    start = signs / (N * d) ** 0.5

    def inner(x: Tensor, y: Tensor) -> Tensor:
        return (x * y).sum((0, 1))

    alphas, betas = tridiagonalize(product, start, inner, lambda numbers: numbers, min(steps, N * d))
    off = betas[:, :-1].double().cpu()
    tridiagonal = torch.diag_embed(alphas.double().cpu())
    values, ritz = torch.linalg.eigh(tridiagonal + torch.diag_embed(off, 1) + torch.diag_embed(off, -1))
    places, shares = values.flatten().numpy(), (ritz[:, 0].square() / vectors).flatten().numpy()
    order = np.argsort(places, kind="stable")
    return SpectralDensity(places[order], shares[order])
