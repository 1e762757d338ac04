"""Tables in files, by extension: `.csv`, `.tsv` (either with `.gz`) and `.parquet`.

Text must be UTF-8 (with or without a byte-order mark) and begin with a header. Fields may be quoted;
blanks around a field do not belong to it. Rows of unequal length are errors.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from polynsd.data.tables.optional import load
from polynsd.data.tables.tables import DELIMITER_HINT, DELIMITERS, Table, require_header
from polynsd.errors import DataError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

FilePath: TypeAlias = str | PathLike[str]

SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
EXTENSIONS = (*SEPARATORS, ".parquet")


def extension_of(path: FilePath) -> str:
    """The extension in lower case, together with `.gz`."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    return "".join(suffixes[-2:] if suffixes[-1:] == [".gz"] else suffixes[-1:])


def existing(path: FilePath) -> Path:
    """The path, once there is a file with something in it."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"a file was expected at {path}; there is none. Check the path.")
    if path.stat().st_size == 0:
        raise DataError(f"{path.name} is empty; a table with a header was expected.")
    return path


def read_table(path: FilePath) -> Table:
    """The table in a file; anything unreadable is a `DataError`."""
    extension = extension_of(path)
    if extension not in EXTENSIONS:
        raise unknown_name("file extension", extension, EXTENSIONS)
    path, pa = existing(path), load("pyarrow")
    try:
        table = _parquet(path) if extension == ".parquet" else _text(path, SEPARATORS[extension])
    except UnicodeError as error:
        raise DataError(f"{path.name} must be encoded in UTF-8; {error}. Save it as UTF-8.") from error
    except (pa.ArrowException, OSError, csv.Error, EOFError, OverflowError) as error:
        raise DataError(
            f"{path.name} cannot be read as {extension}: {error}. Check that it is complete, in UTF-8, and "
            f"has as many fields in every row as in its header. {DELIMITER_HINT}"
        ) from error
    return table


def write_table(frame: pd.DataFrame, path: FilePath) -> None:
    """Writes a DataFrame without its index, in the format of the extension."""
    extension = extension_of(path)
    if extension not in EXTENSIONS:
        raise unknown_name("file extension", extension, EXTENSIONS)
    with writing(path):
        if extension == ".parquet":
            load("pyarrow")
            frame.to_parquet(path, index=False)
        else:
            frame.to_csv(path, sep=SEPARATORS[extension], index=False)


@contextmanager
def writing(path: FilePath) -> Iterator[None]:
    """Turns what the file system objects to into a `DataError`."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error}. Check that its folder exists and may be written to."
        ) from error


def _parquet(path: Path) -> Table:
    content = load("pyarrow.parquet").ParquetFile(path).read()
    content.validate(full=True)
    require_header(content.column_names, path.name)
    return Table(path.name, dict(zip(content.column_names, content.columns, strict=True)))


def _text(path: Path, separator: str) -> Table:
    pa, reader = load("pyarrow"), load("pyarrow.csv")
    names, lines = _header(path, separator)
    _require_no_comment(names, path.name)
    require_header(names, path.name)
    if len(names) == 1 and any(other in names[0] for other in DELIMITERS):
        raise DataError(f"{path.name}: only one column was found, '{names[0]}'. {DELIMITER_HINT}")
    content = reader.read_csv(
        path,
        reader.ReadOptions(column_names=names, skip_rows=lines),
        reader.ParseOptions(delimiter=separator, newlines_in_values=True),
        reader.ConvertOptions(
            column_types=dict.fromkeys(names, pa.large_string()), strings_can_be_null=False
        ),
    )
    columns = dict(zip(names, content.columns, strict=True))
    for name, values in columns.items():
        _require_single_lines(values, f"{path.name}, column '{name}'")
    return Table(path.name, columns, frozenset(names))


def _header(path: Path, separator: str) -> tuple[list[str], int]:
    """The names of the columns, and how many lines they and blank lines above them take."""
    stream = load("pyarrow").input_stream(str(path))  # decompresses by extension
    with io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        rows = csv.reader(text, delimiter=separator)
        names = next(filter(None, rows), [])
        return [name.strip() for name in names], rows.line_num


def _require_no_comment(names: list[str], place: str) -> None:
    if names and names[0].startswith("#") and names[0] != "#":
        raise DataError(
            f"{place}: the first line must name the columns; it begins with '#', and comment lines are not "
            "read. Remove them, and the '#' before a header."
        )


def _require_single_lines(values: Any, place: str) -> None:
    """A line break within a field almost always is a quote that was never closed."""
    pc = load("pyarrow.compute")
    broken = pc.match_substring_regex(values, r"[\r\n]")
    if pc.any(broken).as_py():
        row = pc.index(broken, True).as_py()
        raise DataError(
            f"{place}: a field must not hold a line break; row {row + 1} does. Close the quote, or remove "
            "the line break."
        )
