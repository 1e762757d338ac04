"""Frequency responses: what every layer does to the frequencies λ of its sheaf.

    m(λ) = p(2λ/λ_max − 1) + α c(λ)          the filter: polynomial and correction
    r(λ) = gain − m(λ)                       what the layer applies, one curve per stalk coordinate
    Π_ℓ r_ℓ(λ)                               all layers, if maps were the same in all and φ, W the identity

In continuous time a layer is a piece Δt of time, and r(λ) = exp(−Δt m(λ)).

Statistics of m as printed are means over equal steps of λ: G_low over λ ≤ 0.2 λ_max, G_high over
λ ≥ 0.8 λ_max, ΔG = G_high − G_low, and how often m changes between rising and falling. Eigenvalues are not in
equal steps, so `weighted_…` has means over the fifth of all eigenvalues of the layer's Laplacian that are
lowest, or highest, by an estimate of their distribution (`spectral/density.py`).

With convex coefficients, `from_uniform` = ‖θ − 1/(K + 1)‖₁ and the entropy of θ say how far a polynomial was
learned at all; with others both are NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polynsd.devices import to_wide
from polynsd.diagnostics.operators import symmetric_form
from polynsd.diagnostics.result import finish_figure, make_frame, new_figure
from polynsd.diagnostics.trace import Trace, trace_layers
from polynsd.nn import SheafLayer
from polynsd.nn.assembly import Laplacian
from polynsd.palette import ACCENT, OTHERS, OURS
from polynsd.spectral import PolynomialFilter, SpectralDensity, estimate_density

if TYPE_CHECKING:
    import pandas as pd

Numbers = NDArray[np.float64]

GRID = 400  # equal steps of λ, as published
LOW, HIGH = 0.2, 0.8  # of λ_max
FLAT = 1e-9  # changes of m that count as none
PROBES = 2**19  # numbers of all random vectors together, at most


@dataclass(frozen=True, eq=False)
class LayerCurves:
    """The curves of one layer on a grid of frequencies."""

    lam: Numbers  # [n]
    polynomial: Numbers  # [n] p
    correction: Numbers  # [n] α c
    m: Numbers  # [n]
    r: Numbers  # [D, n]
    density: SpectralDensity


class ResponseRow(NamedTuple):
    """The statistics of one layer's filter."""

    layer: int
    low: float
    high: float
    difference: float
    ratio: float
    sign_changes: int
    weighted_low: float
    weighted_high: float
    alpha: float  # 0 without a correction
    from_uniform: float
    entropy: float
    lambda_max: float


@dataclass(frozen=True, eq=False)
class Response:
    """Responses of all layers; see the module."""

    rows: tuple[ResponseRow, ...]
    curves: tuple[LayerCurves, ...]
    stack: Numbers  # [D, n] Π_ℓ r_ℓ on the grid of the first layer, relative to λ_max
    note: str = ""

    @property
    def stack_changes(self) -> float:
        """How often the response of all layers changes between rising and falling: mean over coordinates."""
        return float(np.mean([count_changes(curve) for curve in self.stack]))

    def to_frame(self) -> pd.DataFrame:
        """A row per layer."""
        return make_frame([row._asdict() for row in self.rows])

    def plot(self, path: str | Path | None = None) -> Any:
        """M and r of every layer over the density of its eigenvalues."""
        figure, axes = new_figure(len(self.curves), size=(3.4, 3.2))
        for number, (axis, curves) in enumerate(zip(axes, self.curves, strict=True)):
            _draw_layer(axis, curves)
            axis.set(title=f"layer {number + 1}", xlabel="frequency λ of the sheaf Laplacian")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
        return finish_figure(figure, "What layers do to frequencies", path)


@torch.no_grad()
def measure_response(model: nn.Module, graph: Any, *, seed: int = 0, trace: Trace | None = None) -> Response:
    """The frequency responses of a model's layers, over the spectra of its sheaves on a graph.

    Args:
        model: with sheaf layers, trained.
        graph: PyG's `Data`, or a `polynsd.data.Graph`.
        seed: of the random vectors that estimate the distribution of eigenvalues.
        trace: what `trace_layers` gave for the two, if it is there.
    """
    trace = trace_layers(model, graph) if trace is None else trace
    rows, curves = [], []
    for number, (layer, L) in enumerate(zip(trace.layers, trace.laplacians, strict=False)):
        lam_max = float(torch.as_tensor(L.lambda_max(layer.config.lambda_max)).max()) or 1.0
        curves.append(_curves(layer, lam_max, _density(L, seed), L.device, trace.piece))
        rows.append(_statistics(number + 1, layer, curves[-1], L.device))
    stack = np.prod([each.r for each in curves], axis=0)
    return Response(tuple(rows), tuple(curves), stack, trace.note)


def count_changes(values: Numbers) -> int:
    """How often a curve changes between rising and falling; where it is flat it does neither."""
    steps = np.diff(values)
    steps = steps[np.abs(steps) > FLAT * max(1.0, float(np.abs(values).max()))]
    return int((np.sign(steps[1:]) != np.sign(steps[:-1])).sum())


def _density(L: Laplacian, seed: int) -> SpectralDensity:
    """As many random vectors as a graph of this size needs: their noise shrinks with it."""
    A = symmetric_form(L)
    rows = A.shape[0]
    vectors = max(2, min(16, PROBES // max(rows, 1)))
    like = torch.empty(A.topology.num_nodes, A.stalk_dim, 1, dtype=A.dtype, device=A.device)
    return estimate_density(A.__matmul__, like, vectors=vectors, seed=seed)


def _curves(
    layer: SheafLayer, lam_max: float, density: SpectralDensity, device: torch.device, piece: float | None
) -> LayerCurves:
    lam = to_wide(torch.linspace(0, lam_max, GRID, device=device))
    found = layer.response(lam, lam_max)
    if piece is not None:
        found = found._replace(r=(-piece * found.m).exp().expand_as(found.r))
    correction = _correction(layer, lam, lam_max)
    m, r, added = (t.cpu().double().numpy() for t in (found.m, found.r, correction))
    return LayerCurves(lam.cpu().double().numpy(), m - added, added, m, r, density)


def _correction(layer: SheafLayer, lam: Tensor, lam_max: float) -> Tensor:
    """The part α c(λ) of the filter."""
    if not isinstance(layer.filter, PolynomialFilter) or layer.filter.alpha is None:
        return torch.zeros_like(lam)
    constant, slope = layer.filter.profile[:2].to(lam)
    return layer.filter.alpha.to(lam) * (constant + slope * (2 * lam / lam_max - 1))


def _statistics(number: int, layer: SheafLayer, curves: LayerCurves, device: torch.device) -> ResponseRow:
    m, lam_max = curves.m, float(curves.lam[-1])
    low, high = (
        float(m[part].mean()) for part in (curves.lam <= LOW * lam_max, curves.lam >= HIGH * lam_max)
    )
    weighted = (nan, nan)
    if len(curves.density.places):
        places = torch.from_numpy(curves.density.places).to(device)
        at_places = layer.filter.response(to_wide(places), lam_max).cpu().double().numpy()
        shares = (LOW, HIGH - 1.0)
        weighted = tuple(curves.density.mean_of_lowest(at_places, share) for share in shares)  # type: ignore[assignment]
    alpha, from_uniform, entropy = _coefficients(layer)
    return ResponseRow(
        number, low, high, high - low, high / (low + 1e-8), count_changes(m), *weighted,
        alpha, from_uniform, entropy, lam_max,
    )  # fmt: skip


def _coefficients(layer: SheafLayer) -> tuple[float, float, float]:
    """α, ‖θ − uniform‖₁ and the entropy of θ; NaN where θ is no distribution."""
    learned = layer.filter
    if not isinstance(learned, PolynomialFilter):
        return 0.0, nan, nan
    alpha = 0.0 if learned.alpha is None else float(learned.alpha)
    if learned.coefficients != "convex":
        return alpha, nan, nan
    theta = to_wide(learned.weights())
    return alpha, float((theta - 1 / len(theta)).abs().sum()), float(torch.special.entr(theta).sum())


def _draw_layer(axis: Any, curves: LayerCurves) -> None:
    lam, r = curves.lam, curves.r
    if len(curves.density.places):
        shape = curves.density.curve(lam, width=lam[-1] / 50)
        low, high = min(0.0, r.min(), curves.m.min()), max(r.max(), curves.m.max())
        axis.fill_between(
            lam, low, low + 0.6 * (high - low) * shape / shape.max(), color=OTHERS, alpha=0.35, linewidth=0,
            label="density of eigenvalues",
        )  # fmt: skip
    draw_response(axis, lam, r, curves.m)
    if np.abs(curves.correction).max() > 0:
        axis.plot(lam, curves.correction, ":", color="black", label="α c(λ), its correction")


def draw_response(axis: Any, lam: Numbers, r: Numbers, m: Numbers) -> None:
    """r(λ) `[D, n]`, as mean and band over stalk coordinates, and m(λ) `[n]` of a layer."""
    axis.axhline(0, color="black", linewidth=0.6)
    axis.fill_between(lam, r.min(0), r.max(0), color=OURS, alpha=0.25, linewidth=0)
    axis.plot(lam, r.mean(0), color=OURS, label="r(λ), the whole layer (band: stalk coordinates)")
    axis.plot(lam, m, "--", color=ACCENT, label="m(λ), its filter")
