"""The owner's ids, and the number of the node each of them stands for.

Ids are integers or strings. Those of text files are integers only if every id of the graph is written
as an integer is ("7", not "007" and not "7.0"); otherwise all of them stay as they are written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.tables.columns import Column
from polynsd.data.tables.optional import load
from polynsd.errors import DataError, GraphError

CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]*)$"
MAX_LENGTH = 1000  # numpy stores every string as wide as the longest


def common_ids(*columns: Column) -> list[Any]:
    """The columns as pyarrow arrays of one type: int64 if all of them are integers, else strings."""
    pa = load("pyarrow")
    values = [_checked(column) for column in columns]
    integers = [
        _as_integers(ids, column.is_text, column.place) for ids, column in zip(values, columns, strict=True)
    ]
    if all(ids is not None for ids in integers):
        return integers
    return [
        _checked_text(ids.cast(pa.large_string()), c.place) for ids, c in zip(values, columns, strict=True)
    ]


def number_by_table(ends: list[Any], node_ids: Any, nodes: str) -> NDArray[np.int64]:
    """Node numbers `[2, M]` of the edge ends by their row in the node table, which must name each once."""
    pc = load("pyarrow.compute")
    _require_unique(node_ids, nodes)
    rows = [pc.index_in(end, value_set=node_ids) for end in ends]
    unknown = pc.or_(*(pc.is_null(row) for row in rows))
    count = pc.sum(unknown).as_py()
    if count:
        edge = pc.index(unknown, True).as_py()
        wrong = next(end[edge] for end, row in zip(ends, rows, strict=True) if not row[edge].is_valid)
        raise GraphError(
            f"every edge must join ids of {nodes}; {count} edges name an id that is missing there, the "
            f"first {wrong.as_py()!r} (edge {edge + 1}). Add the nodes or drop these edges; ids that are "
            "text are compared as they are written ('7' is neither '007' nor '7.0')."
        )
    return np.stack([row.to_numpy() for row in rows]).astype(np.int64)


def number_by_appearance(ends: list[Any]) -> tuple[NDArray[np.int64], Any]:
    """Node numbers `[2, M]` in the order in which the rows first name the ids, and these ids."""
    pa = load("pyarrow")
    encoded = pa.concat_arrays(ends).dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64).reshape(2, -1)
    by_row = codes.T.ravel()
    first = np.empty(len(encoded.dictionary), dtype=np.int64)
    first[by_row[::-1]] = np.arange(by_row.size)[::-1]  # the first appearance is written last
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(order.size)
    return number[codes], encoded.dictionary.take(pa.array(order))


def to_numpy(ids: Any) -> NDArray[Any]:
    """The ids as an int64 or a fixed-width string array."""
    values = ids.to_numpy(zero_copy_only=False)
    return values if values.dtype == np.int64 else values.astype(np.str_)


def _checked(column: Column) -> Any:
    """The values, once they have proved to be integers or strings without gaps."""
    pa, pc = load("pyarrow"), load("pyarrow.compute")
    ids = column.values
    if hasattr(ids, "dictionary"):
        ids = ids.dictionary_decode()
    is_string = pa.types.is_large_string(ids.type)
    missing = pc.equal(ids, "").fill_null(True) if is_string else ids.is_null(nan_is_null=True)
    count = pc.sum(missing).as_py()
    if count:
        row = pc.index(missing, True).as_py()
        raise DataError(
            f"{column.place}: every row needs an id; {count} have none, the first is row {row + 1}. Fill "
            "or remove them."
        )
    if not is_string and not pa.types.is_integer(ids.type) and not pa.types.is_null(ids.type):
        raise DataError(
            f"{column.place}: ids must be integers or strings; got {ids.type}. Convert them, e.g. with "
            "astype(int) or astype(str)."
        )
    return ids


def _as_integers(ids: Any, is_text: bool, place: str) -> Any:
    """The ids as int64; None if they are strings."""
    pa, pc = load("pyarrow"), load("pyarrow.compute")
    is_string = pa.types.is_large_string(ids.type)
    if is_string and not (is_text and pc.all(pc.match_substring_regex(ids, CANONICAL_INTEGER)).as_py()):
        return None if len(ids) else ids.cast(pa.int64())
    try:
        return ids.cast(pa.int64())
    except pa.ArrowInvalid as error:
        if is_string:
            return None  # more digits than an integer holds
        raise DataError(
            f"{place}: integer ids must fit into 64 bits with a sign. {error}. Convert them to strings."
        ) from error


def _checked_text(ids: Any, place: str) -> Any:
    pc = load("pyarrow.compute")
    longest = pc.max(pc.utf8_length(ids)).as_py() or 0
    if longest > MAX_LENGTH:
        raise DataError(
            f"{place}: an id may have up to {MAX_LENGTH} characters; got one of {longest}. Check for a quote "
            "that is not closed, or use shorter ids."
        )
    strange = pc.match_substring_regex(ids, r"[\x00-\x1f]")
    if pc.any(strange).as_py():
        row = pc.index(strange, True).as_py()
        raise DataError(
            f"{place}: ids must not hold control characters; row {row + 1} does. Check that the file is "
            "UTF-8 text (UTF-16 looks like this), and remove them."
        )
    return ids


def _require_unique(node_ids: Any, nodes: str) -> None:
    codes = node_ids.dictionary_encode().indices.to_numpy()
    extra = len(codes) - (int(codes.max()) + 1 if len(codes) else 0)
    if extra:
        _, first = np.unique(codes, return_index=True)
        row = int(np.setdiff1d(np.arange(len(codes)), first)[0])
        raise DataError(
            f"{nodes} must name every id once; {extra} rows repeat one, the first {node_ids[row].as_py()!r} "
            f"in row {row + 1}. Remove or merge them."
        )
