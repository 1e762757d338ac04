"""Columns as features and as labels.

Features are float32: numbers as they are, everything else one-hot.

    encoder = FeatureEncoder.fit("city", column, is_categorical=False, missing="error")
    encoder.names                        # ("city=Bern", "city=Oslo")
    encoder.transform(column, "error")   # values [N, 2], number of missing and of unseen ones

A missing value is an error unless `missing="mean"` is asked for: then a number becomes the mean of its
column, a category becomes a row of zeros, and a further feature marks these rows. Another table is encoded
by the encoders of the training tables: their categories, their means, their features that mark gaps.

In a label column strings, booleans and whole numbers are classes, numbered in sorted order under the names
they had; `task="auto"` takes a column with fractions as regression targets. A missing label is −1 or NaN: a
row to predict. In a column of whole numbers −1 means "no label" too, as it does in archives, and equal
numbers are one class however they are written (`1`, `1.0`, `01`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.tables.table import MISSING, Column, Table, is_number_text
from polynsd.data.validation import finite_float32, require_non_negative
from polynsd.errors import ConfigError, DataError, PolyNSDError

if TYPE_CHECKING:
    from polynsd.data.tables.schema import ReadOptions

MAX_CATEGORIES = 1000
MAX_WHOLE_NUMBER_CLASSES = 1000
MIN_ROWS = 20  # from here on, text that is different in more than half of the rows is no category
UNSEEN = -2
UNSEEN_RULES = ("error", "ignore")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2}[./]\d{1,2}[./]\d{4}")
FOREIGN_NUMBER = re.compile(r"[+-]?\d*,\d+|[+-]?\d+([.,]\d+)?\s*%")  # 0,5 or 5%


@dataclass(frozen=True)
class FeatureEncoder:
    """How a column becomes features, learned from the first table.

    Args:
        column: its name.
        categories: their names in the order of their features; None for numbers.
        mean: of the numbers, which replaces missing ones.
        marks_missing: whether a last feature marks the missing values.
    """

    column: str
    categories: tuple[str, ...] | None = None
    mean: float = 0.0
    marks_missing: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the k features."""
        names = [self.column]
        if self.categories is not None:
            names = [f"{self.column}={category}" for category in self.categories]
        return (*names, f"{self.column} is missing") if self.marks_missing else tuple(names)

    @classmethod
    def fit(cls, name: str, column: Column, is_categorical: bool, missing: str) -> FeatureEncoder:
        """Learns categories, mean and gaps; raises if the column cannot be features.

        Args:
            name: of the column.
            column: its values.
            is_categorical: encode it one-hot, also if it holds numbers or text that hardly repeats.
            missing: `error` or `mean`.
        """
        numbers = None if is_categorical else column.numbers
        categories, mean = None, 0.0
        if numbers is None:
            codes, categories = column.categories
            is_missing = codes == MISSING
            _check_categories(column, categories, is_categorical, int((~is_missing).sum()))
        else:
            is_missing = np.isnan(numbers)
        if is_missing.any():
            _require_fill(column, int(is_missing.sum()), missing)
            if is_missing.all():
                raise DataError(
                    f"{column.origin}: all values are missing, so there is no mean. Leave it out with "
                    "features=[...]."
                )
        if numbers is not None and len(numbers):
            mean = float(numbers[~is_missing].mean())
        return cls(name, categories, mean, bool(is_missing.any()))

    def transform(
        self, column: Column, missing: str, unseen: str = "error"
    ) -> tuple[NDArray[np.float32], int, int]:
        """The features `[N, k]` of a column, how many values are missing, and how many categories unseen.

        Args:
            column: of this table or another one.
            missing: `error`, or `mean` to fill gaps.
            unseen: `error`, or `ignore` for a row of zeros where a category is new.
        """
        num_unseen = 0
        if self.categories is not None:
            codes = self._category_codes(column, unseen)
            is_missing, num_unseen = codes == MISSING, int((codes == UNSEEN).sum())
            values = (codes[:, None] == np.arange(len(self.categories))).astype(np.float32)
        elif column.numbers is None:
            raise DataError(
                f"{column.origin}: the model was trained on numbers here; some values are none. Correct them."
            )
        else:
            is_missing = np.isnan(column.numbers)
            numbers = np.where(is_missing, self.mean, column.numbers)
            values = finite_float32(numbers, column.origin)[:, None]
        if is_missing.any():
            _require_fill(column, int(is_missing.sum()), missing)
        if self.marks_missing:
            values = np.column_stack([values, is_missing.astype(np.float32)])
        return values, int(is_missing.sum()), num_unseen

    def _category_codes(self, column: Column, unseen: str) -> NDArray[np.int64]:
        """The positions of the values in `categories`, MISSING or UNSEEN elsewhere."""
        codes, names = column.categories
        position = {name: i for i, name in enumerate(self.categories or ())}
        new = [name for name in names if name not in position]
        if new and unseen != "ignore":
            raise DataError(
                f"{column.origin}: {len(new)} categories were not there in training, e.g. {new[0]!r}. "
                "Correct them, train anew, or ask for unseen='ignore' (a row of zeros)."
            )
        return np.array([position.get(name, UNSEEN) for name in names] + [MISSING], dtype=np.int64)[codes]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> FeatureEncoder:
        """From plain data, also from JSON."""
        categories = values["categories"]
        return cls(**{**values, "categories": None if categories is None else tuple(categories)})


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """The features of a table.

    Args:
        encoders: one per column, in the order of the features.
        values: `[N, k]`; None without columns.
        filled: column → missing values that were filled.
        unseen: column → rows whose category the encoder does not know.
    """

    encoders: tuple[FeatureEncoder, ...] = ()
    values: NDArray[np.float32] | None = None
    filled: Mapping[str, int] = field(default_factory=dict)
    unseen: Mapping[str, int] = field(default_factory=dict)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(name for encoder in self.encoders for name in encoder.names)


def encode_columns(
    table: Table,
    names: Sequence[str],
    options: ReadOptions,
    encoders: Sequence[FeatureEncoder] | None = None,
    unseen: str = "error",
) -> EncodedTable:
    """The features of columns, by the encoders of an earlier table or by new ones.

    Raises:
        DataError: what is wrong with every one of the columns.
        ConfigError: if a column does not exist, or mixes numbers and words.
    """
    fitted = {encoder.column: encoder for encoder in encoders or ()}
    absent = [name for name in fitted if name not in table.columns]
    if absent:
        raise DataError(
            f"{table.name} must have the columns of training; missing: {', '.join(absent)}. It has "
            f"{', '.join(table.columns)}."
        )
    categorical = options.categorical or ()
    used, values = list[FeatureEncoder](), list[NDArray[np.float32]]()
    filled, unseen_rows = dict[str, int](), dict[str, int]()
    problems = list[PolyNSDError]()
    for name in names if encoders is None else fitted:
        try:
            column = table.column(name)
            encoder = fitted.get(name) or FeatureEncoder.fit(
                name, column, name in categorical, options.missing
            )
            features, num_missing, num_unseen = encoder.transform(column, options.missing, unseen)
        except (DataError, ConfigError) as error:
            problems.append(error)
            continue
        used.append(encoder)
        values.append(features)
        if num_missing:
            filled[name] = num_missing
        if num_unseen:
            unseen_rows[name] = num_unseen
    if len(problems) > 1:
        raise DataError("\n".join([f"{len(problems)} columns cannot be read.", *map(str, problems)]))
    if problems:
        raise problems[0]
    return EncodedTable(tuple(used), np.concatenate(values, axis=1) if values else None, filled, unseen_rows)


def read_weights(column: Column) -> NDArray[np.float32]:
    """A column of edge weights: every one a finite number that is not negative."""
    if column.numbers is None:
        raise DataError(f"{column.origin}: weights must be numbers. Correct them or choose another column.")
    missing = int(np.isnan(column.numbers).sum())
    if missing:
        raise DataError(f"{column.origin}: every edge needs a weight; {missing} have none. Fill them in.")
    return require_non_negative(finite_float32(column.numbers, column.origin), column.origin)


def _require_fill(column: Column, count: int, missing: str) -> None:
    if missing != "mean":
        raise DataError(
            f"{column.origin}: {count} of {len(column)} values are missing. Fill them in, leave the column "
            "out with features=[...], or ask for missing='mean' (the mean and an indicator column)."
        )


def _check_categories(
    column: Column, categories: tuple[str, ...], is_categorical: bool, num_present: int
) -> None:
    """Raises unless the values are few and repeat, as categories do."""
    if len(categories) > MAX_CATEGORIES:
        raise DataError(
            f"{column.origin}: one-hot features are made of up to {MAX_CATEGORIES} categories; got "
            f"{len(categories)}, e.g. {categories[0]!r}. Leave it out with features=[...], group its values, "
            "or correct those that should be numbers."
        )
    if is_categorical:
        return
    number = next(filter(is_number_text, categories), None)
    word = next((name for name in categories if not is_number_text(name)), None)
    if column.is_text and number is not None and word is not None:
        raise ConfigError(
            f"{column.origin} mixes numbers and words (e.g. {number!r} and {word!r}). Correct the values, "
            "or name the column in categorical=[...] if they are categories."
        )
    foreign = next(filter(FOREIGN_NUMBER.fullmatch, categories), None)
    if foreign is not None:
        problem = f"{foreign!r} looks like a number written in another way"
    elif num_present >= MIN_ROWS and 2 * len(categories) > num_present:
        problem = f"{len(categories)} of {num_present} values are different, e.g. {categories[0]!r}"
        problem += " (a date?)" * bool(DATE.match(categories[0]))
    else:
        return
    raise DataError(
        f"{column.origin}: text becomes one feature per category, but {problem}. Convert it to numbers, "
        "leave it out with features=[...], or name it in categorical=[...] if these are categories."
    )


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

    @property
    def num_missing(self) -> int:
        """How many rows have no label, if others have."""
        if self.y is None:
            return 0
        return int((self.y == MISSING).sum() if self.class_names is not None else np.isnan(self.y).sum())

    def with_classes(self, class_names: tuple[str, ...] | None) -> NodeLabels:
        """The labels under the classes of another table; those that are none of them are missing."""
        if self.y is None or self.class_names is None or class_names is None:
            return self
        position = {name: i for i, name in enumerate(class_names)}
        numbers = [position.get(name, MISSING) for name in self.class_names]
        y = np.array([*numbers, MISSING], dtype=np.int64)[self.y]
        num_unknown = int(((y == MISSING) & (self.y != MISSING)).sum())
        return replace(self, y=y, class_names=class_names, num_unknown=num_unknown)


def read_labels(column: Column, task: str) -> NodeLabels:
    """The labels in a column; `task` is `classification`, `regression` or `auto`."""
    numbers = column.numbers
    targets = None if numbers is None else finite_float32(numbers, column.origin, allow_nan=True)
    present = np.zeros(0) if numbers is None else numbers[~np.isnan(numbers)]
    is_whole = numbers is not None and bool((present == np.floor(present)).all())
    if task == "auto":
        task = "classification" if numbers is None or is_whole else "regression"
        distinct = np.unique(present).size
        if is_whole and distinct > MAX_WHOLE_NUMBER_CLASSES:
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


def _whole_number_classes(column: Column) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The classes of whole numbers by value, −1 being no class; not by float64, which rounds."""
    codes, names = column.categories
    values = [int(name) if name.lstrip("+-").isdecimal() else int(float(name)) for name in names]
    classes = sorted(set(values) - {MISSING})
    rank = {value: number for number, value in enumerate(classes)} | {MISSING: MISSING}
    return np.array([rank[value] for value in values] + [MISSING])[codes], tuple(map(str, classes))
