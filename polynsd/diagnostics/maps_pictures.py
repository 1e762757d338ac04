"""Pictures of restriction maps: statistics by layer, heat maps, clouds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polynsd.diagnostics.geometry import embed
from polynsd.diagnostics.result import finish_figure, new_figure
from polynsd.palette import OTHERS, OURS

if TYPE_CHECKING:
    from polynsd.diagnostics.maps import Maps

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


def draw_maps(maps: Maps, path: str | Path | None) -> Any:
    """Six statistics by layer, of the trained model and of its control."""
    figure, axes = new_figure(3, 2, size=(3.4, 2.5))
    for axis, (name, title) in zip(axes, PANELS.items(), strict=True):
        for model, look in LOOKS.items():
            values = maps.values(name, model)
            axis.plot(range(1, len(values) + 1), values, label=model, **look)
        axis.set_title(title, fontsize=9)
        axis.set_xticks(range(1, len(maps.transports) + 1))
        if name.endswith("auc"):
            axis.axhline(0.5, color="black", linestyle=":", linewidth=0.8)
        else:
            low, high = axis.get_ylim()
            axis.set_ylim(min(0.0, low), max(LEAST, 1.05 * high))
    for axis in axes[3:]:
        axis.set_xlabel("layer", fontsize=9)
    axes[0].legend(fontsize=8, frameon=False)
    return finish_figure(figure, f"Learned transport along edges ({maps.note})", path)


def draw_heatmaps(maps: Maps, path: str | Path | None) -> Any:
    """Entries of T, a row per edge, sorted by their first principal component, a panel per layer."""
    entries = [T.reshape(len(T), -1)[:: max(1, len(T) // EDGES_SHOWN)] for T in maps.transports]
    limit = max(float(np.abs(values).max()) for values in entries)
    figure, axes = new_figure(len(entries), size=(2.6, 4.0))
    for number, (axis, values) in enumerate(zip(axes, entries, strict=True)):
        order = np.argsort(embed(values)[:, 0], kind="stable")
        image = axis.imshow(
            values[order], aspect="auto", cmap="coolwarm", vmin=-limit, vmax=limit, interpolation="nearest"
        )
        axis.grid(visible=False)
        axis.set(title=f"layer {number + 1}", xlabel="entry of T", yticks=[])
    axes[0].set_ylabel(f"{len(entries[0]):,} edges, sorted")
    figure.colorbar(image, ax=axes)
    return finish_figure(figure, "Transports, edge by edge", path)


def draw_clouds(maps: Maps, path: str | Path | None, method: str) -> Any:
    """Transports as points, coloured by their norm, a panel per layer."""
    figure, axes = new_figure(len(maps.transports), size=(3.2, 3.2))
    norms = [np.linalg.norm(T, axis=(1, 2)) for T in maps.transports]
    low, high = min(map(np.min, norms)), max(map(np.max, norms))
    limits = {"vmin": low, "vmax": max(high, low + LEAST)}
    for number, (axis, T, norm) in enumerate(zip(axes, maps.transports, norms, strict=True)):
        x, y = embed(T.reshape(len(T), -1), method).T
        points = axis.scatter(x, y, c=norm, s=5, cmap="viridis", linewidths=0, **limits)
        axis.grid(visible=False)
        axis.set(title=f"layer {number + 1}", xticks=[], yticks=[])
    figure.colorbar(points, ax=axes, label="‖T‖")
    name = {"pca": "principal components", "umap": "UMAP"}[method]
    return finish_figure(figure, f"Transports in the plane ({name})", path)
