"""`PolynomialFilter`: a learnable frequency response applied to a Laplacian, of a sheaf or any other.

    y = p(L̃) x + α c(L) x,   p = Σ_k θ_k B_k,   L̃ = (2 / λ_max) L − I.

The coefficients θ are `convex` (a softmax, so |p| ≤ 1 with a normalized basis), `free`, or values
of p at the zeros of B_{K+1} (`interpolation`: p(ξ_j) = θ_j exactly). The correction c(λ) is
`linear` (1 − λ/λ_max, a low-pass profile) or `high-pass` (λ/λ_max). Both p and c are polynomials in
L̃, so they are added up as one Chebyshev series before they meet the graph: the correction costs no
extra product, and every basis runs the same recurrence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polynsd import kernels
from polynsd.errors import ConfigError, require_at_least, require_choice
from polynsd.spectral.bases import Basis, get_basis
from polynsd.spectral.operator import SpectralOperator

Response = Callable[[NDArray[np.float64]], NDArray[np.float64]]  # f(λ) on an array of eigenvalues

COEFFICIENTS = ("convex", "free", "interpolation")
CORRECTIONS = {"none": (), "linear": (0.5, -0.5), "high-pass": (0.5, 0.5)}  # c(λ) = c₀ + c₁ ξ


def heat_kernel(t: float) -> Response:
    """The response λ ↦ exp(−t λ) of diffusion over a time t ≥ 0."""
    if not t >= 0:
        raise ConfigError(f"diffusion time must not be negative; got t={t}.")
    return lambda lam: np.exp(-t * lam)


def chebyshev_truncation(response: Response, degree: int, lam_max: float = 2.0) -> NDArray[np.float64]:
    """[K + 1] coefficients of the Chebyshev series of a response f(λ) on [0, λ_max], cut after degree K.

    For f analytic in the Bernstein ellipse with parameter ρ > 1 and |f| ≤ M there, the error is at most
    2 M ρ^{−K} / (ρ − 1) on the whole spectrum, hence also in operator norm.
    """
    require_at_least("degree", degree, 0)
    if not 0 < lam_max < math.inf:
        raise ConfigError(f"λ_max must be a positive finite number; got {lam_max}.")
    count = max(256, 4 * (degree + 1))  # aliasing is far below rounding for analytic responses
    angle = (np.arange(count) + 0.5) * math.pi / count
    lam = lam_max / 2 * (np.cos(angle) + 1)
    values = np.broadcast_to(np.asarray(response(lam), dtype=np.float64), lam.shape)
    if not np.isfinite(values).all():
        raise ConfigError(f"a response must be finite on [0, {lam_max:g}]; got NaN or infinity.")
    phi = 2 / count * np.cos(np.outer(np.arange(degree + 1), angle)) @ values
    phi[0] /= 2
    return np.asarray(phi)


class PolynomialFilter(nn.Module):
    """A polynomial of degree K in the rescaled Laplacian.

    Args:
        basis: a `Basis` or its name, e.g. `chebyshev1`, `jacobi(0.5, 0)`.
        degree: K ≥ 0, the number of hops.
        coefficients: `convex`, `free` or `interpolation`.
        correction: `none`, `linear` or `high-pass`.
    """

    to_chebyshev: Tensor
    profile: Tensor
    absent: Tensor  # of a padded filter: −∞ for coefficients beyond its degree

    def __init__(
        self,
        basis: str | Basis = "chebyshev1",
        degree: int = 8,
        coefficients: str = "convex",
        correction: str = "none",
    ) -> None:
        super().__init__()
        require_at_least("degree", degree, 0)
        require_choice("coefficients", coefficients, COEFFICIENTS)
        require_choice("correction", correction, CORRECTIONS)
        self.basis = get_basis(basis)
        self.degree, self.coefficients, self.correction = degree, coefficients, correction
        self.fitted_on: float | None = None  # λ_max of `from_response`
        self.room: int | None = None  # the degree that a padded filter has room for
        self.start: tuple[float, ...] | None = None  # of `start_as`
        self.theta = nn.Parameter(torch.empty(degree + 1))
        self.alpha = nn.Parameter(torch.empty(())) if correction != "none" else None
        self._fill_tables()
        self.reset_parameters()

    @classmethod
    def from_response(
        cls,
        response: Response,
        degree: int,
        lam_max: Tensor | float = 2.0,
        dtype: torch.dtype | None = None,
    ) -> PolynomialFilter:
        """The Chebyshev truncation of a response f(λ) on [0, λ_max], e.g. `heat_kernel(t)`.

        The filter keeps to that λ_max and refuses operators whose spectrum may exceed it.
        """
        module = cls("chebyshev1", degree, "free").to(dtype or torch.get_default_dtype())
        module.fitted_on = lam_max = float(lam_max)
        with torch.no_grad():
            module.theta.copy_(torch.as_tensor(chebyshev_truncation(response, degree, lam_max)))
        return module

    def reset_parameters(self) -> None:
        """Starts from uniform weights (`convex`, `free`), p ≡ 1 (`interpolation`) or by `start_as`; α = 0."""
        if self.start is None:
            uniform = {"convex": 0.0, "free": 1 / (self.degree + 1), "interpolation": 1.0}
            self._set_theta(np.full(self.degree + 1, uniform[self.coefficients]))
        else:
            self.start_as(*self.start)
        if self.alpha is not None:
            nn.init.zeros_(self.alpha)

    def start_as(self, *series: float) -> None:
        """Starts from p = Σ_k series_k T_k: (0, −1) is the adjacency −ξ, (1, 1) is 1 + ξ = 2λ/λ_max.

        Convex weights and too low a degree have no such p and stay as they are.
        """
        if self.coefficients == "convex" or self.degree + 1 < len(series):
            return
        self.start, wanted = series, np.zeros(self.degree + 1)
        wanted[: len(series)] = series
        self._set_theta(np.linalg.solve(self._change_of_basis(), wanted))

    @torch.no_grad()
    def _set_theta(self, values: NDArray[Any]) -> None:
        """θ up to degree K, and zeros where there is room for more."""
        self.theta.zero_()
        self.theta[: self.degree + 1] = torch.as_tensor(values, dtype=self.theta.dtype)

    def pad(self, degree: int) -> None:
        """Makes room for coefficients up to a higher degree, which have no effect: p stays what it is.

        Filters of different degrees can then train as replicas, since they differ in their tables alone.
        """
        require_at_least("degree", degree, self.degree)
        if self.coefficients == "interpolation":
            raise ConfigError("coefficients='interpolation' has other nodes in every degree; no room for it.")
        more = self.theta.new_zeros(degree - self.degree)
        self.theta, self.room = nn.Parameter(torch.cat([self.theta.detach(), more])), degree
        self._fill_tables()

    def weights(self) -> Tensor:
        """θ `[K + 1]` as it enters p: softmaxed when convex."""
        if self.coefficients != "convex":
            return self.theta
        return (self.theta if self.room is None else self.theta + self.absent).softmax(-1)

    def chebyshev_coefficients(self) -> Tensor:
        """φ with p(L̃) + α c(L) = Σ_k φ_k T_k(L̃)."""
        phi = self.weights() @ self.to_chebyshev.mT
        return phi if self.alpha is None else phi + self.alpha[..., None] * self.profile

    def forward(self, L: SpectralOperator, x: Tensor, lam_max: Tensor | float | None = None) -> Tensor:
        """Filters a signal x `[..., N, d, C]`; λ_max is the operator's analytic bound unless given."""
        if lam_max is None:
            lam_max = L.lambda_max() if self.fitted_on is None else self._fitted_bound(L)
        phi, scale = self.chebyshev_coefficients(), _scale(lam_max)
        return _on_parts(L, lambda part, piece: kernels.chebyshev_filter(part.blocks, phi, piece, scale), x)

    def _fitted_bound(self, L: SpectralOperator) -> float:
        """The λ_max that the coefficients were fitted for, which must cover the operator's spectrum."""
        assert self.fitted_on is not None
        bound = float(torch.as_tensor(L.lambda_max()).max())
        if bound > self.fitted_on * (1 + 1e-6):
            raise ConfigError(
                f"this filter was fitted on [0, {self.fitted_on:g}], but the spectrum may reach {bound:g}; "
                f"fit it with lam_max={bound:g}."
            )
        return self.fitted_on

    def response(self, lam: Tensor, lam_max: float = 2.0) -> Tensor:
        """m(λ) = p(2λ/λ_max − 1) + α c(λ), the multiplier of the eigenvectors with eigenvalue λ."""
        lam = lam if lam.is_floating_point() else lam.to(self.theta.dtype)
        phi = self.chebyshev_coefficients().to(lam.dtype)
        xi = 2 * lam / lam_max - 1
        previous, current = torch.ones_like(xi), xi
        total = phi[0] * previous
        for coefficient in phi[1:]:
            total = total + coefficient * current
            previous, current = current, 2 * xi * current - previous
        return total

    def extra_repr(self) -> str:
        return (
            f"{self.basis}, degree={self.degree}, coefficients={self.coefficients}, "
            f"correction={self.correction}"
        )

    def _apply(self, fn: Any, recurse: bool = True) -> PolynomialFilter:
        was_meta = self.theta.is_meta
        super()._apply(fn, recurse)
        self._fill_tables()  # anew in the new dtype: a detour over float32 would cost digits
        if was_meta and not self.theta.is_meta:
            self.reset_parameters()  # built without memory, it starts as it would have
        return self

    def _fill_tables(self) -> None:
        count = len(self.theta)
        length = max(count, 1 if self.alpha is None else 2)
        matrix, profile = np.zeros((length, count)), np.zeros(length)
        change, correction = self._change_of_basis(), CORRECTIONS[self.correction]
        matrix[: self.degree + 1, : self.degree + 1] = change
        profile[: len(correction)] = correction
        tables = {"to_chebyshev": matrix, "profile": profile}
        if self.room is not None:
            tables["absent"] = np.where(np.arange(count) > self.degree, -np.inf, 0.0)
        for name, values in tables.items():
            table = torch.as_tensor(values, dtype=self.theta.dtype, device=self.theta.device)
            self.register_buffer(name, table, persistent=False)

    def _change_of_basis(self) -> NDArray[np.float64]:
        if self.coefficients != "interpolation":
            return self.basis.to_chebyshev(self.degree)
        xi = self.basis.nodes(self.degree + 1)
        return np.asarray(np.linalg.inv(np.polynomial.chebyshev.chebvander(xi, self.degree)))


class Diffusion(nn.Module):
    """The filter of Neural Sheaf Diffusion, p(λ) = λ: `y = L x`, nothing learned."""

    degree = 1
    alpha = None

    def forward(self, L: SpectralOperator, x: Tensor, lam_max: Tensor | float | None = None) -> Tensor:
        """L x; λ_max plays no part."""
        return _on_parts(L, lambda part, piece: kernels.block_product(part.blocks, piece), x)

    def response(self, lam: Tensor, lam_max: float = 2.0) -> Tensor:
        """m(λ) = λ, whatever λ_max is."""
        return lam

    def reset_parameters(self) -> None:
        """Does nothing: there are no parameters."""


def _on_parts(
    L: SpectralOperator, function: Callable[[SpectralOperator, Tensor], Tensor], x: Tensor
) -> Tensor:
    """The function on an operator and a signal, part by part where the operator says so."""
    apply = getattr(L, "apply", None)
    return function(L, x) if apply is None else apply(function, x)


def _scale(lam_max: Tensor | float) -> Tensor | float:
    """2 / λ_max; 0 where λ_max = 0, because then L = 0 and L̃ = −I whatever the scale."""
    if isinstance(lam_max, Tensor):
        return torch.where(lam_max != 0, 2 / lam_max, 0.0).detach()
    if not 0 <= lam_max < math.inf:
        raise ConfigError(f"lam_max must be a bound of the spectrum, finite and not negative; got {lam_max}.")
    return 2 / lam_max if lam_max else 0.0
