"""`Table`: named columns from a file, a DataFrame or a NetworkX graph, converted when they are used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polynsd.data.tables.columns import Column
from polynsd.data.tables.optional import load
from polynsd.errors import DataError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

DELIMITERS = ";\t|, "
DELIMITER_HINT = (
    "If the columns are separated by something else, change it: .csv files are separated by commas, "
    ".tsv files by tabs."
)
ID, SOURCE, TARGET = "@id", "@source", "@target"  # id columns beside attributes of any name


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length under their names.

    Args:
        place: what errors call it: the file name, "edges" or "nodes".
        raw: the columns, as anything pyarrow makes an array of.
        text: the names of the columns that come without a type.
    """

    place: str
    raw: Mapping[str, Any]
    text: frozenset[str] = frozenset()

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, place: str) -> Table:
        """From a DataFrame; its index must not carry anything."""
        pd = load("pandas")
        if not isinstance(frame, pd.DataFrame):
            raise DataError(f"{place} must be a pandas DataFrame; got a {type(frame).__name__}.")
        index = frame.index
        if any(name is not None for name in index.names) or not pd.api.types.is_integer_dtype(index.dtype):
            raise DataError(
                f"{place}: ids are read from columns, but the index of the DataFrame holds "
                f"{index.names[0] or index.dtype!s}; make it a column with reset_index()."
            )
        names = [str(name) for name in frame.columns]
        require_header(names, place)
        return cls(place, {name: frame.iloc[:, i] for i, name in enumerate(names)})

    @classmethod
    def from_records(cls, place: str, ids: Mapping[str, Any], records: Iterable[Mapping[Any, Any]]) -> Table:
        """From one dictionary of attributes per row, beside the id columns."""
        rows = list(records)
        names = dict.fromkeys(name for row in rows for name in row)
        require_header([*ids, *map(str, names)], place)
        columns = {str(name): [row.get(name) for row in rows] for name in names}
        return cls(place, {**ids, **columns})

    def column(self, name: str) -> Column:
        """The column, as a supported type; a name that does not exist is an error."""
        if name not in self.raw:
            raise unknown_name(f"column of {self.place}", name, self.raw)
        place, is_text = f"{self.place}, column '{name}'", name in self.text
        values = _supported(_array(self.raw[name], place), place)
        if is_text:
            text = values.cast(load("pyarrow").large_string())
            values = load("pyarrow.compute").utf8_trim_whitespace(text)
        return Column(place, values, is_text)

    def id_column(self, name: str | None, position: int) -> tuple[str, Column]:
        """An id column and its name: the given one, or the one at `position`."""
        name = list(self.raw)[position] if name is None else name
        return name, self.column(name)

    def require_names(self, names: Iterable[str], ids: Iterable[Column]) -> None:
        """Raises if a name from the first line of a text file is a number, or one of these ids."""
        for name in names:
            if name in self.text and _looks_like_data(name, ids):
                raise DataError(
                    f"{self.place}: the first line must name the columns, but '{name}' looks like an id. Add "
                    "a header such as 'source,target' or 'id,age,label'; if it is one, name the column."
                )


def require_header(names: list[str], place: str) -> None:
    """Raises unless every column has a name of its own."""
    if not names:
        raise DataError(f"{place} must have columns; it is empty. Check that it was written completely.")
    if "" in names:
        raise DataError(
            f"{place}: every column needs a name; column {names.index('') + 1} has none. If it is an index "
            "that pandas wrote, write the file with index=False; otherwise name it."
        )
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise DataError(
            f"{place}: the names of columns must differ; '{name}' occurs {count} times. Rename them."
        )


def require_two_columns(table: Table) -> None:
    """Raises unless the table can hold edges."""
    if len(table.raw) < 2:
        raise DataError(
            f"{table.place}: edges need at least two columns, source and target; only one was found, "
            f"'{next(iter(table.raw))}'. {DELIMITER_HINT}"
        )


def _looks_like_data(name: str, ids: Iterable[Column]) -> bool:
    """Whether a header is a number, or one of the ids."""
    pa, pc = load("pyarrow"), load("pyarrow.compute")
    header = pa.array([name], pa.large_string())
    texts = (column.values for column in ids if pa.types.is_large_string(column.values.type))
    return Column("", header, is_text=True).numbers() is not None or any(
        pc.index(values, header[0]).as_py() >= 0 for values in texts
    )


def _array(values: Any, place: str) -> Any:
    """One contiguous pyarrow array."""
    pa = load("pyarrow")
    try:
        if not isinstance(values, pa.ChunkedArray):
            values = pa.array(values, from_pandas=True)
        return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise DataError(
            f"{place}: the values of a column must have one type (integers, floats, booleans or strings). "
            f"{error}. Convert them, or leave the column out."
        ) from error


def _supported(values: Any, place: str) -> Any:
    """The array in the few types that `Column` knows."""
    pa, kind = load("pyarrow"), values.type
    types = pa.types
    if types.is_dictionary(kind):
        if not kind.ordered:
            return _supported(values.dictionary_decode(), place)
        names = _supported(values.dictionary, place)
        return pa.DictionaryArray.from_arrays(values.indices, names, ordered=True)
    if str(kind) in ("string", "large_string", "string_view"):
        return values.cast(pa.large_string())
    if types.is_floating(kind) or types.is_decimal(kind):
        return values.cast(pa.float64())
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind):
        return values
    raise DataError(
        f"{place}: a column must hold integers, floats, booleans or strings; got {kind}. Turn it into one "
        "of these; a column of features may be left out with features=[...]."
    )
