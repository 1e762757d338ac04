"""Pictures of results: a leaderboard, a sweep, the course of a search; a panel per dataset.

What we have trained is filled, with 95 % confidence intervals of the mean; what others have printed for the
same cells is hollow. Needs matplotlib (`pip install 'polynsd[plots]'`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rankdata
from scipy.stats import t as student

from polynsd.errors import DataError
from polynsd.experiments.published import SOURCES, cell_key
from polynsd.report.figures import OURS
from polynsd.report.panels import BASELINE, Panels, handle, style
from polynsd.report.result_numbers import (
    HERE,
    SOURCE_NAMES,
    Number,
    collect,
    metric_name,
    natural_order,
    unit,
)

if TYPE_CHECKING:
    from polynsd.experiments.published import Published
    from polynsd.experiments.record import Record

HOLLOW = dict(zip(SOURCES, ("o", "D", "s", "^"), strict=True))
BAND, LEVEL = 0.15, 0.95


def leaderboard_figure(
    path: Path, title: str, records: Sequence[Record], published: Sequence[Published] = ()
) -> Path:
    """Writes one PNG: a line for each cell, the best on average at the top, PolyNSD in colour."""
    numbers, labels = _drawn(records, published), _ranked(records)
    place = {label: len(labels) - i for i, label in enumerate(labels)}
    datasets = _unique(record.dataset for record in records)
    panels = Panels(datasets, (3.4, 1.0 + 0.22 * len(labels)), share_y=True)
    for axis, dataset in zip(panels.axes, datasets, strict=True):
        group = [one for one in numbers if one.dataset == dataset]
        for one in group:
            _dot(axis, one, place[_label(one.cell)])
        for record in records:
            if record.dataset == dataset:
                _interval(axis, record, place[_label(record.cell)])
        axis.set(xlabel=f"test {metric_name(group[0].metric)}", ylim=(0.4, len(labels) + 0.6))
        axis.set_yticks(list(place.values()), list(place))
        for tick in axis.get_yticklabels():
            tick.set_color(_colour({"model": tick.get_text()}))
    here = handle("trained here, 95 % confidence", color=BASELINE, marker="o", linewidth=1.5)
    return panels.finish(path, title, [here, *_printed_handles(numbers)])


def sweep_figure(
    path: Path, title: str, records: Sequence[Record], published: Sequence[Published] = ()
) -> Path:
    """Writes one PNG: the metric against the last option of the cells, a line per value of the others."""
    numbers = _drawn(records, published)
    series = _unique(_label(record.cell, but=1) for record in records)
    kinds = _unique((tuple(record.cell), record.dataset) for record in records)
    per_kind = len({dataset for _, dataset in kinds})
    panels = Panels([dataset for _, dataset in kinds], (3.6, 2.6), per_kind)
    for axis, (names, dataset) in zip(panels.axes, kinds, strict=True):
        group = [one for one in numbers if one.dataset == dataset and set(one.cell) == set(names)]
        mine = [one for one in records if one.dataset == dataset and set(one.cell) == set(names)]
        where = _scale(axis, natural_order(str(one.cell[names[-1]]) for one in mine))
        for number, label in enumerate(series):
            _band(axis, [one for one in mine if _label(one.cell, but=1) == label], where, number)
            _printed(axis, [one for one in group if _label(one.cell, but=1) == label], where, number)
        axis.set(xlabel=names[-1].replace("_", " "), ylabel=f"test {metric_name(group[0].metric)}")
    handles = [handle(label, markersize=5, **style(number)) for number, label in enumerate(series)]
    return panels.finish(path, title, [*handles, *_printed_handles(numbers)])


def search_figure(path: Path, title: str, records: Sequence[Record]) -> Path:
    """Writes one PNG: the best validation metric after every trial, a line per cell."""
    courses = [(record, record.search["best_so_far"]) for record in records if record.search]
    if not any(best for _, best in courses):
        raise DataError("no record tells of a search; there is no course of one to draw.")
    datasets = _unique(record.dataset for record, _ in courses)
    labels = _unique(_label(record.cell) for record, _ in courses)
    panels = Panels(datasets, (3.6, 2.6))
    for axis, dataset in zip(panels.axes, datasets, strict=True):
        group = [(record, best) for record, best in courses if record.dataset == dataset]
        for record, best in group:
            look = {**style(labels.index(_label(record.cell))), "marker": None}
            trials = np.arange(1, len(best) + 1)
            axis.step(
                trials, unit(record.metric) * np.array(best, dtype=float), where="post", linewidth=1.5, **look
            )
        axis.set(xlabel="trials", ylabel=f"best validation {metric_name(group[0][0].metric)}", xscale="log")
        axis.xaxis.set_major_formatter("{x:g}")
    handles = [handle(label, color=style(number)["color"]) for number, label in enumerate(labels)]
    return panels.finish(path, title, handles)


def _drawn(records: Sequence[Record], published: Sequence[Published]) -> list[Number]:
    """Ours, and of the printed numbers those that stand beside one of ours."""
    if not records:
        raise DataError("there are no records to draw; train some cells of the experiment first.")
    ours = {(record.dataset, cell_key(record.cell)) for record in records}
    numbers = [one for one in collect(records, published) if one.mean is not None]
    return [one for one in numbers if (one.dataset, cell_key(one.cell)) in ours]


def _unique(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))


def _label(cell: Mapping[str, Any], but: int = 0) -> str:
    """The values of a cell, without the last `but` of them."""
    values = [str(value) for value in cell.values()]
    return ", ".join(values[: len(values) - but]) or "all"


def _ranked(records: Sequence[Record]) -> list[str]:
    """Labels by their mean rank over the datasets that they have."""
    ranks: dict[str, list[float]] = {}
    for dataset in _unique(record.dataset for record in records):
        group = [record for record in records if record.dataset == dataset]
        for record, rank in zip(group, rankdata([-one.mean for one in group]) / len(group), strict=True):
            ranks.setdefault(_label(record.cell), []).append(float(rank))
    return sorted(ranks, key=lambda label: float(np.mean(ranks[label])))


def _half_width(record: Record) -> float:
    """Of the confidence interval of the mean, t_{n−1} s / √n; none for a single split."""
    means = unit(record.metric) * record.by_split().mean(axis=1)
    n = len(means)
    return float(student.ppf((1 + LEVEL) / 2, n - 1) * means.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0


def _dot(axis: Any, one: Number, height: float) -> None:
    colour = _colour(one.cell)
    if one.source == HERE:
        axis.plot(one.mean, height, "o", color=colour, markersize=5, zorder=3)
    else:
        _hollow(axis, one.mean, height, one.source, colour)


def _interval(axis: Any, record: Record, height: float) -> None:
    mean, half = unit(record.metric) * record.mean, _half_width(record)
    axis.plot([mean - half, mean + half], [height, height], color=_colour(record.cell), linewidth=1.5)


def _colour(cell: Mapping[str, Any]) -> str:
    return OURS if str(cell.get("model", "polynsd")).startswith("polynsd") else BASELINE


def _hollow(axis: Any, x: Any, y: Any, source: str, colour: str) -> None:
    axis.plot(x, y, HOLLOW[source], color=colour, markerfacecolor="none", markersize=5, markeredgewidth=0.9)


def _scale(axis: Any, values: Sequence[str]) -> Callable[[str], float]:
    """Where a value stands: numbers at their size (in octaves where they grow eightfold), names in turn."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        axis.set_xticks(range(len(values)), values)
        return list(values).index
    if min(numbers) > 0 and max(numbers) >= 8 * min(numbers):
        axis.set_xscale("log", base=2)
    axis.set_xticks(numbers, values)
    axis.set_xticks([], minor=True)
    return float


def _band(axis: Any, records: Sequence[Record], where: Callable[[str], float], number: int) -> None:
    """A line through the means and a band of their confidence intervals."""
    points = sorted(
        (where(_last(one.cell)), unit(one.metric) * one.mean, _half_width(one)) for one in records
    )
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
