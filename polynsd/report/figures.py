"""Figures of a result and of a graph.

Needs matplotlib (`pip install 'polynsd[plots]'`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.describe import class_mixing, degrees
from polynsd.report.panels import OTHERS, OURS, pyplot, save_figure

if TYPE_CHECKING:
    from polynsd.data.graph import Graph
    from polynsd.nn import LayerResponse


def results_figure(
    path: Path,
    title: str,
    scores: Mapping[str, Sequence[float]],
    responses: Mapping[str, Sequence[LayerResponse]],
    chance: float,
) -> Path:
    """Writes one PNG: test accuracy of every model (left), m(λ) and r(λ) of every layer (right).

    Args:
        path: where to write.
        title: of the picture.
        scores: accuracy per split, by model.
        responses: responses per layer, for the models whose filter was learned.
        chance: accuracy of guessing, drawn as a line.
    """
    from polynsd.diagnostics.response import draw_response  # loads models, which other figures do not need

    columns = max(len(layers) for layers in responses.values())
    figure = pyplot().figure(figsize=(7 + 2.6 * columns, 1.2 + 2.2 * len(responses)), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[6, 2.6 * columns + 1])
    _draw_accuracies(left.subplots(), scores, set(responses), chance)
    axes = right.subplots(len(responses), columns, sharex=True, sharey=True, squeeze=False)
    for row, (name, layers) in zip(axes, responses.items(), strict=True):
        for index, (axis, layer) in enumerate(zip(row, layers, strict=True)):
            draw_response(axis, layer.lam.numpy(), layer.r.numpy(), layer.m.numpy())
            axis.set_title(f"{name}, layer {index + 1}", fontsize=9)
            axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel("frequency λ of the sheaf Laplacian")
    right.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title, fontsize=12)
    return save_figure(figure, path)


def _draw_accuracies(axis: Any, scores: Mapping[str, Sequence[float]], ours: set[str], chance: float) -> None:
    names = list(scores)[::-1]
    for row, name in enumerate(names):
        values = 100 * np.asarray(scores[name])
        colour = OURS if name in ours else OTHERS
        axis.barh(row, values.mean(), xerr=values.std(), color=colour, height=0.65, capsize=3)
        axis.plot(values, np.full(len(values), row), "o", color="black", markersize=3, alpha=0.5)
        label = f"{values.mean():.1f} ± {values.std():.1f}"
        axis.text(2, row, label, va="center", color="white", weight="bold")
    axis.set_yticks(range(len(names)), names)
    axis.axvline(100 * chance, color="black", linestyle=":", linewidth=1)
    axis.text(100 * chance, len(names) - 0.45, "guessing", ha="center", fontsize=8)
    axis.set_xlim(0, 100)
    axis.set_xlabel("test accuracy in %  (bar: mean, line: std, dots: splits)")
    axis.spines[["top", "right"]].set_visible(False)


def graph_figure(path: Path, graph: Graph) -> Path:
    """Writes one PNG: degree distribution (left), class mixing matrix (right, where there are classes)."""
    has_classes = graph.num_classes > 0 and class_mixing(graph).size > 0
    columns = 2 if has_classes else 1
    figure, axes = pyplot().subplots(
        1, columns, figsize=(5 * columns, 4.2), layout="constrained", squeeze=False
    )
    _draw_degrees(axes[0][0], degrees(graph))
    if has_classes:
        _draw_mixing(figure, axes[0][1], class_mixing(graph), graph.class_names)
    figure.suptitle(f"{graph.name}: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges")
    return save_figure(figure, path)


def _draw_degrees(axis: Any, degree: NDArray[np.int64]) -> None:
    values, counts = np.unique(degree, return_counts=True)
    axis.plot(values, counts, "o", color=OURS, markersize=4, alpha=0.7)
    axis.set(xlabel="degree", ylabel="nodes", yscale="log", title="degrees")
    axis.set_xscale("symlog", linthresh=1)  # so that degree 0 can be shown
    axis.set_xlim(left=-0.1 if values.size and values[0] == 0 else 0.8)
    axis.spines[["top", "right"]].set_visible(False)


def _draw_mixing(figure: Any, axis: Any, mixing: NDArray[np.float64], names: tuple[str, ...] | None) -> None:
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
            colour = "white" if share > 0.5 else "black"
            axis.text(j, i, f"{share:.2f}", ha="center", va="center", fontsize=7, color=colour)
    figure.colorbar(image, ax=axis, label="share of the node's edges")
