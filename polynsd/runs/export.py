"""Tables as files: .csv for people, .parquet for programs."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import BytesIO, StringIO
from pathlib import Path

from polynsd.errors import ConfigError
from polynsd.runs.durable import make_folder, write_durably
from polynsd.runs.optional import load
from polynsd.runs.table import Row

SUFFIXES = (".csv", ".parquet")


def require_table_name(path: Path | None) -> None:
    """Raises, before any work is done, where a table could not be written."""
    if path is not None and (path.suffix not in SUFFIXES or path.is_dir()):
        raise ConfigError(f"tables are .csv or .parquet files; got {path}. Name such a file.")


def write_rows(path: Path, rows: Sequence[Row]) -> Path:
    """Writes rows with equal keys, all or nothing."""
    require_table_name(path)
    make_folder(path.parent)
    write_durably(path, _csv(rows) if path.suffix == ".csv" else _parquet(rows))
    return path


def _csv(rows: Sequence[Row]) -> bytes:
    text = StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _parquet(rows: Sequence[Row]) -> bytes:
    content = BytesIO()
    table = load("pyarrow").Table.from_pylist(list(rows))
    load("pyarrow.parquet").write_table(table, content)
    return content.getvalue()
