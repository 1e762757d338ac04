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
from polynsd.optional import load_optional

if TYPE_CHECKING:
    import pyarrow as pa

TEXT, FIXED = "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, TEXT: 4}  # bytes of a value; of others 8
CHANGES = "DELTA_BYTE_ARRAY"
BATCH_BYTES = 1 << 26  # of texts that are measured together, at most


def load(module: str = "pyarrow") -> Any:
    """Imports pyarrow or a part of it; an error says how to install it."""
    return load_optional(module, purpose="reading and writing tables needs", extra="data")


def read_parquet(source: str | os.PathLike[str] | IO[bytes], name: str) -> pa.Table:
    """The table in a file, text as categories (`decode_text`); raises what Arrow raises on damaged files."""
    parquet, budget = load("pyarrow.parquet"), memory_budget()
    with parquet.ParquetFile(source) as file:
        chunks = _list_chunks(file.metadata)
        widths = {column.path: _width(column) for column in map(file.schema.column, range(len(file.schema)))}
        total = sum(
            chunk.num_values * widths[chunk.path] + (2 * chunk.num_bytes if chunk.is_text else 0)
            for chunk in chunks
        )
        budget.require(total, name)
        texts = {chunk.path for chunk in chunks if chunk.is_text}
        changes = {chunk.path for chunk in chunks if chunk.is_text and chunk.holds_changes}
        for path in changes:
            longest = max(chunk.num_bytes for chunk in chunks if chunk.path == path)
            for batch in file.iter_batches(batch_size=max(1, BATCH_BYTES // max(longest, 1)), columns=[path]):
                total += batch.nbytes
                budget.require(total, f"{name}, as far as it was read,")
        types = {field.name: field.type for field in file.schema_arrow}
    own = {name for name, kind in types.items() if load().types.is_dictionary(kind)}  # perhaps ordered
    with parquet.ParquetFile(source, read_dictionary=sorted(texts - changes - own)) as file:
        content = file.read()
    content.validate(full=True)
    return content


class _Chunk(NamedTuple):
    """A part of a column, as the metadata describe it."""

    path: str
    is_text: bool
    num_values: int
    num_bytes: int  # without compression
    holds_changes: bool


def _list_chunks(metadata: Any) -> list[_Chunk]:
    return [
        _Chunk(
            chunk.path_in_schema,
            chunk.physical_type == TEXT,
            max(chunk.num_values, group.num_rows),
            chunk.total_uncompressed_size,
            CHANGES in chunk.encodings,
        )
        for group in map(metadata.row_group, range(metadata.num_row_groups))
        for chunk in map(group.column, range(group.num_columns))
    ]


def _width(column: Any) -> int:
    """Bytes of a value; of text the number of its category."""
    if column.physical_type == FIXED:
        return int(column.length)
    return WIDTHS.get(column.physical_type, 8)


def require_parquet_memory(source: IO[bytes], name: str) -> None:
    """Raises unless the table in a file fits into the budget with its text decoded."""
    content = read_parquet(source, name)
    memory_budget().require(sum(map(_decoded_size, content.columns)), name)
    source.seek(0)


def decode_text(array: pa.Array | pa.ChunkedArray, name: str, copies: int = 1) -> pa.Array | pa.ChunkedArray:
    """The values of categories, if so many copies of them fit into the budget."""
    memory_budget().require(copies * _decoded_size(array), name)
    kind = array.type.value_type
    return array.cast(load().large_string() if _is_text(kind) else kind)


def _decoded_size(array: pa.Array | pa.ChunkedArray) -> int:
    """Bytes of the values of categories, or of what is none as it is."""
    pa, compute, total = load(), load("pyarrow.compute"), 0
    if not pa.types.is_dictionary(array.type):
        return int(array.nbytes)
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        total += 8 * len(chunk)
        if _is_text(chunk.type.value_type):
            lengths = compute.binary_length(chunk.dictionary).take(chunk.indices)
            total += compute.sum(lengths.cast(pa.int64())).as_py() or 0
    return total


def _is_text(kind: pa.DataType) -> bool:
    pa = load()
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
