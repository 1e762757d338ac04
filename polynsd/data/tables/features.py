"""Columns of a table as features, by new encoders or by those of an earlier table; and edge weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polynsd.data.graph import Features
from polynsd.data.tables.encoder import (
    MOST,
    OTHER,
    EncodedColumn,
    FeatureEncoder,
    UselessColumnError,
    join_features,
)
from polynsd.data.tables.problems import Problems
from polynsd.data.tables.table import Table
from polynsd.data.validation import finite_float32, require_non_negative
from polynsd.errors import DataError
from polynsd.memory import memory_budget

if TYPE_CHECKING:
    from polynsd.data.tables.schema import ReadOptions


SHOWN_NUMBERS = 12  # columns that a report names


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """The features of a table.

    Args:
        columns: in the order of the features.
        left_out: column → why no feature could be made of it.
    """

    columns: tuple[EncodedColumn, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def encoders(self) -> tuple[FeatureEncoder, ...]:
        return tuple(column.encoder for column in self.columns)

    @cached_property
    def values(self) -> Features:
        """`[N, k]`, an array or a sparse matrix; None without columns."""
        return join_features([column.values for column in self.columns]) if self.columns else None

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(name for encoder in self.encoders for name in encoder.names)

    @property
    def one_hot(self) -> dict[str, int]:
        """Column → categories that have a feature each."""
        return {e.column: len(e.categories) for e in self.encoders if e.categories is not None}

    @property
    def words(self) -> dict[str, int]:
        """Column of sentences → words that have a feature each."""
        return {e.column: len(e.words) for e in self.encoders if e.words is not None}

    @property
    def dates(self) -> tuple[str, ...]:
        """Columns that became days since 1970."""
        return tuple(column.encoder.column for column in self.columns if column.is_date)

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns of numbers, which are features as they are."""
        named = {*self.one_hot, *self.words, *self.dates}
        return tuple(encoder.column for encoder in self.encoders if encoder.column not in named)

    def count(self, what: str) -> dict[str, int]:
        """Column → how many values were `filled` or `unseen`, or categories `pooled`, where any were."""
        return {column.encoder.column: n for column in self.columns if (n := getattr(column, what))}

    def describe(self) -> list[str]:
        """What was done to the columns, in words."""
        pooled, filled = self.count("pooled"), self.count("filled")
        return describe_columns(self.numbers, self.one_hot, pooled, self.words, self.dates, filled)


def describe_columns(
    numbers: Sequence[str],
    one_hot: Mapping[str, int],
    pooled: Mapping[str, int],
    words: Mapping[str, int],
    dates: Sequence[str],
    filled: Mapping[str, int],
) -> list[str]:
    """What was done to columns, in words."""

    def list_counts(counts: Mapping[str, int]) -> str:
        return ", ".join(f"{name} ({count})" for name, count in counts.items())

    rest = len(numbers) - SHOWN_NUMBERS
    shown = [*numbers[:SHOWN_NUMBERS], *([f"{rest} more"] if rest > 0 else [])]
    of_categories = {name: count for name, count in filled.items() if name in one_hot}
    of_texts = {name: count for name, count in filled.items() if name in words}
    of_numbers = {name: n for name, n in filled.items() if name not in {*of_categories, *of_texts}}
    return [
        f"{action}: {columns}"
        for action, columns in (
            ("numbers", ", ".join(shown)),
            ("one-hot", list_counts(one_hot)),
            (f"rare categories pooled as {OTHER}", list_counts(pooled)),
            ("words counted", list_counts(words)),
            ("dates as days since 1970", ", ".join(dates)),
            ("missing values filled with the mean and marked", list_counts(of_numbers)),
            ("missing categories marked", list_counts(of_categories)),
            ("missing texts marked", list_counts(of_texts)),
        )
        if columns
    ]


def encode_columns(
    table: Table,
    names: Sequence[str],
    options: ReadOptions,
    encoders: Sequence[FeatureEncoder] | None = None,
    unseen: str = "error",
    *,
    problems: Problems,
    is_chosen: bool = False,
    most: int = MOST,
) -> EncodedTable:
    """The features of columns, by the encoders of an earlier table or by new ones.

    Args:
        table: the columns.
        names: those that become features.
        options: which are categorical, and what is done to gaps.
        encoders: of an earlier table; then these are its columns.
        unseen: `error` or `ignore`, for categories that the encoders do not know.
        problems: collects what is wrong with the columns.
        is_chosen: whether the user has named the columns; if not, useless ones are left out.
        most: features of one column.
    """
    fitted = {encoder.column: encoder for encoder in encoders or ()}
    absent = [name for name in fitted if name not in table.columns]
    with problems.collect():
        if absent:
            raise DataError(
                f"{table.name} must have the columns of training; missing: {', '.join(absent)}. It has "
                f"{', '.join(table.columns)}."
            )
    categorical, columns, left_out = options.categorical or (), list[EncodedColumn](), dict[str, str]()
    budget, num_bytes = memory_budget(), 0
    for name in names if encoders is None else [name for name in fitted if name not in absent]:
        with problems.collect():
            column = table.column(name)
            try:
                encoder = fitted.get(name) or FeatureEncoder.fit(
                    name, column, name in categorical, options.missing, most
                )
            except UselessColumnError as error:
                if is_chosen or name in categorical:
                    raise
                left_out[name] = str(error)
                continue
            num_bytes += encoder.memory(len(column))
            budget.require(num_bytes, f"{table.name}, its columns up to '{name}' as features,")
            columns.append(encoder.transform(column, options.missing, unseen))
    return EncodedTable(tuple(columns), left_out)


def read_weights(edges: Table, name: str | None) -> NDArray[np.float32] | None:
    """The column of edge weights, every one a finite number that is not negative; None without a name."""
    if name is None:
        return None
    column = edges.column(name)
    if column.numbers is None:
        raise DataError(f"{column.origin}: weights must be numbers. Correct them or choose another column.")
    missing = int(np.isnan(column.numbers).sum())
    if missing:
        raise DataError(f"{column.origin}: every edge needs a weight; {missing} have none. Fill them in.")
    return require_non_negative(finite_float32(column.numbers, column.origin), column.origin)
