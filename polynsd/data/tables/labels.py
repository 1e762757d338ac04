"""A label column as class numbers or as regression targets.

Strings, booleans and whole numbers are classes, numbered in sorted order under the names they had;
`task="auto"` takes a column with fractions as targets. A missing label is −1 or NaN: a row to predict.
In a column of whole numbers −1 means "no label" too, as it does in archives, and equal numbers are one
class however they are written (`1`, `1.0`, `01`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.tables.columns import MISSING, Column, finite_float32
from polynsd.errors import ConfigError, DataError

TASKS = ("auto", "classification", "regression")
MAX_WHOLE_NUMBER_CLASSES = 1000


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels `[N]` of a task, with the names of the classes if it is classification."""

    task: str
    y: NDArray[Any]
    class_names: tuple[str, ...] | None

    @property
    def num_missing(self) -> int:
        """Rows to predict."""
        return int((self.y == -1).sum() if self.class_names is not None else np.isnan(self.y).sum())


def read_labels(column: Column, task: str) -> Labels:
    """The labels in a column."""
    numbers = column.numbers()
    targets = None if numbers is None else finite_float32(numbers, column.place, allow_nan=True)
    is_whole = numbers is not None and _are_whole(numbers)
    if task == "auto":
        task = "classification" if numbers is None or is_whole else "regression"
        if numbers is not None and is_whole:
            _require_few(numbers, column)
    if task == "classification":
        return Labels(task, *(_whole_classes(column) if is_whole else column.categories()))
    if targets is None:
        raise DataError(
            f"{column.place}: regression targets must be numbers. Correct the values, or ask for "
            "task='classification'."
        )
    return Labels(task, targets, None)


def read_labels_again(column: Column, task: str, class_names: tuple[str, ...] | None) -> tuple[Labels, int]:
    """The labels of another table under the classes of the first, and how many were none of these."""
    labels = read_labels(column, task)
    if labels.class_names is None or class_names is None:
        return labels, 0
    number = {name: place for place, name in enumerate(class_names)}
    numbers = [number.get(name, MISSING) for name in labels.class_names]
    y = np.array([*numbers, MISSING], dtype=np.int64)[labels.y]
    return Labels(task, y, class_names), int(((y == MISSING) & (labels.y != MISSING)).sum())


def _are_whole(numbers: NDArray[np.float64]) -> bool:
    present = numbers[~np.isnan(numbers)]
    return bool((present == np.floor(present)).all())


def _whole_classes(column: Column) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The classes of whole numbers by value, −1 being no class; not by float64, which rounds."""
    codes, names = column.categories()
    values = [_whole(name) for name in names]
    classes = sorted({value for value in values if value != MISSING})
    rank = {value: number for number, value in enumerate(classes)} | {MISSING: MISSING}
    number_of = np.array([rank[value] for value in values] + [MISSING], dtype=np.int64)
    return number_of[codes], tuple(map(str, classes))


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(float(text))


def _require_few(numbers: NDArray[np.float64], column: Column) -> None:
    """Too many different whole numbers could be either task."""
    distinct = np.unique(numbers[~np.isnan(numbers)]).size
    if distinct > MAX_WHOLE_NUMBER_CLASSES:
        raise ConfigError(
            f"{column.place} holds {distinct} different whole numbers, which may be classes or targets. "
            "Say task='classification' or task='regression'."
        )
