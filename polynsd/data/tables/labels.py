"""A column of labels: classes under the user's names, or targets.

Strings, booleans and whole numbers are classes, numbered in sorted order under the names they had;
`task="auto"` takes a column with fractions as regression targets, and asks where whole numbers may be either.
A missing label is −1 or NaN: a row to predict. In a column of whole numbers −1 means "no label" too, as it
does in archives, and equal numbers are one class however they are written (`1`, `1.0`, `01`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.graph import Graph
from polynsd.data.tables.dates import find_date_format
from polynsd.data.tables.table import MISSING, Column, recode
from polynsd.data.validation import finite_float32
from polynsd.errors import ConfigError, DataError

logger = logging.getLogger("polynsd")

SURELY_CLASSES = 20  # so many different whole numbers are classes
MAYBE_CLASSES = 50  # up to so many are, if each labels
ROWS_PER_CLASS = 10  # rows on average


@dataclass(frozen=True, eq=False)
class NodeLabels:
    """Labels `[N]` of a task.

    Args:
        task: `classification` or `regression`; None without labels.
        y: class numbers int64, −1 where there is no label; or targets float32 with NaN.
        class_names: of the classes; None for regression.
        num_unknown: labels that were none of the classes that were asked for.
    """

    task: str | None = None
    y: NDArray[Any] | None = None
    class_names: tuple[str, ...] | None = None
    num_unknown: int = 0

    def with_classes(self, class_names: tuple[str, ...] | None) -> NodeLabels:
        """The labels under the classes of another table; those that are none of them are missing."""
        if self.y is None or self.class_names is None or class_names is None:
            return self
        position = {name: i for i, name in enumerate(class_names)}
        y = recode(self.y, [position.get(name, MISSING) for name in self.class_names])
        num_unknown = int(((y == MISSING) & (self.y != MISSING)).sum())
        return replace(self, y=y, class_names=class_names, num_unknown=num_unknown)


def read_labels(column: Column, task: str) -> NodeLabels:
    """The labels in a column; `task` is `classification`, `regression` or `auto`."""
    _warn_of_words(column)
    numbers = column.numbers
    targets = None if numbers is None else finite_float32(numbers, column.origin, allow_nan=True)
    present = np.zeros(0) if numbers is None else numbers[~np.isnan(numbers)]
    is_whole = numbers is not None and bool((present == np.floor(present)).all())
    if task == "auto":
        _require_no_dates(column)
        task = "classification" if numbers is None or is_whole else "regression"
        distinct = np.unique(present).size
        if is_whole and not _are_classes(distinct, present.size):
            raise ConfigError(
                f"{column.origin} holds {distinct} different whole numbers, which may be classes or targets. "
                "Say task='classification' or task='regression'."
            )
    if task == "classification":
        return NodeLabels(task, *(_whole_number_classes(column) if is_whole else column.categories))
    if targets is None:
        raise DataError(
            f"{column.origin}: regression targets must be numbers. Correct the values, or ask for "
            "task='classification'."
        )
    return NodeLabels(task, targets)


def _require_no_dates(column: Column) -> None:
    if column.is_date or find_date_format(column.categories[1], column.origin):
        raise ConfigError(
            f"{column.origin} holds dates, which are hardly classes. Name another column with label=…, or "
            "say task='classification'."
        )


def _warn_of_words(column: Column) -> None:
    """A class may be called `none`, which means no label."""
    if not column.is_string:
        return
    words = column.values[column.present.isna() & column.values.notna()].str.strip()
    words = words[words != ""].value_counts()
    if len(words):
        found = ", ".join(f"{count} × {word!r}" for word, count in words.items())
        logger.warning(
            "%s: %s mean that there is no label; if that is a class, rename it.", column.origin, found
        )


def _are_classes(distinct: int, count: int) -> bool:
    """Whether so many different whole numbers on so many rows are classes rather than quantities."""
    return distinct <= SURELY_CLASSES or (distinct <= MAYBE_CLASSES and count >= ROWS_PER_CLASS * distinct)


def _whole_number_classes(column: Column) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The classes of whole numbers by value, −1 being no class; not by float64, which rounds."""
    codes, names = column.categories
    values = [int(name) if name.lstrip("+-").isdecimal() else int(float(name)) for name in names]
    if MISSING in values:
        count = np.isin(codes, [number for number, value in enumerate(values) if value == MISSING]).sum()
        logger.warning(
            "%s: %d rows hold -1, which means 'no label'; if it is a class, rename it.", column.origin, count
        )
    classes = sorted(set(values) - {MISSING})
    rank = {value: number for number, value in enumerate(classes)} | {MISSING: MISSING}
    return recode(codes, [rank[value] for value in values]), tuple(map(str, classes))


def require_learnable(graph: Graph, label: str) -> None:
    """Raises where a column of labels holds nothing to learn from."""
    labels = np.asarray(graph.y)[graph.is_labelled]
    if not len(labels):
        raise DataError(
            f"the column '{label}' has no value in any row, and labels are needed to learn from. Fill in "
            "some, or name another column with label=…."
        )
    if not graph.is_regression and len(labels) > 1 and len(np.unique(labels)) == len(labels):
        raise DataError(
            f"the column '{label}' has a label of its own in each of {len(labels):,} rows, and a class needs "
            "two rows at least. Name another column with label=…, or, if these are numbers to predict, say "
            "task='regression'."
        )
