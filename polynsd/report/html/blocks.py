"""What sections are made of: sentences, tables, charts, and Plotly's traces and axes as charts use them.

Blocks hold plain text; `page.py` escapes all of it. Only what Plotly reads as HTML needs `plot_text`.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SHORT = 32  # characters of a name in a chart
DIGITS = 5  # of numbers in the file
Trace = dict[str, Any]


@dataclass(frozen=True)
class Text:
    """A paragraph.

    Attributes:
        text: plain.
        kind: `lead` for what was found, `note` for what has to be known, `problem` for what is missing.
    """

    text: str
    kind: str = "note"


@dataclass(frozen=True)
class Table:
    """A table with a heading for every column.

    Attributes:
        title: what it is about.
        header: of the columns.
        rows: plain text.
        is_wide: whether it takes the whole width of the page.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    is_wide: bool = False


@dataclass(frozen=True)
class Chart:
    """A picture that Plotly draws in the browser.

    Colours are names that the page replaces by those of its light or dark theme: `$0` … `$9` for series,
    `$0a` for a transparent one, `$ink`, `$muted`, `$grid`, `$good`, `$bad`.

    Attributes:
        title: in a few words.
        sentence: what to see.
        traces: Plotly's.
        layout: Plotly's, beyond what all pictures share.
        is_wide: whether it takes the whole width of the page.
    """

    title: str
    sentence: str
    traces: Sequence[Trace]
    layout: dict[str, Any] = field(default_factory=dict)
    is_wide: bool = False
    height: int = 320


@dataclass(frozen=True)
class Widget:
    """A part that the page's own script fills: `drawing` of the graph, or `explorer` of its nodes."""

    kind: str
    sentence: str


Block = Text | Table | Chart | Widget


@dataclass(frozen=True)
class Section:
    """A tab of the report for one run."""

    key: str
    title: str
    blocks: Sequence[Block]


def plot_text(value: Any, length: int = SHORT) -> str:
    """A user's text for Plotly, which reads a little HTML: shortened, on one line, escaped."""
    return html.escape(shorten(value, length), quote=False)


def shorten(value: Any, length: int) -> str:
    """Begin and end of a long text, on one line."""
    text = " ".join(str(value).split())
    return text if len(text) <= length else f"{text[: length - length // 3 - 1]}…{text[-(length // 3) :]}"


def round_numbers(values: Any, digits: int = DIGITS) -> list[Any]:
    """Numbers with a few significant digits as lists, None for NaN and infinity."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim > 1:
        return [round_numbers(row, digits) for row in array]
    return [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in array.tolist()]


def percent(value: float | None, decimals: int = 1) -> str:
    """`84.2 %`; a dash for None and NaN."""
    return "–" if value is None or not math.isfinite(value) else f"{100 * value:.{decimals}f} %"


def number(value: float | None) -> str:
    """Four digits, thousands apart; a dash for None and NaN."""
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:,.0f}" if abs(value) >= 1000 or float(value).is_integer() else f"{value:.4g}"
    return text.replace("-", "−")


def line(x: Any, y: Any, name: str, colour: str = "$0", *, dash: str = "solid", width: float = 2.0) -> Trace:
    """A line through all points (x, y); colours such as `$0` are those of the page."""
    style = {"color": colour, "dash": dash, "width": width}
    return {"type": "scatter", "mode": "lines", "x": x, "y": round_numbers(y), "name": name, "line": style}


def marked_line(x: Any, y: Any, name: str, colour: str = "$0", *, dash: str = "solid") -> Trace:
    """A line with a point at every value."""
    marker = {"color": colour, "size": 7}
    return {**line(x, y, name, colour, dash=dash), "mode": "lines+markers", "marker": marker}


def points(
    x: Any, y: Any, name: str, colour: str, *, size: float = 6, hover: str = "", **marker: Any
) -> Trace:
    """A marker at every (x, y)."""
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


def log_axis(title: str, *series: Any) -> dict[str, Any]:
    """A logarithmic axis with as many labels as fit: powers of ten, or 1, 2, 5 where these are few."""
    values = np.concatenate([np.asarray(one, dtype=np.float64).ravel() for one in series])
    values = values[np.isfinite(values) & (values > 0)]
    decades = float(np.log10(values.max() / values.min())) if len(values) else 0.0
    step = 1 if 2 < decades <= 8 else "D2" if decades <= 2 else None
    return {"title": {"text": title}, "type": "log", "dtick": step, "exponentformat": "power"}
