"""Plotly's traces as the pictures of a report use them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polynsd.report.html.blocks import Trace, round_numbers


def line(x: Any, y: Any, name: str, colour: str = "$0", *, dash: str = "solid", width: float = 2.0) -> Trace:
    """A line."""
    style = {"color": colour, "dash": dash, "width": width}
    return {"type": "scatter", "mode": "lines", "x": x, "y": round_numbers(y), "name": name, "line": style}


def marked_line(x: Any, y: Any, name: str, colour: str = "$0", *, dash: str = "solid") -> Trace:
    """A line with a point at every value."""
    marker = {"color": colour, "size": 7}
    return {**line(x, y, name, colour, dash=dash), "mode": "lines+markers", "marker": marker}


def points(
    x: Any, y: Any, name: str, colour: str, *, size: float = 6, hover: str = "", **marker: Any
) -> Trace:
    """Points."""
    trace = {"type": "scatter", "mode": "markers", "x": x, "y": round_numbers(y), "name": name}
    return {**trace, "marker": {"color": colour, "size": size, **marker}, **hover_text(hover)}


def bars(x: Any, y: Any, colour: Any, hover: str, *, ends: tuple[Any, Any] | None = None) -> Trace:
    """Upright bars, with intervals that reach `ends` = (above, below) them."""
    trace = {"type": "bar", "x": x, "y": y, "marker": {"color": colour}, **hover_text(hover)}
    return trace if ends is None else {**trace, "error_y": reach(*ends)}


def reach(above: Any, below: Any) -> dict[str, Any]:
    """Intervals that reach so far above and below values."""
    ends = {"array": list(above), "arrayminus": list(below)}
    return {"type": "data", "symmetric": False, **ends, "color": "$ink", "thickness": 1.3}


def shares(z: Any, text: Sequence[Sequence[str]] | None, hover: str) -> Trace:
    """A matrix of shares, with a text in every cell where there is room."""
    trace: Trace = {"type": "heatmap", "z": round_numbers(z, 3), "zmin": 0, "zmax": 1, "showscale": False}
    trace |= {"colorscale": [[0, "$low"], [1, "$0"]], **hover_text(hover)}
    return trace if text is None else {**trace, "text": text, "texttemplate": "%{text}"}


def band(x: Any, low: Any, high: Any, name: str, colour: str) -> list[Trace]:
    """The area between two curves; without a name it has no entry in the legend."""
    edge = {"width": 0, "color": colour}
    base = {"type": "scatter", "mode": "lines", "x": x, "hoverinfo": "skip", "line": edge, "name": name}
    upper = {"fill": "tonexty", "fillcolor": colour, "showlegend": bool(name)}
    return [
        {**base, "y": round_numbers(low, 4), "showlegend": False},
        {**base, "y": round_numbers(high, 4), **upper},
    ]


def hover_text(template: str) -> dict[str, Any]:
    """What is said of a point under the mouse; nothing where the template is empty."""
    return {"hovertemplate": f"{template}<extra></extra>"} if template else {"hoverinfo": "skip"}


def class_axes(names: Sequence[str], below: str, left: str) -> dict[str, Any]:
    """The axes of a matrix over classes."""
    ticks = {"tickvals": list(range(len(names))), "ticktext": list(names)}
    return {
        "xaxis": {"title": {"text": below}, **ticks},
        "yaxis": {"title": {"text": left}, "autorange": "reversed", **ticks},
    }


def titled_axes(below: str, left: str, *, is_layer: bool = False, from_zero: bool = False) -> dict[str, Any]:
    """Two axes with titles; of layers, whole numbers alone."""
    x: dict[str, Any] = {"title": {"text": below}}
    y: dict[str, Any] = {"title": {"text": left}}
    return {
        "xaxis": {**x, "dtick": 1} if is_layer else x,
        "yaxis": {**y, "rangemode": "tozero"} if from_zero else y,
    }


def finite(values: Any) -> Any:
    """The values of an array that are finite."""
    array = np.asarray(values, dtype=np.float64).ravel()
    return array[np.isfinite(array)]
