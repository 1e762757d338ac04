"""Dates among the features of an explanation.

A date is a number to a model, days since 1970. Here it is shown as it was written, and its effect in a unit
that people count dates in: what the score gains if the date of the node were a year (a month, a day) later,
predicted again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polynsd.data import Graph
from polynsd.data.tables.dates import ISO

if TYPE_CHECKING:
    from polynsd.data.tables.encoder import FeatureEncoder
    from polynsd.estimator.explanation import Names

UNITS = {"year": 365.25, "month": 30.4375, "day": 1.0, "hour": 1 / 24}  # in days
FEWEST_UNITS = 3  # that the dates of a column must span to be counted in this unit
MARK = "{} is missing"  # the name of the feature that marks gaps (`FeatureEncoder.names`)


@dataclass(frozen=True)
class DateFeature:
    """A feature that is a date.

    Attributes:
        text: the date of the node, as the table writes it.
        unit: year, month, day or hour: the largest that the column spans several of.
        later: what the score gains if the date of the node were one unit later, predicted again; None where
            the node has no date.
    """

    text: str
    unit: str
    later: float | None


def find_date_formats(encoders: Iterable[FeatureEncoder]) -> dict[str, str]:
    """The format of every feature that is a date, by its name."""
    return {encoder.column: encoder.date_format for encoder in encoders if encoder.date_format is not None}


def describe_dates(
    graph: Graph,
    node: int,
    names: Names,
    formats: Mapping[str, str],
    shown: Sequence[str],
    score: float,
    score_of: Callable[[Graph], float],
) -> dict[str, DateFeature]:
    """The dates among the features that are shown.

    Args:
        graph: the graph of the node.
        node: its number.
        names: of the features.
        formats: of all features that are dates.
        shown: the names of the features in the table.
        score: of the node.
        score_of: the score of the node in another graph.
    """
    dates = {}
    columns = {name: number for number, name in enumerate(names.features)}
    for name in (name for name in shown if name in formats):
        column = columns[name]
        values = graph.x[:, [column]]
        unit = _choose_unit(values.toarray() if sparse.issparse(values) else np.asarray(values))
        mark = columns.get(MARK.format(name))
        if mark is not None and names.values[mark]:
            dates[name] = DateFeature("missing", unit, None)
            continue
        gain = score_of(_shift(graph, node, column, UNITS[unit])) - score
        dates[name] = DateFeature(format_days(names.values[column], formats[name]), unit, gain)
    return dates


def format_days(days: float, date_format: str) -> str:
    """Days since 1970 as a table writes them; with the time of day in ISO 8601 alone, and if there is one."""
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(minutes=round(days * 24 * 60))
    if date_format != ISO:
        return moment.strftime(date_format)
    return moment.strftime("%Y-%m-%d" if days == np.floor(days) else "%Y-%m-%dT%H:%M")


def _choose_unit(values: NDArray[np.float32]) -> str:
    span = float(values.max() - values.min())
    return next((unit for unit, days in UNITS.items() if span >= FEWEST_UNITS * days), "hour")


def _shift(graph: Graph, node: int, column: int, days: float) -> Graph:
    """The graph in which the date of one node is so many days later."""
    x = graph.x.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sparse.SparseEfficiencyWarning)  # 1970-01-01 is not stored
        x[node, column] += days
    return replace(graph, x=x)
