"""Tables in files, by extension: `.csv`, `.tsv` (either with `.gz`) and `.parquet`.

Text is UTF-8 (with or without a byte-order mark) unless `TextFormat` says otherwise, and begins with a
header. Fields may be quoted; blanks around a field do not belong to it. Rows of unequal length are errors;
that is why pyarrow reads the text for pandas, whose own reader fills up short rows.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from polynsd.data.tables.table import DELIMITERS, Table, require_header, suggest_delimiter
from polynsd.errors import ConfigError, DataError, require_choice
from polynsd.memory import DEFLATE_RATIO, memory_budget
from polynsd.optional import load_table_package
from polynsd.parquet import read_parquet

if TYPE_CHECKING:
    import pandas as pd

FilePath: TypeAlias = str | PathLike[str]

SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
TABLE_EXTENSIONS = (*SEPARATORS, ".parquet")
GRAPHML = ".graphml"
MAX_HEADER = 1 << 20  # characters; Arrow reads no longer lines
BLOCK = 1 << 20  # bytes that Arrow reads together, by default
FIELD_BYTES = 8  # of a field beside its text
COLUMN_BYTES, PIECE_BYTES = 13_000, 600  # of a column, and of its part of a block, measured
TABLE_COPIES, COLUMN_COPIES = 3, 8  # a table with its features, and the column at work, measured


@dataclass(frozen=True)
class TextFormat:
    """How text files are written.

    Args:
        delimiter: one character between the fields; a comma in .csv and a tab in .tsv files by default.
        encoding: of the characters, by Python's name.
        decimal: what stands before the decimals of a number.
    """

    delimiter: str | None = None
    encoding: str = "utf-8"
    decimal: str = "."

    def __post_init__(self) -> None:
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise ConfigError(f"delimiter must be one character; got {self.delimiter!r}.")
        if self.decimal not in (".", ","):
            raise ConfigError(f"decimal must be '.' or ','; got {self.decimal!r}.")
        try:
            codecs.lookup(self.encoding)
        except LookupError as error:
            raise ConfigError(
                f"encoding must be one that Python knows, such as utf-8 or latin-1; got {self.encoding!r}."
            ) from error


def extension_of(path: FilePath) -> str:
    """The extension in lower case, together with `.gz`."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    return "".join(suffixes[-2:] if suffixes[-1:] == [".gz"] else suffixes[-1:])


def require_file(path: FilePath) -> Path:
    """The path; raises unless there is a file with something in it."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"a file was expected at {path}; there is none. Check the path.")
    if path.stat().st_size == 0:
        raise DataError(f"{path.name} is empty; a table with a header was expected.")
    return path


def read_table(path: FilePath, text_format: TextFormat = TextFormat()) -> Table:  # noqa: B008
    """The table in a file; anything unreadable is a `DataError`."""
    extension = extension_of(path)
    require_choice("file extension", extension, TABLE_EXTENSIONS)
    path, pa = require_file(path), load_table_package("pyarrow")
    try:
        if extension == ".parquet":
            return _read_parquet(path)
        return _read_text(path, text_format.delimiter or SEPARATORS[extension], text_format)
    except UnicodeError as error:
        with path.open("rb") as file:
            is_wide = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        raise DataError(
            f"{path.name} must be encoded in {text_format.encoding.upper()}; {error}. Save it so, or say how "
            f"it is, e.g. encoding='{'utf-16' if is_wide else 'latin-1'}'."
        ) from error
    except (pa.ArrowException, OSError, csv.Error, EOFError, OverflowError) as error:
        raise DataError(
            f"{path.name} cannot be read as {extension}: {error}. Check that it is complete, in "
            f"{text_format.encoding.upper()}, and has as many fields in every row as in its header. "
            f"{suggest_delimiter()}"
        ) from error


def write_table(frame: pd.DataFrame, path: FilePath) -> None:
    """Writes a DataFrame by extension, without its index."""
    extension = extension_of(path)
    require_choice("file extension", extension, TABLE_EXTENSIONS)
    with explain_write_errors(path):
        if extension == ".parquet":
            frame.to_parquet(path, index=False)
        else:
            frame.to_csv(path, sep=SEPARATORS[extension], index=False)


@contextmanager
def explain_write_errors(path: FilePath) -> Iterator[None]:
    """Turns what the file system objects to into a `DataError`."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error}. Check that its folder exists and may be written to."
        ) from error


def _read_parquet(path: Path) -> Table:
    content = read_parquet(path, path.name)
    require_header(content.column_names, path.name)
    content = content.replace_schema_metadata(None)  # an index that pandas stored is a column here
    return Table(path.name, content.to_pandas(types_mapper=load_table_package("pandas").ArrowDtype))


def _read_text(path: Path, separator: str, text_format: TextFormat) -> Table:
    pa, pd, reader = map(load_table_package, ("pyarrow", "pandas", "pyarrow.csv"))
    names, num_lines = _read_header(path, separator, text_format.encoding)
    _require_text_memory(path, len(names), text_format.encoding)
    text = pa.large_string()
    content = reader.read_csv(
        path,
        reader.ReadOptions(column_names=names, skip_rows=num_lines, encoding=text_format.encoding),
        reader.ParseOptions(delimiter=separator, newlines_in_values=True),
        reader.ConvertOptions(column_types=dict.fromkeys(names, text), strings_can_be_null=False),
    )
    frame = content.to_pandas(types_mapper=pd.ArrowDtype)
    for name in names:  # a line break within a field almost always is a quote that was never closed
        has_break = frame[name].str.contains(r"[\r\n]").to_numpy(bool)
        if has_break.any():
            raise DataError(
                f"{path.name}, column '{name}': a field must not hold a line break; row "
                f"{int(has_break.argmax()) + 1} does. Close the quote, or remove the line break."
            )
    return Table(path.name, frame, frozenset(names), text_format.decimal)


def _read_header(path: Path, separator: str, encoding: str) -> tuple[list[str], int]:
    """The names of the columns, and how many lines they and blank lines above them take."""
    with _open_text(path, encoding) as text:
        start = io.StringIO(text.read(MAX_HEADER), newline="")
    rows = csv.reader(start, delimiter=separator)
    names = [name.strip() for name in next(filter(None, rows), [])]
    num_lines = rows.line_num
    if start.tell() == MAX_HEADER:
        raise DataError(
            f"{path.name}: the first line must name the columns; it does not end within {MAX_HEADER:,} "
            "characters. Check that it is a table."
        )
    if names and re.fullmatch("sep=.?", names[0]):  # a comma has been taken for the end of the field
        raise DataError(
            f"{path.name}: the first line, '{names[0]}', is for Excel alone. Remove it, and say the "
            "delimiter if it is another: delimiter=';'."
        )
    if names and names[0].startswith("#") and names[0] != "#":
        raise DataError(
            f"{path.name}: the first line must name the columns; it begins with '#', and comment lines are "
            "not read. Remove them, and the '#' before a header."
        )
    require_header(names, path.name)
    if len(names) == 1 and any(other in names[0] for other in DELIMITERS):
        raise DataError(
            f"{path.name}: only one column was found, '{names[0]}'. {suggest_delimiter(names[0])}"
        )
    return names, num_lines


def _require_text_memory(path: Path, num_columns: int, encoding: str) -> None:
    """Raises where the rows would not fit; they are counted only if the size of the file leaves it open."""
    copies = TABLE_COPIES + COLUMN_COPIES / num_columns

    def estimate(num_bytes: int, num_fields: int) -> int:
        columns = num_columns * (COLUMN_BYTES + PIECE_BYTES * num_bytes // BLOCK)
        return columns + int(copies * (num_bytes + FIELD_BYTES * num_fields))

    budget = memory_budget()
    most = path.stat().st_size * (DEFLATE_RATIO if path.suffix.lower() == ".gz" else 1)
    if estimate(2 * most, most) <= budget.allowed:  # a byte is two at most in UTF-8, and one field
        return
    num_bytes = num_lines = 0
    with _open_text(path, encoding, errors="replace") as text:
        while part := text.read(BLOCK):
            num_bytes += len(part) if part.isascii() else len(part.encode("utf-8", "replace"))
            num_lines += max(part.count("\n"), part.count("\r"))
            budget.require(
                estimate(num_bytes, num_lines * num_columns),
                f"{path.name}, {num_columns:,} columns up to line {num_lines:,},",
            )


def _open_text(path: Path, encoding: str, errors: str = "strict") -> io.TextIOWrapper:
    """The characters of a file, decompressed by its extension."""
    stream = load_table_package("pyarrow").input_stream(str(path))
    encoding = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
    return io.TextIOWrapper(stream, encoding=encoding, errors=errors, newline="")
