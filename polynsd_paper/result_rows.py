"""Pictures of sweeps over names: a row of dots for each, and how far it is from the one called `base`.

Without a base the bars are intervals of the mean. With one they are intervals of the difference to it on the
same splits, drawn around the mean: a bar that does not reach the line of the base tells the two apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polynsd.report.panels import BASELINE, OURS, Panels, handle
from polynsd.stats import compare
from polynsd.stats.scores import LEAST_SPLITS
from polynsd_paper import result_marks as marks
from polynsd_paper.result_numbers import Number, metric_name, natural_order, unit
from polynsd_paper.result_spots import Frame, Spot, frames, looks

if TYPE_CHECKING:
    from polynsd_paper.records import Record

BASE = "base"
DIFFERENCE = "95 % interval of the difference to base"
ROW, MORE = 0.22, 0.12  # inches of a row, and of every further series in it

Bases = Mapping[tuple[Frame, str], "Record"]
Looks = Mapping[str, dict[str, Any]]
Heights = Mapping[tuple[str, str], float]


def rows_figure(path: Path, title: str, ours: Sequence[Spot[Record]], theirs: Sequence[Spot[Number]]) -> Path:
    """Writes one PNG: a panel per dataset, the names from top to bottom as they are listed."""
    found, series = frames(ours), _looks(ours)
    names = natural_order(spot.value for spot in ours)
    inches = ROW + MORE * (len(series) - 1)
    panels = Panels([frame.title for frame in found], (3.4, 1.0 + inches * len(names)), share_y=True)
    heights, bases = _heights(names, list(series)), _bases(ours)
    for axis, frame in zip(panels.axes, found, strict=True):
        mine = [spot for spot in ours if spot.frame == frame]
        for spot in mine:
            _row(axis, spot, heights[spot.value, spot.series], bases, series[spot.series])
        for one in theirs:
            if one.frame == frame:
                height, color = heights[one.value, one.series], series[one.series]["color"]
                marks.hollow(axis, one.one.mean, height, one.one.source, color)
        axis.set(xlabel=f"test {metric_name(mine[0].one.metric)}", ylim=(0.4, len(names) + 0.6))
        axis.set_yticks(range(len(names), 0, -1), names)
    return marks.finish(panels, path, title, _handles(ours, theirs, series, bool(bases)))


def _heights(names: Sequence[str], series: Sequence[str]) -> Heights:
    """The first name at the top; the series of a name share its row."""
    step = 0.7 / len(series)
    return {
        (name, label): len(names) - row + step * ((len(series) - 1) / 2 - number)
        for row, name in enumerate(names)
        for number, label in enumerate(series)
    }


def _bases(ours: Sequence[Spot[Record]]) -> Bases:
    return {
        (spot.frame, spot.series): spot.one for spot in ours if spot.value == BASE and not spot.one.is_partial
    }


def _looks(ours: Sequence[Spot[Record]]) -> Looks:
    """A single series needs no shape of its own."""
    found = looks(ours)
    return found if len(found) > 1 else {label: {"color": OURS, "marker": "o"} for label in found}


def _row(axis: Any, spot: Spot[Record], height: float, bases: Bases, look: dict[str, Any]) -> None:
    record, color = spot.one, look["color"]
    base = bases.get((spot.frame, spot.series))
    mean, opacity = marks.mean_of(record), marks.alpha(record)
    axis.plot(mean, height, markersize=5, linestyle="none", zorder=3, alpha=opacity, **look)
    if record is base:
        axis.axvline(mean, color=color, linewidth=1, linestyle="--", zorder=1)
    elif base is not None:
        axis.hlines(height, *_difference(record, base), color=color, linewidth=1.5)
    elif not bases:
        axis.hlines(height, *marks.interval(record), color=color, linewidth=1.5, alpha=opacity)


def _difference(record: Record, base: Record) -> marks.Span:
    """Of the difference, around the mean; none where the splits are not the same or no test is possible."""
    mean, shares = marks.mean_of(record), record.shares
    ours, theirs = record.by_split(), base.by_split()
    if record.is_partial or shares is None or not LEAST_SPLITS <= len(ours) == len(theirs):
        return mean, mean
    found = compare(ours, theirs, shares.train, test_share=shares.test, level=marks.LEVEL)
    low, high = (marks.mean_of(base) + unit(record.metric) * end for end in (found.low, found.high))
    return marks.possible(record.metric, low, high)


def _handles(
    ours: Sequence[Spot[Record]], theirs: Sequence[Spot[Number]], series: Looks, has_base: bool
) -> list[Any]:
    names = [handle(label, linestyle="none", markersize=5, **look) for label, look in series.items()]
    bar = handle(DIFFERENCE if has_base else marks.INTERVAL, color=BASELINE, linewidth=1.5)
    base = [handle(BASE, color=BASELINE, linewidth=1, linestyle="--")] * has_base
    records, numbers = [spot.one for spot in ours], [spot.one for spot in theirs]
    rest = [*marks.pale_handle(records), *marks.printed_handles(numbers)]
    return [*(names if len(series) > 1 else []), bar, *base, *rest]
