"""A look inside the model: frequencies, energy and influence, maps (`polynsd.diagnostics`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polynsd.diagnostics import Diagnosis, Energy, Influence, Maps, Response, Smoothness
from polynsd.diagnostics.geometry import embed
from polynsd.diagnostics.response import LayerCurves
from polynsd.report.html.blocks import (
    Block,
    Chart,
    Section,
    Text,
    Trace,
    band,
    line,
    log_axis,
    marked_line,
    number,
    points,
    round_numbers,
    titled_axes,
)

POINTS = 80  # of a curve over frequencies
CLOUD = 800  # transports in a picture
LEAST = 0.05  # height of an axis: what is smaller is rounding
FLAT = 1e-3  # holonomy below it is rounding
DASHES = ("solid", "dash", "dot")
TITLES = {"frequencies": "Frequencies", "reach": "Energy and reach", "maps": "Maps"}
INTRODUCTIONS = {
    "frequencies": "A layer mixes what a node holds with what its neighbours hold. Slow changes over the "
    "graph, in which neighbours agree, have a low frequency; fast ones, in which they differ, a high one. ",
    "reach": "",
    "maps": "A map turns what a neighbour says before it is used; the identity leaves it as it is, and then "
    "the model is a plain graph network. ",
}


def inside_sections(diagnosis: Diagnosis | None, label: str, problem: str) -> list[Section]:
    """Three tabs: frequencies, energy and reach, and maps of the model that `label` names."""
    if diagnosis is None:
        return [Section(key, title, [Text(problem, "problem")]) for key, title in TITLES.items()]
    about = f"All of this is about the model of {label}"
    about += f" on {diagnosis.note}." if diagnosis.note else "."
    measured: dict[str, list[Block]] = {
        "frequencies": _measured(diagnosis, "response", _response),
        "reach": _measured(diagnosis, "energy", _energy)
        + _measured(diagnosis, "influence", _influence)
        + _measured(diagnosis, "smoothness", _smoothness),
        "maps": _measured(diagnosis, "maps", _maps),
    }
    return [
        Section(key, title, [Text(INTRODUCTIONS[key] + about), *_once(measured[key])])
        for key, title in TITLES.items()
    ]


def _once(blocks: list[Block]) -> list[Block]:
    """Without the same sentence twice: several measures may have failed for one reason."""
    return [block for number, block in enumerate(blocks) if block not in blocks[:number]]


def _measured(diagnosis: Diagnosis, name: str, draw: Callable[[Any], list[Block]]) -> list[Block]:
    """The pictures of a measure, or why there are none."""
    if name in diagnosis.problems:
        return [Text(diagnosis.problems[name], "problem")]
    result = diagnosis.results[name]
    note: list[Block] = [Text(f"Measured on {result.note}.")] if result.note else []
    return draw(result) + note


def _lines(x: list[Any], series: dict[str, list[float]]) -> list[Trace]:
    return [
        marked_line(x, values, name, f"${index}", dash=DASHES[index % 3])
        for index, (name, values) in enumerate(series.items())
    ]


def _response(found: Response) -> list[Block]:
    return [
        Chart(
            f"Layer {row.layer}",
            "Where the solid line is far from 0, changes of that frequency pass; this layer "
            f"{_describe_gain(curves.r.mean(0))}.",
            _response_traces(curves),
            titled_axes("frequency λ", "gain"),
            height=350,
        )
        for row, curves in zip(found.rows, found.curves, strict=True)
    ]


def _response_traces(curves: LayerCurves) -> list[Trace]:
    """The density of eigenvalues as a shadow, r(λ) with its band over stalk coordinates, and the filter."""
    step = max(1, len(curves.lam) // POINTS)
    lam, r, m = curves.lam[::step], curves.r[:, ::step], curves.m[::step]
    x = round_numbers(lam, 4)
    traces: list[Trace] = []
    if len(curves.density.places):
        low, high = min(0.0, float(r.min()), float(m.min())), max(float(r.max()), float(m.max()))
        shape = curves.density.curve(lam, width=lam[-1] / 50)
        shape = low + 0.6 * (high - low) * shape / max(float(shape.max()), 1e-12)
        traces += band(x, np.full(len(x), low), shape, "frequencies of the graph", "$greya")
    if len(r) > 1:
        traces += band(x, r.min(0), r.max(0), "", "$0a")
    traces.append(line(x, r.mean(0), "layer r(λ)", "$0", width=2.5))
    if np.abs(r - m).max() > 1e-3 * np.abs(r).max():  # otherwise one hides the other
        traces.append(line(x, m, "its filter m(λ)", "$1", dash="dash", width=1.5))
    return traces


def _describe_gain(r: Any) -> str:
    """What a response does to the lowest and the highest third of the frequencies, in words."""
    third = max(1, len(r) // 3)
    low, high = float(r[:third].mean()), float(r[-third:].mean())
    if abs(low) > 1.5 * abs(high):
        return "keeps slow changes and damps fast ones: it averages neighbours"
    if abs(high) > 1.5 * abs(low):
        return "keeps fast changes and damps slow ones: it looks for differences between neighbours"
    if low * high >= 0:
        return "treats slow and fast changes alike"
    if low > 0:
        return "adds what neighbours share and takes away what they differ in"
    return "adds what neighbours differ in and takes away what they share"


def _energy(found: Energy) -> list[Block]:
    series = {"by the learned sheaf": found.values("own"), "by the plain graph": found.values("graph")}
    own = series["by the learned sheaf"]
    word = "falls: neighbours become more alike" if own[-1] < own[0] else "rises: neighbours are kept apart"
    sentence = (
        "The height says how much neighbours disagree; from the input to the last layer the solid line "
        f"{word}."
    )
    layout = titled_axes("after layer", "energy per unit", is_layer=True, from_zero=True)
    return [Chart("How much neighbours disagree", sentence, _lines(list(range(len(own))), series), layout)]


def _influence(found: Influence) -> list[Block]:
    words = {"full": "in all ways", "frozen": "through states alone"}
    series: dict[str, list[float]] = {}
    for path in found.totals:
        curve = found.relative(path)
        series[words[path]] = np.where(curve > 0, curve, np.nan).tolist()
    distance = list(range(len(next(iter(series.values())))))
    layout = titled_axes("distance in hops", "", is_layer=True)
    layout["yaxis"] = log_axis("influence of a node, own = 1", *series.values())
    sentence = (
        "The faster the line falls, the shorter the sight; influence comes from "
        f"{number(round(found.range(), 2))} hops away on average ({len(found.targets)} nodes were looked "
        "from)."
    )
    return [Chart("How far a prediction listens", sentence, _lines(distance, series), layout)]


def _smoothness(found: Smoothness) -> list[Block]:
    layers = [row.layer for row in found.rows]
    distance = {
        "any two nodes": [row.distance for row in found.rows],
        "neighbours": [row.edge_distance for row in found.rows],
    }
    last = distance["any two nodes"][-1]
    word = "nodes have become almost the same (over-smoothing)" if last < LEAST else "nodes stay apart"
    layout = titled_axes("after layer", "relative distance", is_layer=True, from_zero=True)
    sentence = f"At 0 all nodes are the same; here {word}."
    charts: list[Block] = [Chart("How alike nodes become", sentence, _lines(layers, distance), layout)]
    gradient = [row.gradient for row in found.rows]
    if np.isfinite(gradient).any():
        layout = titled_axes("layer", "", is_layer=True)
        layout["yaxis"] = log_axis("size of the gradient", gradient)
        sentence = "A point far below the others is a layer that training hardly reaches."
        charts.append(
            Chart("What training hears of a layer", sentence, _lines(layers, {"gradient": gradient}), layout)
        )
    return charts


STATISTICS = {
    "from_identity": "How much maps turn",
    "holonomy": "Turning around short cycles",
    "agreement_auc": "Do neighbours of one class agree more?",
}


def _maps(found: Maps) -> list[Block]:
    layers = list(range(1, len(found.transports) + 1))
    charts: list[Block] = []
    for name, title in STATISTICS.items():
        series = {"trained": found.values(name), "untrained": found.values(name, "untrained")}
        if not np.isfinite(series["trained"]).any():
            continue
        top = max(LEAST, 1.1 * float(np.nanmax([*series["trained"], *series["untrained"]])))
        layout = titled_axes("layer", "", is_layer=True)
        layout["yaxis"] = {"range": [0, 1 if name == "agreement_auc" else top]}
        sentence = _map_sentence(name, float(np.nanmean(series["trained"])))
        charts.append(Chart(title, sentence, _lines(layers, series), layout))
    return charts + [_cloud(found, layer) for layer in range(len(found.transports))]


def _map_sentence(name: str, mean: float) -> str:
    if name == "from_identity":
        word = "hardly turn anything" if mean < 0.1 else "turn what neighbours say"
        return f"At 0 maps leave neighbours as they are; the trained ones {word} (mean {mean:.2f})."
    if name == "holonomy" and mean < FLAT:
        return "At 0, as here, what goes around a cycle comes back as it was: maps are only coordinates."
    if name == "holonomy":
        return (
            "Above 0, what goes around a cycle comes back turned, which no change of coordinates could do "
            f"(mean {mean:.2g})."
        )
    word = "they do" if mean > 0.55 else "they agree less" if mean < 0.45 else "they do not"
    return (
        f"Above ½ neighbours of one class agree more after transport than others; here {word} ({mean:.2f})."
    )


def _cloud(found: Maps, layer: int) -> Chart:
    step = max(1, len(found.transports[layer]) // CLOUD)
    T = found.transports[layer][::step]
    place = embed(T.reshape(len(T), -1))
    groups = {"edges": np.ones(len(T), dtype=bool)}
    if found.same_class is not None:
        same = found.same_class[::step]
        groups = {"between classes": same == 0, "within a class": same == 1}
    traces = [
        points(round_numbers(place[chosen, 0], 4), place[chosen, 1], name, colour, size=5, opacity=0.55)
        for (name, chosen), colour in zip(groups.items(), ("$1", "$0"), strict=False)
        if chosen.any()
    ]
    axis = {"showticklabels": False, "zeroline": False, "showgrid": False}
    sentence = (
        "Every point is an edge; points that lie together turn in the same way, and groups are kinds of "
        "edges that the model tells apart."
    )
    layout = {"xaxis": axis, "yaxis": axis}
    return Chart(f"Maps of layer {layer + 1}, edge by edge", sentence, traces, layout, height=340)
