"""Dirichlet energy of every state: how much neighbours disagree, layer by layer.

    E(X_ℓ; L) = ⟨X_ℓ, L X_ℓ⟩,       quotient = ⟨X_ℓ, L X_ℓ⟩ / ⟨X_ℓ, X_ℓ⟩ ∈ [0, λ_max]

with three operators: `own`, the Laplacian that acts on the state; `first`, that of the first layer; `graph`,
the plain graph with F = I. All states are taken at one place, after the update of a layer, so that models can
be compared. The quotient is one of sums over channels, `mean_quotient` the mean of the channels' quotients.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from polynsd.devices import to_wide
from polynsd.diagnostics.operators import plain_laplacian, symmetric_form, symmetric_state
from polynsd.diagnostics.result import finish_figure, make_frame, new_figure
from polynsd.diagnostics.trace import Trace, trace_layers
from polynsd.nn.assembly import Laplacian
from polynsd.palette import COLOURS

if TYPE_CHECKING:
    import pandas as pd

OPERATORS = {
    "own": "the sheaf of the layer",
    "first": "the sheaf of the first layer",
    "graph": "the plain graph",
}


class StateEnergy(NamedTuple):
    """The energy of one state under one operator.

    After the last layer, `own` is what that layer would see in its own output.
    """

    layer: int  # ℓ, 0 for what the encoder gave
    operator: str
    energy: float
    norm: float  # ‖X_ℓ‖
    quotient: float
    mean_quotient: float
    learned_quotient: float  # of the coordinates with learned maps


@dataclass(frozen=True, eq=False)
class Energy:
    """Energies of all states; see the module."""

    rows: tuple[StateEnergy, ...]
    note: str = ""

    def to_frame(self) -> pd.DataFrame:
        """A row per layer and operator."""
        return make_frame([row._asdict() for row in self.rows])

    def values(self, operator: str = "own", name: str = "quotient") -> list[float]:
        """A column for one operator, by layer."""
        return [getattr(row, name) for row in self.rows if row.operator == operator]

    def plot(self, path: str | Path | None = None) -> Any:
        """Quotients (left), energies and norms (right) by layer; an open marker after the last layer."""
        figure, (left, right) = new_figure(2)
        for colour, (operator, words) in zip(COLOURS, OPERATORS.items(), strict=False):
            quotients, energies = (self.values(operator, name) for name in ("quotient", "energy"))
            _draw(left, quotients, operator == "own", color=colour, label=words)
            _draw(right, energies, operator == "own", color=colour, label=f"energy, {words}")
        _draw(right, np.square(self.values("own", "norm")).tolist(), False, color="black", linestyle=":",
              label="‖X‖²")  # fmt: skip
        left.set(ylabel="⟨X, LX⟩ / ⟨X, X⟩", title="energy per unit of the state", ylim=(0, None))
        right.set(ylabel="⟨X, LX⟩", title="energy and size", yscale="log")
        for axis in (left, right):
            axis.set_xlabel("layer")
            axis.set_xticks(range(len(self.values())))
            axis.legend(fontsize=7, frameon=False)
        return finish_figure(figure, "How much neighbours disagree", path)


@torch.no_grad()
def measure_energy(model: nn.Module, graph: Any, *, trace: Trace | None = None) -> Energy:
    """The Dirichlet energy of every state of a model on a graph.

    Args:
        model: with sheaf layers, trained.
        graph: PyG's `Data`, or a `polynsd.data.Graph`.
        trace: what `trace_layers` gave for the two, if it is there.
    """
    trace = trace_layers(model, graph) if trace is None else trace
    plain = plain_laplacian(trace.laplacians[0].topology, trace.laplacians[0])
    rows = []
    for layer, (state, own) in enumerate(zip(trace.states, trace.laplacians, strict=True)):
        operators: dict[str, Laplacian] = {"own": own, "first": trace.laplacians[0], "graph": plain}
        for name, L in operators.items():
            rows.append(StateEnergy(layer, name, *_energies(L, state, trace.learned_dim)))
    return Energy(tuple(rows), trace.note)


def _energies(L: Laplacian, x: Tensor, learned: int) -> tuple[float, float, float, float, float]:
    """Energy, norm, quotient, mean quotient of the channels, quotient of the learned coordinates.

    ⟨x, Lx⟩ by coordinate and channel: L couples learned coordinates with each other and no others with them.
    """
    y = symmetric_state(L, x)
    Ly = symmetric_form(L) @ y
    energy, square = (to_wide(y) * Ly).sum(0), to_wide(y).square().sum(0)  # [D, C]
    per_channel = (energy.sum(0) / square.sum(0))[square.sum(0) > 0]
    mean = per_channel.mean() if len(per_channel) else torch.tensor(torch.nan)
    learned_quotient = energy[:learned].sum() / square[:learned].sum()
    numbers = (energy.sum(), to_wide(x).norm(), energy.sum() / square.sum(), mean, learned_quotient)
    return tuple(float(number) for number in numbers)  # type: ignore[return-value]


def quotient(L: Laplacian, x: Tensor) -> float:
    """⟨x, Lx⟩ / ⟨x, x⟩, a quotient of sums over channels."""
    return _energies(L, x, x.size(-2))[2]


def _draw(axis: Any, values: list[float], is_open: bool, **style: Any) -> None:
    """A line over the layers; the last point is open where it belongs to no layer."""
    axis.plot(range(len(values)), values, marker="o", markersize=5, linewidth=1.5,
              markerfacecolor=style["color"], **style)  # fmt: skip
    if is_open:
        look = {"markersize": 5, "color": style["color"], "markerfacecolor": "white", "zorder": 3}
        axis.plot(len(values) - 1, values[-1], "o", **look)
