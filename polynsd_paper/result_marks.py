"""What pictures of results are made of: dots, intervals, hollow marks of others, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student

from polynsd.errors import DataError
from polynsd.report.output import PERCENT
from polynsd.report.panels import BASELINE, OURS, Panels, handle
from polynsd.stats import variance_factor
from polynsd_paper.boards import group_of
from polynsd_paper.published import SOURCES, cell_key
from polynsd_paper.result_numbers import SOURCE_NAMES, Number, collect, unit

if TYPE_CHECKING:
    from polynsd_paper.published import Published
    from polynsd_paper.records import Record

HOLLOW = dict(zip(SOURCES, ("o", "D", "s", "^"), strict=True))
PALE, LEVEL = 0.35, 0.95
INTERVAL = "95 % interval corrected for overlap"
LETTER = 0.1  # inches of a letter of the title

Span = tuple[float, float]


def drawn(records: Sequence[Record], published: Sequence[Published]) -> list[Number]:
    """Ours, and of the printed numbers those that stand beside one of ours."""
    if not records:
        raise DataError("there are no records to draw; train some cells of the experiment first.")
    ours = {(record.dataset, cell_key(record.cell)) for record in records}
    numbers = [one for one in collect(records, published) if one.mean is not None]
    return [one for one in numbers if (one.dataset, cell_key(one.cell)) in ours]


def mean_of(record: Record) -> float:
    """In the unit of the picture."""
    return unit(record.metric) * record.mean


def half_width(record: Record) -> float:
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


def interval(record: Record) -> Span:
    """Of the mean."""
    half = half_width(record)
    return possible(record.metric, mean_of(record) - half, mean_of(record) + half)


def possible(metric: str, low: float, high: float) -> Span:
    """The part of an interval that the metric can take: t knows nothing of 100 %."""
    return (max(low, 0.0), min(high, 100.0)) if metric in PERCENT else (low, high)


def is_ours(cell: Mapping[str, Any]) -> bool:
    """Whether it is a PolyNSD; cells that name no model all are."""
    return group_of(str(cell.get("model", "polynsd"))) == "polynsd"


def colour(cell: Mapping[str, Any]) -> str:
    """PolyNSD is coloured, the others are grey."""
    return OURS if is_ours(cell) else BASELINE


def alpha(one: Number | Record) -> float:
    """Numbers of a few splits only are pale."""
    return PALE if one.is_partial else 1.0


def hollow(axis: Any, x: Any, y: Any, source: str, color: str) -> None:
    """A mark of what others have printed."""
    axis.plot(x, y, HOLLOW[source], color=color, markerfacecolor="none", markersize=5, markeredgewidth=0.9)


def pale_handle(records: Sequence[Record]) -> list[Any]:
    """The entry of the legend for partial records, where there are some."""
    look = {"color": BASELINE, "marker": "o", "linestyle": "none", "markersize": 5, "alpha": PALE}
    return [handle("of the first splits only", **look)] if any(one.is_partial for one in records) else []


def printed_handles(numbers: Sequence[Number]) -> list[Any]:
    """An entry of the legend for each of the others that is drawn."""
    found = [source for source in SOURCES if any(one.source == source for one in numbers)]
    look = {"color": BASELINE, "markerfacecolor": "none", "linestyle": "none", "markersize": 5}
    return [handle(SOURCE_NAMES.get(one, one), marker=HOLLOW[one], **look) for one in found]


def finish(panels: Panels, path: Path, title: str, handles: Sequence[Any]) -> Path:
    """Writes the picture, its title in as many lines as it needs."""
    letters = int(panels.axes[0].figure.get_figwidth() / LETTER)
    return panels.finish(path, fill(title, letters, break_on_hyphens=False), handles)
