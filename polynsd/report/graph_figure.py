"""A small picture of a graph: its degrees, and which classes meet over its edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.describe import class_mixing, degrees
from polynsd.data.graph import Graph
from polynsd.report.plotting import pyplot

INK = "#1b6ca8"


def graph_figure(path: Path, graph: Graph) -> Path:
    """Writes one PNG: degree distribution (left), class mixing matrix (right, where there are classes)."""
    plt = pyplot()
    has_classes = graph.num_classes > 0 and class_mixing(graph).size > 0
    columns = 2 if has_classes else 1
    figure, axes = plt.subplots(1, columns, figsize=(5 * columns, 4.2), layout="constrained", squeeze=False)
    _degrees(axes[0][0], degrees(graph))
    if has_classes:
        _mixing(figure, axes[0][1], class_mixing(graph), graph.class_names)
    figure.suptitle(f"{graph.name}: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def _degrees(axis: Any, degree: NDArray[np.int64]) -> None:
    values, counts = np.unique(degree, return_counts=True)
    axis.plot(values, counts, "o", color=INK, markersize=4, alpha=0.7)
    axis.set(xlabel="degree", ylabel="nodes", yscale="log", title="degrees")
    axis.set_xscale("symlog", linthresh=1)  # isolated nodes have a place at 0
    axis.set_xlim(left=-0.1 if values.size and values[0] == 0 else 0.8)
    axis.spines[["top", "right"]].set_visible(False)


def _mixing(figure: Any, axis: Any, mixing: NDArray[np.float64], names: tuple[str, ...] | None) -> None:
    """Rows are normalised: where do the edges of a class lead?"""
    totals = mixing.sum(1, keepdims=True)
    rows = np.divide(mixing, totals, out=np.zeros_like(mixing), where=totals > 0)
    image = axis.imshow(rows, vmin=0, vmax=1, cmap="Blues")
    ticks = [str(c) for c in range(len(mixing))] if names is None else list(names)
    axis.set_xticks(range(len(ticks)), ticks, rotation=90 if names else 0)
    axis.set_yticks(range(len(ticks)), ticks)
    axis.set(xlabel="class of the neighbour", ylabel="class of the node", title="where edges lead")
    if len(mixing) <= 10:
        for (i, j), share in np.ndenumerate(rows):
            axis.text(
                j,
                i,
                f"{share:.2f}",
                ha="center",
                va="center",
                fontsize=7,
                color="white" if share > 0.5 else "black",
            )
    figure.colorbar(image, ax=axis, label="share of the node's edges")
