"""Figures of results: leaderboards, searches and sweeps, a panel per dataset.

What we have trained is filled, with 95 % intervals of the mean that allow for the overlap of splits; what
others have printed for the same cells is hollow. All functions take a table of `summarize`. Needs matplotlib
(`pip install 'polynsd[plots]'`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from polynsd.errors import DataError
from polynsd.report.output import PERCENT
from polynsd.report.panels import BASELINE, COLOURS, OTHERS, OURS, Panels, handle, style
from polynsd.stats import compare, corrected_interval
from polynsd.stats.scores import LEAST_SPLITS
from polynsd_paper.records import split_shares
from polynsd_paper.tables.formatting import SOURCE_NAMES, metric_name, natural_order, unit
from polynsd_paper.tables.leaderboards import is_polynsd, rank_rows
from polynsd_paper.tables.printed_numbers import HERE, SOURCES, collect_numbers, parse_cell, read_printed

if TYPE_CHECKING:
    from pandas import DataFrame, Series

HOLLOW = dict(zip(SOURCES, ("o", "D", "s", "^"), strict=True))
PALE, LEVEL = 0.35, 0.95
INTERVAL = "95 % interval corrected for overlap"
DIFFERENCE = "95 % interval of the difference to base"
LETTER = 0.1  # inches of a letter of the title
BAND, MOST_BANDS = 0.15, 6  # more bands would hide each other
BASE = "base"  # the value of a sweep over names that the others are compared with
SETTING = re.compile(r"(?:(.+) )?(\w+)=(\S+)")  # "N=100 degree=2": degree varies, N is fixed in a panel

Span = tuple[float, float]
Style = dict[str, Any]


def half_width(cell: Series[Any]) -> float:
    """Of the interval of the mean, corrected for splits that share nodes; 0 for fewer than three splits.

    Graphs of their own, as in `synthetic`, share none; there it is too wide.
    """
    shares = split_shares(cell)
    if len(cell["scores"]) < LEAST_SPLITS or shares is None:
        return 0.0
    low, high = corrected_interval(cell["scores"], shares, LEVEL)
    return unit(cell["metric"]) * (high - low) / 2


def interval(cell: Series[Any]) -> Span:
    """Of the mean, in the unit of the figure, cut off where the metric ends."""
    mean, half = unit(cell["metric"]) * cell["mean"], half_width(cell)
    return _possible(cell["metric"], mean - half, mean + half)


def _possible(metric: str, low: float, high: float) -> Span:
    """The part of an interval that the metric can take: t knows nothing of 100 %."""
    return (max(low, 0.0), min(high, 100.0)) if metric in PERCENT else (low, high)


def leaderboard_figure(path: Path, title: str, cells: DataFrame, printed: DataFrame | None = None) -> Path:
    """Writes one PNG: a line for each model, most datasets and best mean rank first, PolyNSD in colour."""
    numbers = _beside_ours(cells, printed)
    labels = rank_rows(cells)
    height = {label: len(labels) - i for i, label in enumerate(labels)}
    datasets = list(dict.fromkeys(cells["dataset"]))
    panels = Panels(datasets, (3.4, 1.0 + 0.22 * len(labels)), share_y=True)
    for axis, dataset in zip(panels.axes, datasets, strict=True):
        for _, cell in cells[cells["dataset"] == dataset].iterrows():
            look = {"color": _colour(cell["row"]), "alpha": PALE if cell["is_partial"] else 1.0}
            y = height[cell["row"]]
            axis.plot(unit(cell["metric"]) * cell["mean"], y, "o", markersize=5, zorder=3, **look)
            axis.plot(interval(cell), [y, y], linewidth=1.5, **look)
        for _, number in numbers[numbers["dataset"] == dataset].iterrows():
            if number["source"] != HERE:
                model = number["options"]["model"]
                plot_printed(axis, number["mean"], height[model], number["source"], _colour(model))
        metric = cells.loc[cells["dataset"] == dataset, "metric"].iloc[0]
        axis.set(xlabel=f"test {metric_name(metric)}", ylim=(0.4, len(labels) + 0.6))
        axis.set_yticks(list(height.values()), list(height))
        for tick in axis.get_yticklabels():
            tick.set_color(_colour(tick.get_text()))
    here = handle(f"here, {INTERVAL}", color=BASELINE, marker="o", linewidth=1.5)
    return finish(panels, path, title, [here, *_partial_handle(cells), *_printed_handles(numbers)])


def search_figure(path: Path, title: str, cells: DataFrame) -> Path:
    """Writes one PNG: the best validation metric after every trial, a line per cell, a dot where it ended.

    Where there are more models than colours, PolyNSD has colours and the others are grey.
    """
    searched = cells[cells["is_searched"]]
    if not any(search["best_so_far"] for search in searched["search"]):
        raise DataError("no record tells of a search; there is no course of one to draw.")
    labels = list(dict.fromkeys(searched["row"]))
    coloured = labels if len(labels) <= len(COLOURS) else [label for label in labels if "polynsd" in label]
    styles: dict[str, Style] = {label: {"color": OTHERS, "linewidth": 0.8, "zorder": 1} for label in labels}
    for number, label in enumerate(coloured):
        styles[label] = {"color": COLOURS[number % len(COLOURS)], "linewidth": 1.5}
    panels = Panels(list(dict.fromkeys(searched["dataset"])), (3.6, 2.6))
    groups = searched.groupby("dataset", sort=False)
    for axis, (_, group) in zip(panels.axes, groups, strict=True):
        for _, cell in group.iterrows():
            best = unit(cell["metric"]) * np.array(cell["search"]["best_so_far"], dtype=float)
            trials = np.arange(1, len(best) + 1)
            dot = {"marker": "o", "markersize": 3, "markevery": [-1]}
            axis.step(trials, best, where="post", **dot, **styles[cell["row"]])
        axis.set(xlabel="trials", ylabel=f"best validation {metric_name(group['metric'].iloc[0])}")
        axis.set_xscale("log", base=2)  # most happens in the first trials
        axis.xaxis.set_major_formatter("{x:g}")
    handles = [handle(label, **styles[label]) for label in coloured]
    rest = [handle("other models", color=OTHERS)] if len(coloured) < len(labels) else []
    return finish(panels, path, title, [*handles, *rest])


def sweep_figure(path: Path, title: str, cells: DataFrame, printed: DataFrame | None = None) -> Path:
    """Writes one PNG: lines where all values of what varies are numbers, rows of dots elsewhere."""
    numbers = _beside_ours(cells, printed)
    ours = sweep_layout(cells.assign(options=cells["cell"].map(parse_cell)))
    theirs = sweep_layout(numbers[numbers["source"] != HERE])
    draw = _draw_lines if all(map(_is_number, ours["value"])) else _draw_rows
    return draw(path, title, ours, theirs)


def sweep_layout(table: DataFrame) -> DataFrame:
    """Where the numbers of a sweep stand: columns `fixed`, `axis`, `value` and `series`, in panels' order.

    The last option of a cell varies along the axis (the model never does where there is another option), the
    others name the series. "N=100 degree=2" varies the degree in a panel in which N is fixed.
    """
    rows = []
    for options in table["options"]:
        *names, last = sorted(options, key=lambda name: name != "model")
        match = SETTING.fullmatch(options[last])
        series = ", ".join(options[name] for name in names) or "all"
        rows.append((*(match.groups("") if match else ("", last, options[last])), series))
    for number, name in enumerate(("fixed", "axis", "value", "series")):
        table = table.assign(**{name: [row[number] for row in rows]})
    datasets, order = list(dict.fromkeys(table["dataset"])), {}
    for dataset, panel in table.groupby("dataset", sort=False):
        for rank, fixed in enumerate(natural_order(panel["fixed"])):
            order[dataset, fixed] = (datasets.index(dataset), rank)
    panels = [order[pair] for pair in zip(table["dataset"], table["fixed"], strict=True)]
    return table.iloc[sorted(range(len(table)), key=panels.__getitem__)]


def series_styles(ours: DataFrame) -> dict[str, Style]:
    """Colour and shape by series, PolyNSD first; of many series, PolyNSD's colours are its own."""
    is_ours = dict(zip(ours["series"], map(is_polynsd, ours["row"]), strict=True))
    count = sum(is_ours.values()) % len(COLOURS)
    free = COLOURS[count:]
    styles = {}
    for number, series in enumerate(sorted(is_ours, key=lambda name: not is_ours[name])):
        styles[series] = style(number)
        if number >= len(COLOURS):
            styles[series]["color"] = free[(number - count) % len(free)]
    return styles


PANEL = ["dataset", "fixed", "axis"]


def _draw_lines(path: Path, title: str, ours: DataFrame, theirs: DataFrame) -> Path:
    styles = series_styles(ours)
    own = set(ours.loc[ours["row"].map(is_polynsd), "series"])
    banded = set(styles) if len(styles) <= MOST_BANDS else own & set(list(styles)[:MOST_BANDS])
    groups = list(ours.groupby(PANEL, sort=False))
    counts = {sum(other[0] == dataset for other, _ in groups) for (dataset, *_), _ in groups}
    in_a_row = counts.pop() if len(counts) == 1 and counts != {1} else None
    names = [", ".join(filter(None, (dataset, fixed))) for (dataset, fixed, _), _ in groups]
    panels = Panels(names, (3.6, 2.6), in_a_row)
    first: dict[str, Any] = {}
    for axis, (key, panel) in zip(panels.axes, groups, strict=True):
        if first.setdefault(key[0], axis) is not axis:
            axis.sharey(first[key[0]])  # panels of one dataset are read against each other
        _set_axis(axis, panel)
        for series, look in styles.items():
            _draw_line(axis, panel[panel["series"] == series], look, series in banded)
        beside = theirs[(theirs[PANEL] == list(key)).all(axis=1) & theirs["series"].isin(styles)]
        for (series, source), group in beside.groupby(["series", "source"], sort=False):
            points = sorted(zip(group["value"].astype(float), group["mean"], strict=True))
            x, mean = np.array(points).T
            color = styles[series]["color"]
            axis.plot(x, mean, "--", color=color, linewidth=0.8, alpha=0.6, zorder=1)
            plot_printed(axis, x, mean, source, color)
    handles = [handle(series, markersize=5, **look) for series, look in styles.items()]
    band = "95 % interval" if len(banded) == len(styles) else "95 % interval, PolyNSD"
    handles += [handle(band, color=BASELINE, linewidth=7, alpha=BAND)] if banded else []
    return finish(panels, path, title, [*handles, *_partial_handle(ours), *_printed_handles(theirs)])


def _set_axis(axis: Any, panel: DataFrame) -> None:
    """Ticks at the values, in octaves where they grow eightfold."""
    values = natural_order(panel["value"])
    numbers = [float(value) for value in values]
    if min(numbers) > 0 and max(numbers) >= 8 * min(numbers):
        axis.set_xscale("log", base=2)
    axis.set_xticks(numbers, values)
    axis.set_xticks([], minor=True)
    name, metric = panel["axis"].iloc[0].replace("_", " "), panel["metric"].iloc[0]
    axis.set(xlabel=name, ylabel=f"test {metric_name(metric)}")


def _draw_line(axis: Any, line: DataFrame, look: Style, is_banded: bool) -> None:
    """A line through the means and a band of their intervals; partial records stand apart."""
    if line.empty:
        return
    points = line.assign(
        x=line["value"].astype(float), y=line["metric"].map(unit) * line["mean"]
    ).sort_values("x")
    partial = points[points["is_partial"]]
    for x, y in zip(partial["x"], partial["y"], strict=True):
        axis.plot(x, y, markersize=4.5, linestyle="none", alpha=PALE, **look)
    points = points[~points["is_partial"]]
    if points.empty:
        return
    width = 2.0 if is_polynsd(points["row"].iloc[0]) else 1.2
    axis.plot(points["x"], points["y"], markersize=4.5, linewidth=width, zorder=2 + width, **look)
    low, high = np.array([interval(cell) for _, cell in points.iterrows()]).T
    if is_banded and len(points) == 1:  # a single value has no width: its interval is a stroke
        axis.vlines(points["x"], low, high, color=look["color"], alpha=PALE)
    elif is_banded:
        axis.fill_between(points["x"], low, high, color=look["color"], alpha=BAND, linewidth=0)


def _draw_rows(path: Path, title: str, ours: DataFrame, theirs: DataFrame) -> Path:
    """A row of dots for each name, a panel per dataset.

    Bars are intervals of the mean. Where a value is called `base`, they are intervals of the difference to it
    on the same splits, drawn around the mean: a bar that does not reach the line of the base tells the two
    apart.
    """
    styles = series_styles(ours)
    if len(styles) == 1:
        styles = {series: {"color": OURS, "marker": "o"} for series in styles}
    names = natural_order(ours["value"])
    step = 0.7 / len(styles)
    height = {  # the first name at the top; the series of a name share its row
        (name, series): len(names) - row + step * ((len(styles) - 1) / 2 - number)
        for row, name in enumerate(names)
        for number, series in enumerate(styles)
    }
    groups = list(ours.groupby(PANEL, sort=False))
    inches = 0.22 + 0.12 * (len(styles) - 1)
    titles = [", ".join(filter(None, (dataset, fixed))) for (dataset, fixed, _), _ in groups]
    panels = Panels(titles, (3.4, 1.0 + inches * len(names)), share_y=True)
    has_base = bool(((ours["value"] == BASE) & ~ours["is_partial"]).any())
    for axis, (key, panel) in zip(panels.axes, groups, strict=True):
        for series, row in panel.groupby("series", sort=False):
            heights = {name: height[name, series] for name in names}
            _draw_row(axis, row, heights, has_base, styles[series])
        for _, number in theirs[(theirs[PANEL] == list(key)).all(axis=1)].iterrows():
            where = number["value"], number["series"]
            plot_printed(axis, number["mean"], height[where], number["source"], styles[where[1]]["color"])
        metric = metric_name(panel["metric"].iloc[0])
        axis.set(xlabel=f"test {metric}", ylim=(0.4, len(names) + 0.6))
        axis.set_yticks(range(len(names), 0, -1), names)
    handles = [handle(series, linestyle="none", markersize=5, **look) for series, look in styles.items()]
    bar = handle(DIFFERENCE if has_base else INTERVAL, color=BASELINE, linewidth=1.5)
    base = [handle(BASE, color=BASELINE, linewidth=1, linestyle="--")] if has_base else []
    handles = [*(handles if len(styles) > 1 else []), bar, *base]
    return finish(panels, path, title, [*handles, *_partial_handle(ours), *_printed_handles(theirs)])


def _draw_row(axis: Any, row: DataFrame, height: Mapping[str, float], has_base: bool, look: Style) -> None:
    """The cells of one series in one panel."""
    bases = row[(row["value"] == BASE) & ~row["is_partial"]]
    color = look["color"]
    for name, cell in row.iterrows():
        y, mean = height[cell["value"]], unit(cell["metric"]) * cell["mean"]
        alpha = PALE if cell["is_partial"] else 1.0
        axis.plot(mean, y, markersize=5, linestyle="none", zorder=3, alpha=alpha, **look)
        if name in bases.index:
            axis.axvline(mean, color=color, linewidth=1, linestyle="--", zorder=1)
        elif len(bases):
            axis.hlines(y, *_difference(cell, bases.iloc[0]), color=color, linewidth=1.5)
        elif not has_base:
            axis.hlines(y, *interval(cell), color=color, linewidth=1.5, alpha=alpha)


def _difference(cell: Series[Any], base: Series[Any]) -> Span:
    """Of the difference to the base, around the mean; no width where no paired test is possible."""
    scale, splits = unit(cell["metric"]), len(cell["scores"])
    shares = split_shares(cell)
    if cell["is_partial"] or shares is None or not LEAST_SPLITS <= splits == len(base["scores"]):
        return scale * cell["mean"], scale * cell["mean"]
    test = compare(cell["scores"], base["scores"], shares, level=LEVEL)
    low, high = (scale * (base["mean"] + end) for end in (test.low, test.high))
    return _possible(cell["metric"], low, high)


def _beside_ours(cells: DataFrame, printed: DataFrame | None) -> DataFrame:
    """Our numbers, and of the printed ones those that stand beside one of ours."""
    if cells.empty:
        raise DataError("there are no records to draw; train some cells of the experiment first.")
    numbers = collect_numbers(cells, read_printed("") if printed is None else printed)
    return numbers[numbers["mean"].notna() & numbers["is_beside"]]


def _colour(row: str) -> str:
    return OURS if is_polynsd(row) else BASELINE


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def plot_printed(axis: Any, x: Any, y: Any, source: str, color: str) -> None:
    """A hollow mark for what others have printed."""
    axis.plot(x, y, HOLLOW[source], color=color, markerfacecolor="none", markersize=5, markeredgewidth=0.9)


def _partial_handle(cells: DataFrame) -> list[Any]:
    look = {"color": BASELINE, "marker": "o", "linestyle": "none", "markersize": 5, "alpha": PALE}
    return [handle("of the first splits only", **look)] if cells["is_partial"].any() else []


def _printed_handles(numbers: DataFrame) -> list[Any]:
    """An entry of the legend for each source of printed numbers that is drawn."""
    look = {"color": BASELINE, "markerfacecolor": "none", "linestyle": "none", "markersize": 5}
    drawn = [source for source in SOURCES if (numbers["source"] == source).any()]
    return [handle(SOURCE_NAMES.get(source, source), marker=HOLLOW[source], **look) for source in drawn]


def finish(panels: Panels, path: Path, title: str, handles: Sequence[Any]) -> Path:
    """Writes the figure, its title in as many lines as it needs."""
    letters = int(panels.axes[0].figure.get_figwidth() / LETTER)
    return panels.finish(path, fill(title, letters, break_on_hyphens=False), handles)
