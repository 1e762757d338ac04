"""A summary of every column of a table, to look at before a graph is read from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from polynsd.data.tables.table import Column, Table
from polynsd.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

EXAMPLES = 3
MAX_LENGTH = 18  # characters of an example


@dataclass(frozen=True)
class ColumnSummary:
    """One column: what its values are, how many differ, how many are missing, and what they look like."""

    name: str
    kind: str
    distinct: int
    missing: int
    values: str


def summarize_columns(table: Table) -> list[ColumnSummary]:
    """The columns of a table in their order; one that cannot be read says so."""
    return [_summarize(table, name) for name in table.columns]


def looks_like_edges(table: Table) -> bool:
    """Whether the first two columns name the same things, as the two ends of edges do.

    In a table of nodes the first column holds ids, every one once, and the second something else.
    """
    if len(table.columns) < 2:
        return False
    try:
        first, second = (table.column(name, keep_order=False).present.dropna() for name in table.columns[:2])
    except DataError:
        return False
    repeats = not first.is_unique or not second.is_unique
    return len(table.columns) == 2 or (repeats and _overlap(first, second))


def _overlap(first: pd.Series, second: pd.Series) -> bool:
    """Whether half of the fewer values are among the others."""
    ours, theirs = set(first.astype(str)), set(second.astype(str))
    return 2 * len(ours & theirs) >= min(len(ours), len(theirs))


def _summarize(table: Table, name: str) -> ColumnSummary:
    try:
        column = table.column(name)
        present = column.present.dropna()
        kind, values = _describe_values(column, present)
    except DataError as error:
        frame = table.frame[name]
        kind = f"unreadable ({frame.dtype})"
        return ColumnSummary(name, kind, frame.nunique(), int(frame.isna().sum()), str(error))
    return ColumnSummary(name, kind, int(present.nunique()), len(column) - len(present), values)


def _describe_values(column: Column, present: pd.Series) -> tuple[str, str]:
    """(kind, range of numbers or the most frequent texts)"""
    if not len(present):
        return "empty", ""
    numbers = column.read_numbers(column.date_format)
    if numbers is not None:
        low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
        if column.date_format is not None:
            return "dates", f"{_show_day(low)} … {_show_day(high)}"
        is_whole = bool(((numbers == np.floor(numbers)) | np.isnan(numbers)).all())
        return "whole numbers" if is_whole else "numbers", f"{low:.6g} … {high:.6g}"
    common = [str(value) for value in present.value_counts().index[:EXAMPLES]]
    shown = [text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 1] + "…" for text in common]
    return "text", ", ".join(shown) + (", …" if present.nunique() > EXAMPLES else "")


def _show_day(days: float) -> str:
    return str(np.datetime64(0, "D") + np.timedelta64(int(np.floor(days)), "D"))
