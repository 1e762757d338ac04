"""Columns as float32 features: numbers as they are, everything else one-hot.

A missing value is an error unless `missing="mean"` is asked for: then a number becomes the mean of
its column, a category becomes a row of zeros, and a further column marks the rows it happened to.
What was found is kept as a `FeatureRecipe`, by which the columns of another table become the same features.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polynsd.data.tables.columns import MISSING, Column, finite_float32
from polynsd.data.tables.recipe import FeatureRecipe
from polynsd.errors import ConfigError, DataError

MAX_CATEGORIES = 1000
UNSEEN = -2
MIN_ROWS = 20  # from here on, text that is different in more than half of the rows is no category
FOREIGN_NUMBER = re.compile(r"[+-]?\d*,\d+|[+-]?\d+([.,]\d+)?\s*%")  # 0,5 or 5%


@dataclass(frozen=True, eq=False)
class FeatureBlock:
    """The features of one column `[N, k]`, and how they were made."""

    values: NDArray[np.float32]
    recipe: FeatureRecipe
    missing: int
    unseen: int = 0  # rows whose category the recipe does not know

    @property
    def column(self) -> str:
        """The name of the column."""
        return self.recipe.column

    @property
    def names(self) -> tuple[str, ...]:
        """Of the features."""
        return self.recipe.names


def feature_blocks(
    columns: Sequence[tuple[str, Column]], categorical: Collection[str], missing: str
) -> list[FeatureBlock]:
    """The features of every column in turn; columns in `categorical` are one-hot also if numeric."""
    return [_block(name, column, name in categorical, missing) for name, column in columns]


def repeated_block(column: Column, recipe: FeatureRecipe, missing: str, unseen: str) -> FeatureBlock:
    """The features of a column of another table, by the recipe of the first."""
    if recipe.categories is not None:
        codes, count = _known_codes(column, recipe, unseen)
        return _one_hot_block(column, codes, recipe, missing, count)
    numbers = column.numbers()
    if numbers is None:
        raise DataError(
            f"{column.place}: the model was trained on numbers here; some values are none. Correct them."
        )
    return _number_block(column, numbers, recipe, missing)


def _block(name: str, column: Column, is_categorical: bool, missing: str) -> FeatureBlock:
    numbers = None if is_categorical else column.numbers()
    if numbers is None:
        return _one_hot(name, column, is_categorical, missing)
    absent = np.isnan(numbers)
    if absent.any():
        _require_fill(column, int(absent.sum()), missing)
    mean = float(numbers[~absent].mean()) if len(numbers) else 0.0
    return _number_block(column, numbers, FeatureRecipe(name, None, mean, bool(absent.any())), missing)


def _number_block(
    column: Column, numbers: NDArray[np.float64], recipe: FeatureRecipe, missing: str
) -> FeatureBlock:
    absent = np.isnan(numbers)
    if absent.any():
        _require_mean(column, int(absent.sum()), missing)
        numbers = np.where(absent, recipe.mean, numbers)
    values = finite_float32(numbers, column.place)[:, None]
    return _with_marks(values, recipe, absent)


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
    recipe = FeatureRecipe(name, categories, marks_missing=bool(absent.any()))
    return _one_hot_block(column, codes, recipe, missing)


def _one_hot_block(
    column: Column, codes: NDArray[np.int64], recipe: FeatureRecipe, missing: str, unseen: int = 0
) -> FeatureBlock:
    absent = codes == MISSING
    if absent.any():
        _require_mean(column, int(absent.sum()), missing)
    values = (codes[:, None] == np.arange(len(recipe.categories or ()))).astype(np.float32)
    return _with_marks(values, recipe, absent, unseen)


def _with_marks(
    values: NDArray[np.float32], recipe: FeatureRecipe, absent: NDArray[np.bool_], unseen: int = 0
) -> FeatureBlock:
    """The block, with a column that marks missing values if the recipe has one."""
    if recipe.marks_missing:
        values = np.column_stack([values, absent.astype(np.float32)])
    return FeatureBlock(values, recipe, int(absent.sum()), unseen)


def _known_codes(column: Column, recipe: FeatureRecipe, unseen: str) -> tuple[NDArray[np.int64], int]:
    """The numbers of the categories in the recipe, and how many values it does not know."""
    codes, names = column.categories()
    number = {name: place for place, name in enumerate(recipe.categories or ())}
    new = [name for name in names if name not in number]
    if new and unseen != "ignore":
        raise DataError(
            f"{column.place}: {len(new)} categories were not there in training, e.g. {new[0]!r}. Correct "
            "them, train anew, or ask for unseen='ignore' (a row of zeros)."
        )
    number_of = np.array([number.get(name, UNSEEN) for name in names] + [MISSING], dtype=np.int64)
    return number_of[codes], int((number_of[codes] == UNSEEN).sum())


def _require_mean(column: Column, count: int, missing: str) -> None:
    if missing != "mean":
        raise DataError(
            f"{column.place}: {count} of {len(column)} values are missing. Fill them in, leave the column "
            "out with features=[...], or ask for missing='mean' (the mean and an indicator column)."
        )


def _require_fill(column: Column, count: int, missing: str) -> None:
    _require_mean(column, count, missing)
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
