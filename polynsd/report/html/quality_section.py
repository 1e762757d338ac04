"""How good predictions are: confusion, calibration, score by degree and by local homophily."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from polynsd.data.describe import degrees, local_homophily
from polynsd.data.graph import Graph
from polynsd.report.html.blocks import (
    Block,
    Chart,
    Section,
    Text,
    bars,
    class_axes,
    hover_text,
    line,
    marked_line,
    percent,
    plot_text,
    points,
    round_numbers,
    shares,
    titled_axes,
)
from polynsd.report.html.predicted import Predicted, Tested
from polynsd.stats import wilson_interval

Numbers = NDArray[np.float64]

BINS = 10  # of confidence
GROUPS = 6  # of degrees
MOST_CLASSES = 25
FEWEST = 5  # nodes of a group
MOST_POINTS = 3000


def quality_section(graph: Graph | None, predicted: Predicted | None, problem: str) -> Section:
    """Where predictions are right: confusion, calibration, score by degree and by local homophily."""
    if predicted is None or graph is None:
        return Section("quality", "Predictions", [Text(problem or "There are no predictions.", "problem")])
    tested = predicted.tested
    if not len(tested.node):
        message = "The predictions of held-out rows were not kept with this run; fit again to see them."
        return Section("quality", "Predictions", [Text(message, "problem")])
    about = f"All pictures here are about {tested.note}."
    blocks: list[Block] = [Text(about)]
    if predicted.classes is None:
        blocks.append(_scatter(tested))
    else:
        if len(predicted.classes) <= MOST_CLASSES:
            blocks.append(_confusion(tested, predicted.classes))
        blocks.append(_calibration(tested))
    blocks.append(_by_degree(tested, degrees(graph), predicted.classes is not None))
    if predicted.classes is not None:
        homophily = local_homophily(graph, predicted.truth)[tested.node]
        if np.isfinite(homophily).any():
            blocks.append(_by_homophily(tested, homophily))
    return Section("quality", "Predictions", blocks)


def _confusion(tested: Tested, classes: tuple[str, ...]) -> Chart:
    C = len(classes)
    counts = np.zeros((C, C), dtype=np.int64)
    known = tested.truth >= 0
    np.add.at(counts, (tested.truth[known], tested.prediction[known]), 1)
    text = [[f"{n:,}" for n in row] for row in counts.tolist()] if C <= 10 else None
    hover = "%{customdata:,} nodes of class %{y}, predicted as %{x}: %{z:.0%}"
    trace = shares(counts / np.maximum(counts.sum(1, keepdims=True), 1), text, hover)
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    sentence = "Rows are true classes; what lies off the diagonal is wrong."
    if wrong.max():
        i, j = np.unravel_index(wrong.argmax(), wrong.shape)
        sentence += (
            f" Most often '{classes[i][:40]}' is taken for '{classes[j][:40]}' ({wrong[i, j]:,} times)."
        )
    layout = class_axes([plot_text(name, 18) for name in classes], "predicted class", "true class")
    traces = [{**trace, "customdata": counts.tolist()}]
    return Chart("What is taken for what", sentence, traces, layout, height=380)


def _calibration(tested: Tested) -> Chart:
    right = tested.prediction == tested.truth
    bins = np.clip((tested.confidence * BINS).astype(np.int64), 0, BINS - 1)
    count = np.bincount(bins, minlength=BINS)
    sure, share = (
        np.bincount(bins, values, BINS) / np.maximum(count, 1)
        for values in (tested.confidence, right.astype(np.float64))
    )
    shown = count >= FEWEST
    model = marked_line(round_numbers(100 * sure[shown]), 100 * share[shown], "this model")
    model["marker"]["size"] = (7 + 13 * np.sqrt(count[shown] / count.max())).tolist()
    model |= {"text": [f"{n:,} nodes" for n in count[shown]]}
    model |= hover_text("predicted with %{x:.0f} %, right in %{y:.0f} % (%{text})")
    honest = {**line([0, 100], [0, 100], "honest", "$muted", dash="dash", width=1), "hoverinfo": "skip"}
    excess = float(tested.confidence.mean() - right.mean())
    gap = float((count * np.abs(sure - share)).sum() / max(1, count.sum()))
    word = "about as sure as it should be"
    if abs(excess) > 0.03:
        word = "too sure of itself" if excess > 0 else "too modest"
    sentence = (
        f"On the dashed line a confidence of 80 % is right in 80 of 100 cases; this model is {word} "
        f"(mean gap {percent(gap)})."
    )
    layout = titled_axes("confidence in %", "right in %") | {"showlegend": False}
    for axis in ("xaxis", "yaxis"):
        layout[axis]["range"] = [0, 102]
    return Chart("Can its confidence be trusted?", sentence, [honest, model], layout, height=380)


def _scatter(tested: Tested) -> Chart:
    step = max(1, len(tested.node) // MOST_POINTS)
    truth, prediction = tested.truth[::step], tested.prediction[::step]
    ends = [float(min(truth.min(), prediction.min())), float(max(truth.max(), prediction.max()))]
    hover = "true %{x:.4g}, predicted %{y:.4g}"
    traces = [
        {**line(ends, ends, "right", "$muted", dash="dash", width=1), "hoverinfo": "skip"},
        points(round_numbers(truth), prediction, "nodes", "$0", size=5, hover=hover, opacity=0.6),
    ]
    layout = titled_axes("true", "predicted") | {"showlegend": False}
    sentence = "The closer to the dashed line, the better."
    return Chart("Predicted against true", sentence, traces, layout, height=380)


def _by_degree(tested: Tested, degree: NDArray[np.int64], is_class: bool) -> Chart:
    values = degree[tested.node].astype(np.float64)
    ends = np.unique(np.quantile(values, np.linspace(0, 1, GROUPS + 1)))
    title = "Score by number of neighbours"
    return _by_groups(title, "neighbours", tested, values, ends, _interval_names(ends), is_class)


def _interval_names(ends: Numbers) -> list[str]:
    """Of groups of whole numbers, [a, b) and the last one closed."""
    if len(ends) == 1:
        return [f"{ends[0]:.0f}"]
    lows = np.ceil(ends[:-1]).astype(int).tolist()
    highs = [*(np.ceil(ends[1:-1]).astype(int) - 1).tolist(), int(ends[-1])]
    return [f"{low}" if low >= high else f"{low}–{high}" for low, high in zip(lows, highs, strict=True)]


def _by_homophily(tested: Tested, values: Numbers) -> Chart:
    ends = np.linspace(0, 1, 6)
    names = [f"{100 * low:.0f}–{100 * high:.0f} %" for low, high in pairwise(ends)]
    title = "Score by agreement with neighbours"
    return _by_groups(title, "neighbours of the same class", tested, values, ends, names, True)


def _by_groups(
    title: str, axis: str, tested: Tested, values: Numbers, ends: Numbers, names: list[str], is_class: bool
) -> Chart:
    """Share of nodes that are right, or the mean error, in groups, with 95 % intervals."""
    known = np.isfinite(values)
    group = np.clip(np.searchsorted(ends, values[known], side="right") - 1, 0, len(names) - 1)
    prediction, truth = tested.prediction[known], tested.truth[known]
    quality = 100.0 * (prediction == truth) if is_class else np.abs(prediction - truth)
    count = np.bincount(group, minlength=len(names))
    mean, square = (np.bincount(group, q, len(names)) / np.maximum(count, 1) for q in (quality, quality**2))
    shown = count >= FEWEST
    mean, square, count = mean[shown], square[shown], count[shown]
    if is_class:
        low, high = wilson_interval(mean / 100, count)
        above, below = 100 * high - mean, mean - 100 * low
    else:
        above = below = 1.96 * np.sqrt(np.maximum(square - mean**2, 0) / count)
    labels = [name for name, keep in zip(names, shown, strict=True) if keep]
    hover = "%{x}: %{y:.3g}" + (" % right" if is_class else "") + " (%{customdata})"
    trace = bars(labels, round_numbers(mean), "$0", hover, ends=(round_numbers(above), round_numbers(below)))
    trace["customdata"] = [f"{n:,} nodes" for n in count]
    sentence = "There are too few nodes to compare."
    if len(mean) > 1 and is_class:
        sentence = (
            f"Right in {mean[0]:.0f} % of the cases on the left and {mean[-1]:.0f} % on the right; the thin "
            "lines are 95 % intervals."
        )
    elif len(mean) > 1:
        sentence = f"The mean error is {mean[0]:.3g} on the left and {mean[-1]:.3g} on the right."
    layout = titled_axes(axis, "right in %" if is_class else "mean absolute error", from_zero=True)
    layout["xaxis"]["type"] = "category"
    if is_class:
        layout["yaxis"]["range"] = [0, 105]
    return Chart(title, sentence, [trace], layout)
