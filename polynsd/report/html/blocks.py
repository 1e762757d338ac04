"""What sections are made of: sentences, tables, charts. They hold plain text; `page.py` escapes all of it."""

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


def log_axis(title: str, *series: Any) -> dict[str, Any]:
    """A logarithmic axis with as many labels as fit: powers of ten, or 1, 2, 5 where these are few."""
    values = np.concatenate([np.asarray(one, dtype=np.float64).ravel() for one in series])
    values = values[np.isfinite(values) & (values > 0)]
    decades = float(np.log10(values.max() / values.min())) if len(values) else 0.0
    step = 1 if 2 < decades <= 8 else "D2" if decades <= 2 else None
    return {"title": {"text": title}, "type": "log", "dtick": step, "exponentformat": "power"}
