"""Pictures: accuracies beside the learned frequency responses.

Needs matplotlib (`pip install 'polynsd[plots]'`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polynsd.report.plotting import pyplot

if TYPE_CHECKING:
    from polynsd.nn import LayerResponse

OURS, OTHERS, FILTER = "#1b6ca8", "#9aa5b1", "#d1495b"


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
    plt = pyplot()
    columns = max(len(layers) for layers in responses.values())
    figure = plt.figure(figsize=(7 + 2.6 * columns, 1.2 + 2.2 * len(responses)), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[6, 2.6 * columns + 1])
    _accuracies(left.subplots(), scores, set(responses), chance)
    axes = right.subplots(len(responses), columns, sharex=True, sharey=True, squeeze=False)
    for row, (name, layers) in zip(axes, responses.items(), strict=True):
        for index, (axis, layer) in enumerate(zip(row, layers, strict=True)):
            _response(axis, layer, f"{name}, layer {index + 1}")
    for axis in axes[-1]:
        axis.set_xlabel("frequency λ of the sheaf Laplacian")
    right.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title, fontsize=12)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def _accuracies(axis: Any, scores: Mapping[str, Sequence[float]], ours: set[str], chance: float) -> None:
    names = list(scores)[::-1]
    for place, name in enumerate(names):
        values = 100 * np.asarray(scores[name])
        colour = OURS if name in ours else OTHERS
        axis.barh(place, values.mean(), xerr=values.std(), color=colour, height=0.65, capsize=3)
        axis.plot(values, np.full(len(values), place), "o", color="black", markersize=3, alpha=0.5)
        axis.text(
            2, place, f"{values.mean():.1f} ± {values.std():.1f}", va="center", color="white", weight="bold"
        )
    axis.set_yticks(range(len(names)), names)
    axis.axvline(100 * chance, color="black", linestyle=":", linewidth=1)
    axis.text(100 * chance, len(names) - 0.45, "guessing", ha="center", fontsize=8)
    axis.set_xlim(0, 100)
    axis.set_xlabel("test accuracy in %  (bar: mean, line: std, dots: splits)")
    axis.spines[["top", "right"]].set_visible(False)


def _response(axis: Any, response: LayerResponse, title: str) -> None:
    lam, r = response.lam.numpy(), response.r.numpy()
    axis.axhline(0, color="black", linewidth=0.6)
    axis.fill_between(lam, r.min(0), r.max(0), color=OURS, alpha=0.25, linewidth=0)
    axis.plot(lam, r.mean(0), color=OURS, label="r(λ), the whole layer (band: stalk coordinates)")
    axis.plot(lam, response.m.numpy(), "--", color=FILTER, label="m(λ), its filter")
    axis.set_title(title, fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
