"""Smoothness over depth: whether states of different nodes become alike, and whether gradients arrive.

effective rank      exp(−Σ_i p_i log p_i),  p_i = σ_i² / Σ σ²,  of the centred state [N, D·C]
distance            mean of ‖x_u − x_v‖² over random pairs, over twice the mean of ‖x‖²: 1 where nodes are
unrelated, 0 where all are the same (over-smoothing)
edge distance       the same over the edges
gradient            ‖∂ loss / ∂X_ℓ‖, the loss being that of training; vanishing towards the first layer is
what over-squashing and dead layers have in common
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from polynsd.devices import to_wide
from polynsd.diagnostics.result import finish_figure, make_frame, new_figure
from polynsd.diagnostics.trace import Trace, trace_layers
from polynsd.palette import COLOURS

if TYPE_CHECKING:
    import pandas as pd

    from polynsd.topology import Topology

PAIRS = 20_000
ROUNDING = 1e-12  # share of the squares of a state below which differences of nodes are none


class StateSmoothness(NamedTuple):
    """How much the nodes differ in one state."""

    layer: int
    effective_rank: float
    distance: float
    edge_distance: float
    gradient: float  # NaN without labels


@dataclass(frozen=True, eq=False)
class Smoothness:
    """How alike the states of nodes are, by layer; see the module."""

    rows: tuple[StateSmoothness, ...]
    note: str = ""

    def to_frame(self) -> pd.DataFrame:
        """A row per layer."""
        return make_frame([row._asdict() for row in self.rows])

    def plot(self, path: str | Path | None = None) -> Any:
        """Effective rank, distances and gradients by layer."""
        figure, axes = new_figure(3, size=(3.6, 3.0))
        layers = [row.layer for row in self.rows]
        panels = (
            (axes[0], ("effective_rank",), "effective rank", "directions that states use"),
            (axes[1], ("distance", "edge_distance"), "relative distance", "how far nodes are apart"),
            (axes[2], ("gradient",), "‖∂ loss / ∂X‖", "what training hears of a layer"),
        )
        for axis, names, label, title in panels:
            for colour, name in zip(COLOURS, names, strict=False):
                values = [getattr(row, name) for row in self.rows]
                words = {"distance": "random pairs", "edge_distance": "neighbours"}.get(name)
                axis.plot(layers, values, "o-", color=colour, label=words)
            axis.set(xlabel="layer", ylabel=label, title=title)
            axis.set_xticks(layers)
        axes[0].set_ylim(bottom=0)
        axes[1].set_ylim(bottom=0)
        axes[1].legend(fontsize=8, frameon=False)
        axes[2].set_yscale("log")
        axes[2].yaxis.set_minor_formatter("")
        return finish_figure(figure, "Smoothness over depth", path)


def measure_smoothness(
    model: nn.Module,
    graph: Any,
    *,
    mask: Tensor | None = None,
    seed: int = 0,
    trace: Trace | None = None,
) -> Smoothness:
    """Effective rank and distances of all states of a model on a graph, and gradients by layer.

    Args:
        model: with sheaf layers, trained.
        graph: PyG's `Data` with labels `y` for the gradients, or a `polynsd.data.Graph`.
        mask: `[N]` the nodes of the loss; all that have a label unless given.
        seed: of the random pairs.
        trace: what `trace_layers` gave for the two with gradients enabled, if it is there.
    """
    with torch.enable_grad():
        trace = trace_layers(model, graph) if trace is None else trace
        gradients = _gradients(trace, getattr(graph, "y", None), mask)
    rows = []
    for layer, (state, gradient) in enumerate(zip(trace.states, gradients, strict=True)):
        x = to_wide(state.detach()).flatten(-2)
        pairs, edges = _pairs(trace.laplacians[0].topology, x, seed)
        distances = _relative_distance(x, *pairs), _relative_distance(x, *edges)
        rows.append(StateSmoothness(layer, effective_rank(x), *distances, gradient))
    return Smoothness(tuple(rows), trace.note)


def effective_rank(x: Tensor) -> float:
    """Exp of the entropy of σ² / Σσ² of centred rows `[N, P]`; 0 where all rows are the same."""
    centred = x - x.mean(0)
    squares = torch.linalg.eigvalsh(centred.mT @ centred).clamp(min=0)
    if not squares.sum() > ROUNDING * x.square().sum():
        return 0.0
    return float(torch.special.entr(squares / squares.sum()).sum().exp())


def _relative_distance(x: Tensor, v: Tensor, u: Tensor) -> float:
    size = 2 * x.square().sum(-1).mean()
    return float((x[v] - x[u]).square().sum(-1).mean() / size)


def _pairs(topology: Topology, x: Tensor, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Random pairs of nodes, and the ends of the edges or of a sample of them."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.randint(0, len(x), (2, PAIRS), generator=generator).to(x.device)
    first = topology.first_half
    if len(first) > PAIRS:
        first = first[torch.randperm(len(first), generator=generator)[:PAIRS].to(first.device)]
    return [(pairs[0], pairs[1]), (topology.row[first], topology.col[first])]


def _gradients(trace: Trace, y: Any, mask: Tensor | None) -> list[float]:
    """‖∂ loss / ∂X_ℓ‖ of every state; NaN without labels."""
    if y is None:
        return [float("nan")] * len(trace.states)
    output, y = trace.output, torch.as_tensor(y).to(trace.output.device)
    if y.is_floating_point():
        target = y.reshape(output.shape).to(output.dtype)
        is_known = torch.isfinite(target).all(-1) if mask is None else mask.to(output.device)
        loss = functional.mse_loss(output[is_known], target[is_known])
    else:
        is_known = y >= 0 if mask is None else mask.to(output.device)
        loss = functional.cross_entropy(output[is_known], y[is_known])
    found = torch.autograd.grad(
        loss, trace.states, allow_unused=True, materialize_grads=True, retain_graph=True
    )
    return [float(gradient.double().norm()) for gradient in found]
