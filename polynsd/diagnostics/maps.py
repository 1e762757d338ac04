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

from polynsd.diagnostics.geometry import auc, effective_rank, mean_kurtosis, separation
from polynsd.diagnostics.holonomy import find_cycles, measure_holonomy
from polynsd.diagnostics.maps_pictures import draw_clouds, draw_heatmaps, draw_maps
from polynsd.diagnostics.operators import learned_maps
from polynsd.diagnostics.result import make_frame
from polynsd.diagnostics.trace import Trace, trace_layers, untrained_copy
from polynsd.errors import ConfigError, DataError, require_at_least

if TYPE_CHECKING:
    import pandas as pd

Numbers = NDArray[np.float64]

CYCLES = 500
KINDS = ("trained", "untrained")


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
        is_same_class: `[n]` whether their ends have one class; None without classes.
        note: how many edges there are, and how many were looked at.
    """

    rows: tuple[MapStatistics, ...]
    transports: tuple[Numbers, ...]
    edges: NDArray[np.int64]
    is_same_class: NDArray[np.bool_] | None
    note: str = ""

    def to_frame(self) -> pd.DataFrame:
        """A row per model and layer."""
        return make_frame([row._asdict() for row in self.rows])

    def values(self, name: str, model: str = "trained") -> list[float]:
        """One statistic by layer."""
        return [getattr(row, name) for row in self.rows if row.model == model]

    def plot(self, path: str | Path | None = None) -> Any:
        """The statistics by layer, trained and untrained."""
        return draw_maps(self, path)

    def plot_heatmaps(self, path: str | Path | None = None) -> Any:
        """The entries of the transports, a row per edge, in the order of their first principal component."""
        return draw_heatmaps(self, path)

    def plot_clouds(self, path: str | Path | None = None, method: str = "pca") -> Any:
        """The transports as points in the plane (`pca`, or `umap` with the extra `geometry`)."""
        return draw_clouds(self, path, method)


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
    control = trace_layers(untrained_copy(model, seed), graph)
    half = _draw_edges(topology.first_half, sample, seed)
    ends = torch.stack([topology.row[half], topology.col[half]], 1)
    is_same = _same_class(getattr(graph, "y", None), ends)
    cycles = find_cycles(topology, CYCLES, seed)
    rows, kept = [], []
    for name, each in zip(KINDS, (trace, control), strict=True):
        for number in range(len(each.layers)):
            maps = learned_maps(each.laplacians[number], each.learned_dim)
            T = maps[half].mT @ maps[topology.twin[half]]
            state = each.states[number][:, : each.learned_dim]
            numbers = _statistics(T, maps[half], state, ends, is_same, seed)
            around = measure_holonomy(topology, maps, cycles)
            numbers["holonomy"] = float(around.mean()) if len(around) else float("nan")
            rows.append(MapStatistics(model=name, layer=number + 1, **numbers))
            kept += [T.cpu().double().numpy()] if name == "trained" else []
    total = topology.num_edges
    found = sum(map(len, cycles))
    note = f"{len(half):,} of {total:,} edges" if len(half) < total else f"all {total:,} edges"
    note += f", {found:,} cycles of three or four nodes"
    note += f"; {trace.note}" if trace.note else ""
    return Maps(tuple(rows), tuple(kept), ends.cpu().numpy(), is_same, note)


def _draw_edges(first: Tensor, sample: int, seed: int) -> Tensor:
    if len(first) <= sample:
        return first
    drawn = torch.randperm(len(first), generator=torch.Generator().manual_seed(seed))[:sample]
    return first[drawn.sort().values.to(first.device)]


def _same_class(y: Any, ends: Tensor) -> NDArray[np.bool_] | None:
    """Whether both ends have one class; None without classes, and where some have none."""
    if y is None:
        return None
    labels = torch.as_tensor(y).to(ends.device)
    if labels.is_floating_point() or labels.dim() > 1:
        return None
    return (labels[ends[:, 0]] == labels[ends[:, 1]]).cpu().numpy()


def _statistics(
    T: Tensor, F: Tensor, state: Tensor, ends: Tensor, is_same: NDArray[np.bool_] | None, seed: int
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
        "norm_auc": _auc(norm, is_same),
        "agreement_auc": _auc(agreement.cpu().double().numpy(), is_same),
        "separation": separation(entries, seed),
        "kurtosis": mean_kurtosis(entries),
        "spread": float(entries.std(0).mean()),
    }


def _auc(score: Numbers, is_same: NDArray[np.bool_] | None) -> float:
    return float("nan") if is_same is None else auc(score, is_same)
