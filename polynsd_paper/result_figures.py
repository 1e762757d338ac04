"""Pictures of results: a leaderboard, and the course of a search; a panel per dataset.

What we have trained is filled, with 95 % intervals of the mean that allow for the overlap of splits; what
others have printed for the same cells is hollow. Needs matplotlib (`pip install 'polynsd[plots]'`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polynsd.errors import DataError
from polynsd.report.panels import BASELINE, COLOURS, OTHERS, Panels, handle
from polynsd_paper import result_marks as marks
from polynsd_paper.result_numbers import (
    HERE,
    Number,
    cell_label,
    metric_name,
    ranked,
    unique,
    unit,
)

if TYPE_CHECKING:
    from polynsd_paper.published import Published
    from polynsd_paper.records import Record


def leaderboard_figure(
    path: Path, title: str, records: Sequence[Record], published: Sequence[Published] = ()
) -> Path:
    """Writes one PNG: a line for each cell, most datasets and best mean rank first, PolyNSD in colour."""
    numbers, labels = marks.drawn(records, published), ranked(records)
    place = {label: len(labels) - i for i, label in enumerate(labels)}
    datasets = unique(record.dataset for record in records)
    panels = Panels(datasets, (3.4, 1.0 + 0.22 * len(labels)), share_y=True)
    for axis, dataset in zip(panels.axes, datasets, strict=True):
        group = [one for one in numbers if one.dataset == dataset]
        for one in group:
            _dot(axis, one, place[cell_label(one.cell)])
        for record in records:
            if record.dataset == dataset:
                _interval(axis, record, place[cell_label(record.cell)])
        axis.set(xlabel=f"test {metric_name(group[0].metric)}", ylim=(0.4, len(labels) + 0.6))
        axis.set_yticks(list(place.values()), list(place))
        for tick in axis.get_yticklabels():
            tick.set_color(marks.colour({"model": tick.get_text()}))
    here = handle(f"here, {marks.INTERVAL}", color=BASELINE, marker="o", linewidth=1.5)
    handles = [here, *marks.pale_handle(records), *marks.printed_handles(numbers)]
    return marks.finish(panels, path, title, handles)


def search_figure(path: Path, title: str, records: Sequence[Record]) -> Path:
    """Writes one PNG: the best validation metric after every trial, a line per cell, a dot where it ended.

    Where there are more cells than colours, PolyNSD has colours and the others are grey.
    """
    courses = [(record, record.search["best_so_far"]) for record in records if record.search]
    if not any(best for _, best in courses):
        raise DataError("no record tells of a search; there is no course of one to draw.")
    datasets = unique(record.dataset for record, _ in courses)
    looks = _looks(unique(cell_label(record.cell) for record, _ in courses))
    panels = Panels(datasets, (3.6, 2.6))
    for axis, dataset in zip(panels.axes, datasets, strict=True):
        group = [(record, best) for record, best in courses if record.dataset == dataset]
        for record, best in group:
            _course(axis, unit(record.metric) * np.array(best, dtype=float), looks[cell_label(record.cell)])
        axis.set(xlabel="trials", ylabel=f"best validation {metric_name(group[0][0].metric)}")
        axis.set_xscale("log", base=2)  # most happens in the first trials
        axis.xaxis.set_major_formatter("{x:g}")
    handles = [handle(label, **look) for label, look in looks.items() if look["color"] != OTHERS]
    rest = [handle("other models", color=OTHERS)] if len(handles) < len(looks) else []
    return marks.finish(panels, path, title, [*handles, *rest])


def _course(axis: Any, values: Any, look: dict[str, Any]) -> None:
    trials = np.arange(1, len(values) + 1)
    axis.step(trials, values, where="post", marker="o", markersize=3, markevery=[-1], **look)


def _looks(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    coloured = labels if len(labels) <= len(COLOURS) else [one for one in labels if "polynsd" in one]
    grey = {"color": OTHERS, "linewidth": 0.8, "zorder": 1}
    return {
        label: {"color": COLOURS[coloured.index(label) % len(COLOURS)], "linewidth": 1.5}
        if label in coloured
        else grey
        for label in labels
    }


def _dot(axis: Any, one: Number, height: float) -> None:
    color = marks.colour(one.cell)
    if one.source == HERE:
        axis.plot(one.mean, height, "o", color=color, markersize=5, zorder=3, alpha=marks.alpha(one))
    else:
        marks.hollow(axis, one.mean, height, one.source, color)


def _interval(axis: Any, record: Record, height: float) -> None:
    look = {"color": marks.colour(record.cell), "linewidth": 1.5, "alpha": marks.alpha(record)}
    axis.plot(marks.interval(record), [height, height], **look)
