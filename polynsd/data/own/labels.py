"""A label column as class numbers or as regression targets.

Strings, booleans and whole numbers are classes, numbered in sorted order under the names they had;
`task="auto"` takes a column with fractions as targets. A missing label is −1 or NaN: a row to predict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.own.columns import Column, finite_float32
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
    numbers = None if task == "classification" else column.numbers()
    if task == "auto":
        task = "classification" if numbers is None or _are_whole(numbers, column) else "regression"
    if task == "classification":
        codes, names = column.categories()
        return Labels(task, codes, names)
    if numbers is None:
        raise DataError(
            f"{column.place}: regression targets must be numbers. Correct the values, or ask for "
            "task='classification'."
        )
    return Labels(task, finite_float32(numbers, column.place, allow_nan=True), None)


def _are_whole(numbers: NDArray[np.float64], column: Column) -> bool:
    """Whether all numbers are whole; too many different ones could be either task."""
    present = numbers[~np.isnan(numbers)]
    if not (present == np.floor(present)).all():
        return False
    distinct = np.unique(present).size
    if distinct > MAX_WHOLE_NUMBER_CLASSES:
        raise ConfigError(
            f"{column.place} holds {distinct} different whole numbers, which may be classes or targets. "
            "Say task='classification' or task='regression'."
        )
    return True
