"""Columns as float32 features: numbers as they are, everything else one-hot.

A missing value is an error unless `missing="mean"` is asked for: then a number becomes the mean of
its column, a category becomes a row of zeros, and a further column marks the rows it happened to.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polynsd.data.own.columns import MISSING, Column, finite_float32
from polynsd.errors import ConfigError, DataError

MAX_CATEGORIES = 1000
MIN_ROWS = 20  # from here on, text that is different in more than half of the rows is no category
FOREIGN_NUMBER = re.compile(r"[+-]?\d*,\d+|[+-]?\d+([.,]\d+)?\s*%")  # 0,5 or 5%


@dataclass(frozen=True, eq=False)
class FeatureBlock:
    """The features of one column `[N, k]`, under their names."""

    column: str
    values: NDArray[np.float32]
    names: tuple[str, ...]
    is_one_hot: bool
    missing: int


def feature_blocks(
    columns: Sequence[tuple[str, Column]], categorical: Collection[str], missing: str
) -> list[FeatureBlock]:
    """The features of every column in turn; columns in `categorical` are one-hot also if numeric."""
    return [_block(name, column, name in categorical, missing) for name, column in columns]


def _block(name: str, column: Column, is_categorical: bool, missing: str) -> FeatureBlock:
    numbers = None if is_categorical else column.numbers()
    if numbers is None:
        return _one_hot(name, column, is_categorical, missing)
    absent = np.isnan(numbers)
    if absent.any():
        _require_fill(column, int(absent.sum()), missing)
        mean = numbers[~absent].mean()
        numbers = np.where(absent, mean, numbers)
    values = finite_float32(numbers, column.place)[:, None]
    return _with_indicator(FeatureBlock(name, values, (name,), False, 0), absent)


def _one_hot(name: str, column: Column, is_categorical: bool, missing: str) -> FeatureBlock:
    count = column.num_categories()
    if count > MAX_CATEGORIES:
        raise DataError(
            f"{column.place}: one-hot features are made of up to {MAX_CATEGORIES} categories; got {count}. "
            "Leave it out with features=[...], group its values, or correct those that should be numbers."
        )
    codes, categories = column.categories()
    absent = codes == MISSING
    if not is_categorical:
        _require_words(column)
        _require_repetition(column, categories, int((~absent).sum()))
    if absent.any():
        _require_fill(column, int(absent.sum()), missing)
    values = (codes[:, None] == np.arange(len(categories))).astype(np.float32)
    names = tuple(f"{name}={category}" for category in categories)
    return _with_indicator(FeatureBlock(name, values, names, True, 0), absent)


def _with_indicator(block: FeatureBlock, absent: NDArray[np.bool_]) -> FeatureBlock:
    """The block, with a column that marks missing values if there were any."""
    count = int(absent.sum())
    if not count:
        return block
    values = np.column_stack([block.values, absent.astype(np.float32)])
    names = (*block.names, f"{block.column} is missing")
    return FeatureBlock(block.column, values, names, block.is_one_hot, count)


def _require_fill(column: Column, count: int, missing: str) -> None:
    if missing != "mean":
        raise DataError(
            f"{column.place}: {count} of {len(column)} values are missing. Fill them in, leave the column "
            "out with features=[...], or ask for missing='mean' (the mean and an indicator column)."
        )
    if count == len(column):
        raise DataError(
            f"{column.place}: all values are missing, so there is no mean. Leave it out with features=[...]."
        )


def _require_words(column: Column) -> None:
    """A text column that is neither all numbers nor all words more likely holds a typing error."""
    both = column.some_number_and_word()
    if both is not None:
        raise ConfigError(
            f"{column.place} mixes numbers and words (e.g. {both[0]!r} and {both[1]!r}). Correct the values, "
            "or name the column in categorical=[...] if they are categories."
        )


def _require_repetition(column: Column, categories: tuple[str, ...], present: int) -> None:
    """Numbers in a foreign notation, or values that hardly repeat, are no categories."""
    number = next((value for value in categories if FOREIGN_NUMBER.fullmatch(value)), None)
    if number is not None:
        found = f"{number!r} looks like a number written in another way"
    elif present >= MIN_ROWS and 2 * len(categories) > present:
        found = f"{len(categories)} of {present} values are different, e.g. {categories[0]!r}"
    else:
        return
    raise DataError(
        f"{column.place}: text becomes one feature per category, but {found}. Convert it to numbers, leave "
        "it out with features=[...], or name it in categorical=[...] if these are categories."
    )
