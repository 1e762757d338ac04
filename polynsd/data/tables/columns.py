"""`Column`: the values of one column, read as numbers or as categories.

Text files have no types, so a column of theirs is text until somebody asks: `numbers` reads all of
it as numbers or says that it cannot, `categories` keeps every value as it is written. Columns of
typed sources (Parquet, pandas, NetworkX) keep their type: the text "7" is no number there. In both,
text such as "", "NA" or "?" is a missing value (`MISSING_MARKS`), except in ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.tables.optional import load
from polynsd.errors import DataError

MISSING_MARKS = ("", "na", "n/a", "nan", "null", "none", "<na>", "?")  # as text, in any case
MISSING = -1


@dataclass(frozen=True, eq=False)
class Column:
    """One column.

    Args:
        place: where it comes from, for the text of errors.
        values: a pyarrow array of integers, float64, booleans, large strings or nulls, or an
            ordered dictionary of these.
        is_text: whether it comes from a source without types.
    """

    place: str
    values: Any
    is_text: bool = False

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def present(self) -> Any:
        """The values with everything that means "missing" as null."""
        pa, pc = load("pyarrow"), load("pyarrow.compute")
        if pa.types.is_large_string(self.values.type):
            marks = pa.array(MISSING_MARKS, pa.large_string())
            text = pc.utf8_lower(pc.utf8_trim_whitespace(self.values))
            missing = pc.is_in(text, value_set=marks)
        elif pa.types.is_floating(self.values.type):
            missing = pc.is_nan(self.values)
        else:
            return self.values
        return pc.if_else(missing, pa.scalar(None, self.values.type), self.values)

    def numbers(self) -> NDArray[np.float64] | None:
        """The values as float64 with NaN for missing ones; None unless all of them are numbers."""
        pa, kind = load("pyarrow"), self.values.type
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)
        if not (numeric or self.is_text):
            return None
        try:
            # unsafe: integers beyond 2^53 are rounded
            return self.present.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            return None

    def num_categories(self) -> int:
        """How many different values there are."""
        return load("pyarrow.compute").count_distinct(_decoded(self.present)).as_py()

    def categories(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """The category number of every value, −1 for missing ones, and the names in sorted order.

        Numbers are sorted by value, also those written as text; pandas' ordered categoricals keep
        their own order.
        """
        encoded = _decoded(self.present).dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        ranked = self._own_order(distinct) or _sorted(distinct)
        rank = {value: number for number, value in enumerate(ranked)}
        number_of = np.array([rank[value] for value in distinct] + [MISSING], dtype=np.int64)
        codes = encoded.indices.fill_null(len(distinct)).to_numpy()
        return number_of[codes], tuple(map(_name, ranked))

    def _own_order(self, distinct: list[Any]) -> list[Any]:
        """The values in the order of an ordered categorical; empty for anything else."""
        if not getattr(self.values.type, "ordered", False):
            return []
        present = set(distinct)
        return [value for value in self.values.dictionary.to_pylist() if value in present]

    def some_number_and_word(self) -> tuple[str, str] | None:
        """A number and a word among the distinct values of text, if there are both."""
        if not self.is_text:
            return None
        distinct = self.categories()[1]
        number = next((value for value in distinct if _is_number(value)), None)
        word = next((value for value in distinct if not _is_number(value)), None)
        return None if number is None or word is None else (number, word)


def finite_float32(numbers: NDArray[Any], place: str, allow_nan: bool = False) -> NDArray[np.float32]:
    """The numbers as float32; infinite ones, or those that become infinite, are an error."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.asarray(numbers).astype(np.float32)
    wrong = np.isinf(values) if allow_nan else ~np.isfinite(values)
    if wrong.any():
        row = int(np.argwhere(wrong)[0, 0])
        raise DataError(
            f"{place}: every value must be finite and fit into float32; {int(wrong.sum())} do not, the "
            f"first in row {row + 1}. Correct them, or leave the column out."
        )
    return values


def _decoded(values: Any) -> Any:
    """The values without a dictionary; nothing but gaps, which has no type of its own, as text."""
    pa = load("pyarrow")
    if pa.types.is_dictionary(values.type):
        return values.dictionary_decode()
    return values.cast(pa.large_string()) if pa.types.is_null(values.type) else values


def _sorted(distinct: list[Any]) -> list[Any]:
    if all(isinstance(value, str) and _is_number(value) for value in distinct):
        return sorted(distinct, key=lambda value: (float(value), value))
    return sorted(distinct)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _name(value: Any) -> str:
    """The name of a category; pandas stores integers with gaps as floats, so 3.0 is called 3."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
