"""Parquet files, read within the memory budget.

The metadata say how many values a column has. That bounds numbers, but not text: one long text and a million
references to it make a small file. Text is therefore read as categories, which take what the file takes
without compression, and its size is known before it is decoded. Where texts are stored as changes to the one
before (DELTA_BYTE_ARRAY), which Arrow does not read as categories, they are measured a few rows at a time.
"""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from polynsd.memory import memory_budget
from polynsd.optional import load_table_package

if TYPE_CHECKING:
    import pyarrow as pa

TEXT, FIXED = "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, TEXT: 4}  # bytes of a value; of others 8
CHANGES = "DELTA_BYTE_ARRAY"
BATCH_SHARE = 8  # the part of the budget that texts may take that are measured together: 1/8


def read_parquet(source: str | os.PathLike[str] | IO[bytes], name: str) -> pa.Table:
    """The table in a file, text as categories (`decode_text`); raises what Arrow raises on damaged files."""
    pa, parquet = map(load_table_package, ("pyarrow", "pyarrow.parquet"))
    budget = memory_budget()
    with parquet.ParquetFile(source) as file:
        columns = _describe_columns(file)
        total = sum(column.num_bytes for column in columns)
        budget.require(total, name)
        for column in columns:
            num_rows = max(1, budget.allowed // (BATCH_SHARE * max(column.longest, 1)))
            for batch in file.iter_batches(num_rows, columns=[column.path]) if column.holds_changes else ():
                total += batch.nbytes
                budget.require(total, f"{name}, as far as it was read,")
        own = {field.name for field in file.schema_arrow if pa.types.is_dictionary(field.type)}
    texts = [column.path for column in columns if column.longest and not column.holds_changes]
    # categories of the file itself may be ordered, which `read_dictionary` forgets
    with parquet.ParquetFile(source, read_dictionary=[path for path in texts if path not in own]) as file:
        content = file.read()
    content.validate(full=True)
    return content


class _ColumnSize(NamedTuple):
    """What the metadata say about a column."""

    path: str
    num_bytes: int  # as it is read
    longest: int  # bytes that a text of it can have; 0 for numbers
    holds_changes: bool


def _describe_columns(file: Any) -> list[_ColumnSize]:
    """The columns by their place in the schema: names in the metadata of their parts may be anything."""
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    if any(group.num_columns != len(file.schema) for group in groups):
        raise load_table_package("pyarrow").ArrowInvalid("a part of it has other columns than its schema")
    columns = []
    for number in range(len(file.schema)):
        column = file.schema.column(number)
        chunks = [group.column(number) for group in groups]
        num_values = sum(
            max(chunk.num_values, group.num_rows) for chunk, group in zip(chunks, groups, strict=True)
        )
        is_text = column.physical_type == TEXT
        sizes = [max(chunk.total_uncompressed_size, 1) for chunk in chunks] if is_text else []
        width = column.length if column.physical_type == FIXED else WIDTHS.get(column.physical_type, 8)
        holds_changes = is_text and any(CHANGES in chunk.encodings for chunk in chunks)
        num_bytes = num_values * width + 2 * sum(sizes)
        columns.append(_ColumnSize(column.path, num_bytes, max(sizes, default=0), holds_changes))
    return columns


def require_parquet_memory(source: IO[bytes], name: str) -> None:
    """Raises unless the table in a file fits into the budget with its text decoded."""
    content = read_parquet(source, name)
    memory_budget().require(sum(map(_decoded_size, content.columns)), name)
    source.seek(0)


def decode_text(array: pa.Array | pa.ChunkedArray, name: str, copies: int = 1) -> pa.Array | pa.ChunkedArray:
    """The values of categories, if so many copies of them fit into the budget."""
    memory_budget().require(copies * _decoded_size(array), name)
    kind = array.type.value_type
    return array.cast(load_table_package("pyarrow").large_string() if _is_text(kind) else kind)


def _decoded_size(array: pa.Array | pa.ChunkedArray) -> int:
    """Bytes of the values of categories, or of what is none as it is."""
    pa, compute, total = load_table_package("pyarrow"), load_table_package("pyarrow.compute"), 0
    if not pa.types.is_dictionary(array.type):
        return int(array.nbytes)
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        total += 8 * len(chunk)
        if _is_text(chunk.type.value_type):
            lengths = compute.binary_length(chunk.dictionary).take(chunk.indices)
            total += compute.sum(lengths.cast(pa.int64())).as_py() or 0
    return total


def _is_text(kind: pa.DataType) -> bool:
    pa = load_table_package("pyarrow")
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
