"""The geometry of restriction maps, layer by layer, beside a model that was never trained.

Of the learned maps F of a layer and the transports T_vu = F_vᵀF_u along its edges (one per edge, v < u, not
normalised):

    norm, map_norm        mean ‖T‖_F and ‖F‖_F
    effective_rank        of T: exp of the entropy of its singular values
    from_identity         mean ‖T − I‖_F / √d
    from_orthogonal       mean ‖TᵀT − I‖_F / √d
    holonomy              transport around short cycles (`holonomy.py`); NaN without such cycles
    norm_auc              the probability that ‖T‖ is larger on an edge between nodes of one class than on
                          another; ½ where the norm tells nothing
    agreement_auc         the same of the cosine between x_v and T_vu x_u, x the state that the layer sees
    separation, kurtosis  silhouette of two clusters, and mean excess kurtosis, of the entries of T
    spread                mean standard deviation of the entries of T: the contrast of the heat map
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polynsd.diagnostics.geometry import auc, effective_rank, embed, mean_kurtosis, separation
from polynsd.diagnostics.holonomy import find_cycles, measure_holonomy
from polynsd.diagnostics.operators import learned_maps
from polynsd.diagnostics.result import finish_figure, make_frame, new_figure
from polynsd.diagnostics.trace import Trace, trace_layers, untrained_copy
from polynsd.errors import ConfigError, DataError, require_at_least
from polynsd.palette import OTHERS, OURS

if TYPE_CHECKING:
    import pandas as pd

Numbers = NDArray[np.float64]

CYCLES = 500
PANELS = {
    "norm": "mean ‖T‖",
    "from_identity": "distance from I",
    "from_orthogonal": "distance from orthogonal",
    "holonomy": "holonomy of short cycles",
    "agreement_auc": "AUC: neighbours of one class agree more",
    "separation": "separation of two clusters",
}
LOOKS = {"untrained": {"color": OTHERS, "marker": "s"}, "trained": {"color": OURS, "marker": "o"}}
LEAST = 0.05  # height of an axis: what is smaller is rounding
EDGES_SHOWN = 400  # rows of a heat map


class MapStatistics(NamedTuple):
    """Of the maps of one layer; see the module."""

    model: str  # trained or untrained
    layer: int
    norm: float
    map_norm: float
    largest: float  # mean largest singular value of T
    smallest: float  # mean smallest one
    effective_rank: float
    from_identity: float
    from_orthogonal: float
    holonomy: float
    norm_auc: float
    agreement_auc: float
    separation: float
    kurtosis: float
    spread: float


@dataclass(frozen=True, eq=False)
class Maps:
    """Statistics of the maps of all layers, and a sample of the transports themselves.

    Attributes:
        rows: by model (trained, untrained) and layer.
        transports: of the trained model, layer by layer: `[n, d, d]` at the same edges.
        edges: `[n, 2]` these edges.
        same_class: `[n]` 1 where their ends have one class, 0 where they have two, −1 where the class of an
            end is not known; None without classes.
        note: how many edges there are, and how many were looked at.
    """

    rows: tuple[MapStatistics, ...]
    transports: tuple[Numbers, ...]
    edges: NDArray[np.int64]
    same_class: NDArray[np.int8] | None
    note: str = ""

    def to_frame(self) -> pd.DataFrame:
        """A row per model and layer."""
        return make_frame([row._asdict() for row in self.rows])

    def values(self, name: str, model: str = "trained") -> list[float]:
        """One statistic by layer."""
        return [getattr(row, name) for row in self.rows if row.model == model]

    def plot(self, path: str | Path | None = None) -> Any:
        """Six statistics by layer, trained and untrained."""
        figure, axes = new_figure(3, 2, size=(3.4, 2.5))
        for axis, (name, title) in zip(axes, PANELS.items(), strict=True):
            for model, look in LOOKS.items():
                values = self.values(name, model)
                axis.plot(range(1, len(values) + 1), values, label=model, **look)
            axis.set_title(title, fontsize=9)
            axis.set_xticks(range(1, len(self.transports) + 1))
            if name.endswith("auc"):
                axis.axhline(0.5, color="black", linestyle=":", linewidth=0.8)
            else:
                low, high = axis.get_ylim()
                axis.set_ylim(min(0.0, low), max(LEAST, 1.05 * high))
        for axis in axes[3:]:
            axis.set_xlabel("layer", fontsize=9)
        axes[0].legend(fontsize=8, frameon=False)
        return finish_figure(figure, f"Learned transport along edges ({self.note})", path)

    def plot_heatmaps(self, path: str | Path | None = None) -> Any:
        """The entries of T, a row per edge, in the order of their first principal component."""
        entries = [T.reshape(len(T), -1)[:: max(1, len(T) // EDGES_SHOWN)] for T in self.transports]
        limit = max(float(np.abs(values).max()) for values in entries)
        figure, axes = new_figure(len(entries), size=(2.6, 4.0))
        for number, (axis, values) in enumerate(zip(axes, entries, strict=True)):
            order = np.argsort(embed(values)[:, 0], kind="stable")
            colours = {"cmap": "coolwarm", "vmin": -limit, "vmax": limit}
            image = axis.imshow(values[order], aspect="auto", interpolation="nearest", **colours)
            axis.grid(visible=False)
            axis.set(title=f"layer {number + 1}", xlabel="entry of T", yticks=[])
        axes[0].set_ylabel(f"{len(entries[0]):,} edges, sorted")
        figure.colorbar(image, ax=axes)
        return finish_figure(figure, "Transports, edge by edge", path)

    def plot_clouds(self, path: str | Path | None = None, method: str = "pca") -> Any:
        """Transports as points in the plane (`pca`, or `umap` with the extra `geometry`), by norm."""
        figure, axes = new_figure(len(self.transports), size=(3.2, 3.2))
        norms = [np.linalg.norm(T, axis=(1, 2)) for T in self.transports]
        low, high = min(map(np.min, norms)), max(map(np.max, norms))
        limits = {"vmin": low, "vmax": max(high, low + LEAST)}
        for number, (axis, T, norm) in enumerate(zip(axes, self.transports, norms, strict=True)):
            x, y = embed(T.reshape(len(T), -1), method).T
            points = axis.scatter(x, y, c=norm, s=5, cmap="viridis", linewidths=0, **limits)
            axis.grid(visible=False)
            axis.set(title=f"layer {number + 1}", xticks=[], yticks=[])
        figure.colorbar(points, ax=axes, label="‖T‖")
        name = {"pca": "principal components", "umap": "UMAP"}[method]
        return finish_figure(figure, f"Transports in the plane ({name})", path)


@torch.no_grad()
def measure_maps(
    model: nn.Module,
    graph: Any,
    *,
    sample: int = 5000,
    seed: int = 0,
    trace: Trace | None = None,
) -> Maps:
    """The geometry of a model's restriction maps on a graph, beside the same model with new parameters.

    Args:
        model: with sheaf layers whose maps are learned, trained.
        graph: PyG's `Data` with classes `y` for the comparison of edges, or a `polynsd.data.Graph`.
        sample: at most so many edges are looked at.
        seed: of the edges, the cycles and the new parameters.
        trace: what `trace_layers` gave for model and graph, if it is there.
    """
    require_at_least("sample", sample, 3)
    trace = trace_layers(model, graph) if trace is None else trace
    if not trace.layers[0].config.family.is_learned:
        raise ConfigError(
            f"the maps of this {type(model).__name__} are the identity and are not learned; there is nothing "
            "to see in them."
        )
    topology = trace.laplacians[0].topology
    if not topology.num_edges:
        raise DataError("the graph has no edges, so there is no transport to look at.")
    traces = {"trained": trace, "untrained": trace_layers(untrained_copy(model, seed), graph)}
    half = _draw_edges(topology.first_half, sample, seed)
    ends = torch.stack([topology.row[half], topology.col[half]], 1)
    same = _same_class(getattr(graph, "y", None), ends)
    cycles = find_cycles(topology, CYCLES, seed)
    rows, kept = [], []
    for name, each in traces.items():
        for number in range(len(each.layers)):
            maps = learned_maps(each.laplacians[number], each.learned_dim)
            T = maps[half].mT @ maps[topology.twin[half]]
            state = each.states[number][:, : each.learned_dim]
            numbers = _statistics(T, maps[half], state, ends, same, seed)
            around = measure_holonomy(topology, maps, cycles)
            numbers["holonomy"] = float(around.mean()) if len(around) else float("nan")
            rows.append(MapStatistics(model=name, layer=number + 1, **numbers))
            if name == "trained":
                kept.append(T.cpu().double().numpy())
    total = topology.num_edges
    found = sum(map(len, cycles))
    note = f"{len(half):,} of {total:,} edges" if len(half) < total else f"all {total:,} edges"
    note += f", {found:,} cycles of three or four nodes"
    note += f"; {trace.note}" if trace.note else ""
    return Maps(tuple(rows), tuple(kept), ends.cpu().numpy(), same, note)


def _draw_edges(first: Tensor, sample: int, seed: int) -> Tensor:
    if len(first) <= sample:
        return first
    drawn = torch.randperm(len(first), generator=torch.Generator().manual_seed(seed))[:sample]
    return first[drawn.sort().values.to(first.device)]


def _same_class(y: Any, ends: Tensor) -> NDArray[np.int8] | None:
    """`same_class` of `Maps`; the class of a node without a label is −1."""
    if y is None:
        return None
    labels = torch.as_tensor(y).to(ends.device)
    if labels.is_floating_point() or labels.dim() > 1:
        return None
    same = (labels[ends[:, 0]] == labels[ends[:, 1]]).char()
    return same.masked_fill((labels[ends] < 0).any(1), -1).cpu().numpy()


def _statistics(
    T: Tensor, F: Tensor, state: Tensor, ends: Tensor, same: NDArray[np.int8] | None, seed: int
) -> dict[str, float]:
    d = T.size(-1)
    eye = torch.eye(d, dtype=T.dtype, device=T.device)
    received = T @ state[ends[:, 1]]
    agreement = torch.cosine_similarity(state[ends[:, 0]].flatten(1), received.flatten(1), dim=1)
    norm = T.flatten(1).norm(dim=1).cpu().double().numpy()
    singular = torch.linalg.svdvals(T).cpu().double().numpy()
    entries = T.flatten(1).cpu().double().numpy()
    return {
        "norm": float(norm.mean()),
        "map_norm": float(F.flatten(1).norm(dim=1).mean()),
        "largest": float(singular[:, 0].mean()),
        "smallest": float(singular[:, -1].mean()),
        "effective_rank": float(effective_rank(singular).mean()),
        "from_identity": float((T - eye).flatten(1).norm(dim=1).mean()) / d**0.5,
        "from_orthogonal": float((T.mT @ T - eye).flatten(1).norm(dim=1).mean()) / d**0.5,
        "norm_auc": _auc(norm, same),
        "agreement_auc": _auc(agreement.cpu().double().numpy(), same),
        "separation": separation(entries, seed),
        "kurtosis": mean_kurtosis(entries),
        "spread": float(entries.std(0).mean()),
    }


def _auc(score: Numbers, same: NDArray[np.int8] | None) -> float:
    """Of the edges whose ends both have a class."""
    return float("nan") if same is None else auc(score[same >= 0], same[same >= 0] > 0)
