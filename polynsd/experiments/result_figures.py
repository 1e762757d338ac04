"""Pictures of results: a leaderboard, a sweep, the course of a search; a panel per dataset.

What we have trained is filled, with 95 % intervals of the mean that allow for the overlap of splits; what
others have printed for the same cells is hollow. Needs matplotlib (`pip install 'polynsd[plots]'`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student

from polynsd.errors import DataError
from polynsd.experiments.published import SOURCES, cell_key
from polynsd.experiments.result_numbers import (
    HERE,
    NUMBER,
    SOURCE_NAMES,
    Number,
    cell_label,
    collect,
    metric_name,
    natural_order,
    ranked,
    unique,
    unit,
)
from polynsd.report.figures import OTHERS, OURS
from polynsd.report.panels import BASELINE, COLOURS, Panels, handle, style
from polynsd.stats import variance_factor

if TYPE_CHECKING:
    from polynsd.experiments.published import Published
    from polynsd.experiments.record import Record

HOLLOW = dict(zip(SOURCES, ("o", "D", "s", "^"), strict=True))
BAND, PALE, LEVEL = 0.15, 0.35, 0.95
INTERVAL = "here, 95 % interval corrected for overlap"
CROWDED, UPRIGHT = 40, {"rotation": 90, "fontsize": 7}  # letters that fit below a panel; more stand upright
LETTER = 0.06  # inches of an upright one


def leaderboard_figure(
    path: Path, title: str, records: Sequence[Record], published: Sequence[Published] = ()
) -> Path:
    """Writes one PNG: a line for each cell, the best on average at the top, PolyNSD in colour."""
    numbers, labels = _drawn(records, published), ranked(records)
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
            tick.set_color(_colour({"model": tick.get_text()}))
    here = handle(INTERVAL, color=BASELINE, marker="o", linewidth=1.5)
    return panels.finish(path, title, [here, *_pale_handle(records), *_printed_handles(numbers)])


def sweep_figure(
    path: Path, title: str, records: Sequence[Record], published: Sequence[Published] = ()
) -> Path:
    """Writes one PNG: the metric against the last option of the cells, a line per value of the others."""
    numbers = _drawn(records, published)
    series = unique(cell_label(record.cell, but=1) for record in records)
    kinds = unique((tuple(record.cell), record.dataset) for record in records)
    per_kind = len({dataset for _, dataset in kinds})
    panels = Panels([dataset for _, dataset in kinds], (3.6, 2.6 + _label_height(records)), per_kind)
    for axis, (names, dataset) in zip(panels.axes, kinds, strict=True):
        group = [one for one in numbers if one.dataset == dataset and set(one.cell) == set(names)]
        mine = [one for one in records if one.dataset == dataset and set(one.cell) == set(names)]
        where = _scale(axis, natural_order(str(one.cell[names[-1]]) for one in mine))
        for number, label in enumerate(series):
            _band(axis, [one for one in mine if cell_label(one.cell, but=1) == label], where, number)
            _printed(axis, [one for one in group if cell_label(one.cell, but=1) == label], where, number)
        axis.set(xlabel=names[-1].replace("_", " "), ylabel=f"test {metric_name(group[0].metric)}")
    handles = [handle(label, markersize=5, **style(number)) for number, label in enumerate(series)]
    return panels.finish(path, title, [*handles, *_pale_handle(records), *_printed_handles(numbers)])


def search_figure(path: Path, title: str, records: Sequence[Record]) -> Path:
    """Writes one PNG: the best validation metric after every trial, a line per cell.

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
            values = unit(record.metric) * np.array(best, dtype=float)
            axis.step(np.arange(1, len(best) + 1), values, where="post", **looks[cell_label(record.cell)])
        axis.set(xlabel="trials", ylabel=f"best validation {metric_name(group[0][0].metric)}", xscale="log")
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter("")
    handles = [handle(label, **look) for label, look in looks.items() if look["color"] != OTHERS]
    rest = [handle("other models", color=OTHERS)] if len(handles) < len(looks) else []
    return panels.finish(path, title, [*handles, *rest])


def _looks(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    coloured = labels if len(labels) <= len(COLOURS) else [one for one in labels if "polynsd" in one]
    grey = {"color": OTHERS, "linewidth": 0.8, "zorder": 1}
    return {
        label: {"color": COLOURS[coloured.index(label) % len(COLOURS)], "linewidth": 1.5}
        if label in coloured
        else grey
        for label in labels
    }


def _drawn(records: Sequence[Record], published: Sequence[Published]) -> list[Number]:
    """Ours, and of the printed numbers those that stand beside one of ours."""
    if not records:
        raise DataError("there are no records to draw; train some cells of the experiment first.")
    ours = {(record.dataset, cell_key(record.cell)) for record in records}
    numbers = [one for one in collect(records, published) if one.mean is not None]
    return [one for one in numbers if (one.dataset, cell_key(one.cell)) in ours]


def _half_width(record: Record) -> float:
    """Of the interval of the mean, t_{n−1} s √(1/n + n_test/n_train); none for a single split.

    Splits share nodes, so s/√n would be far too narrow (Nadeau and Bengio, 2003). Graphs of their own, as in
    `synthetic`, share none; there it is too wide.
    """
    means, shares = unit(record.metric) * record.by_split().mean(axis=1), record.shares
    n = len(means)
    if n < 2 or shares is None:
        return 0.0
    factor = variance_factor(n, shares.train, shares.test)
    return float(student.ppf((1 + LEVEL) / 2, n - 1) * means.std(ddof=1) * np.sqrt(factor))


def _dot(axis: Any, one: Number, height: float) -> None:
    colour = _colour(one.cell)
    if one.source == HERE:
        axis.plot(one.mean, height, "o", color=colour, markersize=5, zorder=3, alpha=_alpha(one))
    else:
        _hollow(axis, one.mean, height, one.source, colour)


def _interval(axis: Any, record: Record, height: float) -> None:
    mean, half = unit(record.metric) * record.mean, _half_width(record)
    look = {"color": _colour(record.cell), "linewidth": 1.5, "alpha": _alpha(record)}
    axis.plot([mean - half, mean + half], [height, height], **look)


def _alpha(one: Number | Record) -> float:
    """Numbers of a few splits only are pale."""
    return PALE if one.is_partial else 1.0


def _pale_handle(records: Sequence[Record]) -> list[Any]:
    look = {"color": BASELINE, "marker": "o", "linestyle": "none", "markersize": 5, "alpha": PALE}
    return [handle("of the first splits only", **look)] if any(one.is_partial for one in records) else []


def _colour(cell: Mapping[str, Any]) -> str:
    return OURS if str(cell.get("model", "polynsd")).startswith("polynsd") else BASELINE


def _hollow(axis: Any, x: Any, y: Any, source: str, colour: str) -> None:
    axis.plot(x, y, HOLLOW[source], color=colour, markerfacecolor="none", markersize=5, markeredgewidth=0.9)


def _label_height(records: Sequence[Record]) -> float:
    """Inches that upright labels need."""
    names = unique(_last(record.cell) for record in records)
    return LETTER * max(map(len, names)) if _stand_upright(names) else 0.0


def _stand_upright(names: Sequence[str]) -> bool:
    """Whether names are too long to stand side by side; numbers never are."""
    return sum(map(len, names)) > CROWDED and not all(NUMBER.fullmatch(name) for name in names)


def _scale(axis: Any, values: Sequence[str]) -> Callable[[str], float]:
    """Where a value stands: numbers at their size (in octaves where they grow eightfold), names in turn."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        axis.set_xticks(range(len(values)), values, **(UPRIGHT if _stand_upright(values) else {}))
        return list(values).index
    if min(numbers) > 0 and max(numbers) >= 8 * min(numbers):
        axis.set_xscale("log", base=2)
    axis.set_xticks(numbers, values)
    axis.set_xticks([], minor=True)
    return float


def _band(axis: Any, records: Sequence[Record], where: Callable[[str], float], number: int) -> None:
    """A line through the means and a band of their intervals; partial ones stand apart."""
    points = sorted(
        (where(_last(one.cell)), unit(one.metric) * one.mean, _half_width(one))
        for one in records
        if not one.is_partial
    )
    for one in records:
        if one.is_partial:
            x, mean = where(_last(one.cell)), unit(one.metric) * one.mean
            axis.plot(x, mean, markersize=4.5, linestyle="none", alpha=PALE, **style(number))
    if points:
        x, mean, half = np.array(points).T
        axis.fill_between(x, mean - half, mean + half, color=style(number)["color"], alpha=BAND, linewidth=0)
        axis.plot(x, mean, markersize=4.5, linewidth=1.6, **style(number))


def _printed(axis: Any, numbers: Sequence[Number], where: Callable[[str], float], number: int) -> None:
    for source in SOURCES:
        points = sorted((where(_last(one.cell)), one.mean) for one in numbers if one.source == source)
        if points:
            x, mean = np.array(points).T
            colour = style(number)["color"]
            axis.plot(x, mean, "--", color=colour, linewidth=0.8, alpha=0.6, zorder=1)
            _hollow(axis, x, mean, source, colour)


def _last(cell: Mapping[str, Any]) -> str:
    return str(list(cell.values())[-1])


def _printed_handles(numbers: Sequence[Number]) -> list[Any]:
    found = [source for source in SOURCES if any(one.source == source for one in numbers)]
    look = {"color": BASELINE, "markerfacecolor": "none", "linestyle": "none", "markersize": 5}
    return [handle(SOURCE_NAMES.get(one, one), marker=HOLLOW[one], **look) for one in found]
