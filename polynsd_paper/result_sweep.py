"""Pictures of sweeps: the metric against what is varied, a line per model, a panel for all that is held.

Numbers are joined by lines. Names have neither order nor distance: they are rows of dots
(`result_rows.py`). Needs matplotlib (`pip install 'polynsd[plots]'`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polynsd.report.panels import BASELINE, Panels, handle
from polynsd_paper import result_marks as marks
from polynsd_paper.published import SOURCES
from polynsd_paper.result_numbers import HERE, Number, metric_name, natural_order
from polynsd_paper.result_rows import rows_figure
from polynsd_paper.result_spots import (
    Frame,
    Spot,
    all_series,
    frames,
    in_a_row,
    is_number,
    looks,
    spots,
)

if TYPE_CHECKING:
    from polynsd_paper.published import Published
    from polynsd_paper.records import Record

BAND, FEW = 0.15, 6  # bands of more lines would hide each other
SIZE = (3.6, 2.6)

Look = dict[str, Any]


def sweep_figure(
    path: Path, title: str, records: Sequence[Record], published: Sequence[Published] = ()
) -> Path:
    """Writes one PNG: lines where all values of what is varied are numbers, rows of dots elsewhere."""
    numbers = [one for one in marks.drawn(records, published) if one.source != HERE]
    ours, theirs = spots(records), spots(numbers)
    draw = _lines_figure if all(is_number(spot.value) for spot in ours) else rows_figure
    return draw(path, title, ours, theirs)


def _lines_figure(
    path: Path, title: str, ours: Sequence[Spot[Record]], theirs: Sequence[Spot[Number]]
) -> Path:
    found, series, banded = frames(ours), looks(ours), _banded(ours)
    panels = Panels([frame.title for frame in found], SIZE, in_a_row(found))
    first: dict[str, Any] = {}
    for axis, frame in zip(panels.axes, found, strict=True):
        if first.setdefault(frame.dataset, axis) is not axis:
            axis.sharey(first[frame.dataset])  # panels of one dataset are read against each other
        mine = [spot for spot in ours if spot.frame == frame]
        _set_axes(axis, frame, mine)
        for label, look in series.items():
            _line(axis, [spot for spot in mine if spot.series == label], look, label in banded)
            there = [one for one in theirs if (one.frame, one.series) == (frame, label)]
            _printed(axis, there, look["color"])
    return marks.finish(panels, path, title, _handles(ours, theirs, banded))


def _banded(ours: Sequence[Spot[Record]]) -> Collection[str]:
    """The lines whose intervals are drawn: all, or the first of PolyNSD's."""
    series, own = all_series(ours), {spot.series for spot in ours if marks.is_ours(spot.one.cell)}
    return series if len(series) <= FEW else own.intersection(series[:FEW])


def _set_axes(axis: Any, frame: Frame, mine: Sequence[Spot[Record]]) -> None:
    """Ticks at the values, in octaves where they grow eightfold."""
    values = natural_order(spot.value for spot in mine)
    numbers = [float(value) for value in values]
    if min(numbers) > 0 and max(numbers) >= 8 * min(numbers):
        axis.set_xscale("log", base=2)
    axis.set_xticks(numbers, values)
    axis.set_xticks([], minor=True)
    axis.set(xlabel=frame.axis.replace("_", " "), ylabel=f"test {metric_name(mine[0].one.metric)}")


def _line(axis: Any, mine: Sequence[Spot[Record]], look: Look, is_banded: bool) -> None:
    """A line through the means and a band of their intervals; partial ones stand apart."""
    for spot in mine:
        if spot.one.is_partial:
            pale = {"markersize": 4.5, "linestyle": "none", "alpha": marks.PALE, **look}
            axis.plot(float(spot.value), marks.mean_of(spot.one), **pale)
    points = sorted(
        (float(spot.value), marks.mean_of(spot.one), *marks.interval(spot.one))
        for spot in mine
        if not spot.one.is_partial
    )
    if points:
        x, mean, low, high = np.array(points).T
        width = 2.0 if marks.is_ours(mine[0].one.cell) else 1.2
        axis.plot(x, mean, markersize=4.5, linewidth=width, zorder=2 + width, **look)
        if is_banded:
            _band(axis, x, low, high, look["color"])


def _band(axis: Any, x: Any, low: Any, high: Any, color: str) -> None:
    """A single value has no width: its interval is a stroke."""
    if len(x) == 1:
        axis.vlines(x, low, high, color=color, alpha=marks.PALE)
    else:
        axis.fill_between(x, low, high, color=color, alpha=BAND, linewidth=0)


def _printed(axis: Any, theirs: Sequence[Spot[Number]], color: str) -> None:
    for source in SOURCES:
        points = sorted((float(spot.value), spot.one.mean) for spot in theirs if spot.one.source == source)
        if points:
            x, mean = np.array(points).T
            axis.plot(x, mean, "--", color=color, linewidth=0.8, alpha=0.6, zorder=1)
            marks.hollow(axis, x, mean, source, color)


def _handles(
    ours: Sequence[Spot[Record]], theirs: Sequence[Spot[Number]], banded: Collection[str]
) -> list[Any]:
    series = looks(ours)
    lines = [handle(label, markersize=5, **look) for label, look in series.items()]
    what = "95 % interval" if len(banded) == len(series) else "95 % interval, PolyNSD"
    band = handle(what, color=BASELINE, linewidth=7, alpha=BAND)
    records, numbers = [spot.one for spot in ours], [spot.one for spot in theirs]
    rest = [*marks.pale_handle(records), *marks.printed_handles(numbers)]
    return [*lines, *([band] if banded else []), *rest]
