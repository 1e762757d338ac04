"""`Table`: a user's table as a pandas DataFrame, and `Column`: one of its columns as numbers or categories.

    table = Table("nodes.csv", frame, text_columns=frozenset(frame))
    table.column("age").numbers      # [N] float64, NaN where missing; None if they are no numbers
    table.column("city").categories  # ([N] category numbers, −1 where missing), ("Bern", "Oslo")

Text files have no types, so a column of theirs is text until it is converted. Columns of typed sources
(Parquet, pandas, NetworkX) keep their type: the text "7" is no number there. In both, text such as "", "NA"
or "?" is a missing value (`MISSING_TEXTS`), except in ids. Dates are numbers: days since 1970
(`polynsd.data.tables.dates`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.tables.dates import ISO, arrow_days, find_date_format, text_days
from polynsd.errors import DataError, unknown_name
from polynsd.memory import require_memory
from polynsd.optional import load_table_package
from polynsd.parquet import decode_text

if TYPE_CHECKING:
    import pandas as pd

MISSING_TEXTS = ("", "na", "n/a", "nan", "null", "none", "<na>", "?")  # in any case
MISSING = -1  # the category number of a missing value
CATEGORY_BYTES = 250  # of a category in Python, with its name and number
CELL_BYTES = 32  # of a value among records, measured
COPIES = 5  # of a column while it is converted
DELIMITERS = ";\t|, "


def suggest_delimiter(line: str = "") -> str:
    """The sentence about `delimiter`, with the one that is most frequent in this line."""
    likely = max(DELIMITERS, key=line.count)
    return (
        f"If the columns are separated by something else, say it: delimiter={likely!r}. By default .csv "
        "files are separated by commas, .tsv files by tabs."
    )


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length under their names.

    Args:
        name: what errors call it: the file name, "edges" or "nodes".
        frame: the columns; each is converted when it is used.
        text_columns: the columns that come from a source without types.
        decimal: what stands before the decimals in text.
    """

    name: str
    frame: pd.DataFrame
    text_columns: frozenset[str] = frozenset()
    decimal: str = "."

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, name: str) -> Table:
        """Takes a user's DataFrame; raises if its index carries ids."""
        pd = load_table_package("pandas")
        if not isinstance(frame, pd.DataFrame):
            raise DataError(f"{name} must be a pandas DataFrame; got a {type(frame).__name__}.")
        index = frame.index
        if any(level is not None for level in index.names) or not pd.api.types.is_integer_dtype(index.dtype):
            raise DataError(
                f"{name}: ids are read from columns, but the index of the DataFrame holds "
                f"{index.names[0] or index.dtype!s}; make it a column with reset_index()."
            )
        frame = frame.set_axis([str(column) for column in frame.columns], axis=1)
        require_header(frame.columns, name)
        return cls(name, frame)

    @classmethod
    def from_records(
        cls,
        name: str,
        ids: Mapping[str, Any],
        records: Collection[Mapping[Any, Any]],
        defaults: Mapping[Any, Any] | None = None,
    ) -> Table:
        """Makes a table of one dictionary of attributes per row, beside the id columns.

        `defaults` are the values of attributes that a row does not have; None for those not named there.
        """
        attributes = dict(defaults or {})
        for record in records:
            for attribute in record:
                attributes.setdefault(attribute)
        require_header([*ids, *map(str, attributes)], name)
        num_cells = len(records) * len(attributes)
        require_memory(
            CELL_BYTES * num_cells, f"{name}, {len(records):,} rows of {len(attributes):,} attributes,"
        )
        columns = {
            str(key): [record.get(key, default) for record in records] for key, default in attributes.items()
        }
        # as objects: pandas would make floats of integers with gaps
        return cls(name, load_table_package("pandas").DataFrame({**ids, **columns}, dtype=object))

    @property
    def columns(self) -> list[str]:
        return list(self.frame.columns)

    def column(self, name: str, keep_order: bool = True) -> Column:
        """The column in a supported type; raises if there is none of that name.

        Without `keep_order` an ordered categorical is taken as its values.
        """
        if name not in self.frame:
            raise unknown_name(f"column of {self.name}", name, self.columns)
        origin = f"{self.name}, column '{name}'"
        values, is_date = _convert_type(self.frame[name], origin, keep_order)
        is_text = name in self.text_columns
        has_strings = values.dtype.kind == "U"  # an empty column has no type
        values = values.str.strip() if is_text and has_strings else values
        return Column(origin, values, is_text, is_date, self.decimal)


@dataclass(frozen=True, eq=False)
class Column:
    """One column.

    Args:
        origin: where it comes from, for the text of errors.
        values: a pandas Series of integers, booleans or strings in Arrow's types, of float64, or an ordered
            categorical.
        is_text: whether it comes from a source without types.
        is_date: whether the values are days since 1970.
        decimal: what stands before the decimals in text.
    """

    origin: str
    values: pd.Series
    is_text: bool = False
    is_date: bool = False
    decimal: str = "."

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_string(self) -> bool:
        return self.values.dtype.kind == "U"

    @property
    def is_ordered(self) -> bool:
        """Whether it is an ordered categorical."""
        return hasattr(self.values, "cat")

    @cached_property
    def present(self) -> pd.Series:
        """The values, missing wherever their text means so."""
        if not self.is_string:
            return self.values
        return self.values.mask(self.values.str.strip().str.lower().isin(MISSING_TEXTS))

    @cached_property
    def numbers(self) -> NDArray[np.float64] | None:
        """The values as float64, NaN where missing; None unless all of them are numbers."""
        if self.values.dtype.kind not in ("iufU" if self.is_text else "iuf"):
            return None
        values = self.present
        if self.is_string and self.decimal != ".":  # a point is no number then
            values = values.str.replace(".", "_", regex=False).str.replace(self.decimal, ".", regex=False)
        try:  # Arrow rounds correctly where pandas.to_numeric is off by a bit
            values = values.astype("double[pyarrow]") if self.is_string else values
        except ValueError:
            return None
        return values.to_numpy(np.float64, na_value=np.nan)

    @cached_property
    def date_format(self) -> str | None:
        """How the values write dates (`dates`), ISO where they are dates by type; None if they are none."""
        if not self.is_string:
            return ISO if self.is_date else None
        return find_date_format(self._factorize()[1].tolist(), self.origin)

    def read_numbers(self, date_format: str | None) -> NDArray[np.float64] | None:
        """Like `numbers`; text in this format, if it is given, becomes days since 1970."""
        if date_format is None or not self.is_string:
            return self.numbers
        codes, texts = self._factorize()
        return np.append(text_days(texts.tolist(), date_format, self.origin), np.nan)[codes]

    def _factorize(self) -> tuple[NDArray[np.int64], Any]:
        """The number of every value, −1 where missing, and the different values."""
        codes, uniques = load_table_package("pandas").factorize(self.present)
        return codes, uniques

    @cached_property
    def categories(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """The category number of every value, −1 where missing, and the names in sorted order.

        Numbers are sorted by value, also those written as text. An ordered categorical keeps its order.
        """
        if self.is_ordered:
            levels = self.values.cat.remove_unused_categories().cat
            return levels.codes.to_numpy(np.int64), tuple(map(_name_category, levels.categories))
        codes, uniques = self._factorize()
        require_memory(CATEGORY_BYTES * len(uniques), f"{self.origin}, {len(uniques):,} categories,")
        distinct = uniques.tolist()
        is_number = all(isinstance(value, str) and is_number_text(value) for value in distinct)
        ordered = sorted(distinct, key=(lambda text: (float(text), text)) if is_number else None)
        rank = {value: number for number, value in enumerate(ordered)}
        return recode(codes, [rank[value] for value in distinct]), tuple(map(_name_category, ordered))


def require_header(names: Iterable[str], table: str) -> None:
    """Raises unless every column has a name of its own."""
    names = list(names)
    if not names:
        raise DataError(f"{table} must have columns; it is empty. Check that it was written completely.")
    if "" in names:
        raise DataError(
            f"{table}: every column needs a name; column {names.index('') + 1} has none. If it is an index "
            "that pandas wrote, write the file with index=False; otherwise name it."
        )
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise DataError(
            f"{table}: the names of columns must differ; '{name}' occurs {count} times. Rename them."
        )


def recode(codes: NDArray[np.int64], numbers: Sequence[int]) -> NDArray[np.int64]:
    """The number of the category of every value; a missing value stays −1."""
    return np.array([*numbers, MISSING], dtype=np.int64)[codes]  # index −1 is the last


def is_number_text(text: str) -> bool:
    """Whether Python reads the text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _name_category(value: Any) -> str:
    """Pandas stores integers with gaps as floats, so 3.0 is called 3."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _convert_type(values: pd.Series, origin: str, keep_order: bool) -> tuple[pd.Series, bool]:
    """The values in one of the types that `Column` allows, and whether they are dates."""
    pa, pd = load_table_package("pyarrow"), load_table_package("pandas")
    types = pa.types
    try:
        array = pa.array(values, from_pandas=True)
        if types.is_dictionary(array.type) and not (array.type.ordered and keep_order):
            array = decode_text(array, origin, COPIES)
    except DataError:
        raise
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise DataError(
            f"{origin}: the values of a column must have one type (integers, floats, booleans, strings or "
            f"dates). {error}. Convert them, or leave the column out with exclude=[...]."
        ) from error
    kind = array.type.value_type if types.is_dictionary(array.type) else array.type
    is_string = str(kind) in ("string", "large_string", "string_view")
    is_float = types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind)
    if types.is_date(kind) or types.is_timestamp(kind) or types.is_duration(kind):
        return pd.Series(arrow_days(array)), not types.is_duration(kind)
    if not (is_string or is_float or types.is_integer(kind) or types.is_boolean(kind)):
        raise DataError(
            f"{origin}: a column must hold integers, floats, booleans, strings or dates; got {kind}. Turn it "
            "into one of these, or leave it out with exclude=[...]."
        )
    if types.is_dictionary(array.type):
        return pd.Series(array.to_pandas()), False
    if is_float:
        return pd.Series(array.cast(pa.float64()).to_numpy(zero_copy_only=False)), False
    values = pd.arrays.ArrowExtensionArray(array.cast(pa.large_string()) if is_string else array)
    return pd.Series(values), False
