"""The user's ids, and the number of the node that each of them stands for.

Ids are integers or strings. Those of text files are integers only if every id of the graph is written as an
integer is ("7", not "007" and not "7.0"); otherwise all of them stay as they are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.tables.table import Column, load
from polynsd.errors import DataError, GraphError

if TYPE_CHECKING:
    import pandas as pd

CANONICAL_INTEGER = r"(0|-?[1-9][0-9]*)"
MAX_LENGTH = 1000  # numpy stores every string as wide as the longest


def number_nodes(
    source: Column, target: Column, nodes: Column | None, node_table: str
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Node numbers `[2, M]` of the ends of M edges, and the ids `[N]` in the order of these numbers.

    Args:
        source: where the edges begin.
        target: where they end.
        nodes: the ids of a node table, whose rows number the nodes and must name every end once; without
            one the nodes are numbered in the order in which the edges first name them.
        node_table: its name, for errors.
    """
    pd = load("pandas")
    columns = [source, target] if nodes is None else [nodes, source, target]
    codes, unique_ids = pd.factorize(pd.concat(_convert_ids(columns), ignore_index=True))
    ids = unique_ids.to_numpy() if unique_ids.dtype == np.int64 else np.array(unique_ids.tolist(), dtype=str)
    if nodes is None:
        return _number_by_row(codes.reshape(2, -1), ids)
    num_nodes = len(nodes)
    is_repeated = codes[:num_nodes] != np.arange(num_nodes)  # codes count the ids as they first appear
    if is_repeated.any():
        row, num_distinct = int(is_repeated.argmax()), int(codes[:num_nodes].max()) + 1
        raise DataError(
            f"{node_table} must name every id once; {num_nodes - num_distinct} rows repeat one, the first "
            f"{ids[codes[row]].item()!r} in row {row + 1}. Remove or merge them."
        )
    pairs = codes[num_nodes:].reshape(2, -1)
    is_unknown = pairs >= num_nodes
    if is_unknown.any():
        edge = int(is_unknown.any(axis=0).argmax())
        missing = ids[pairs[is_unknown[:, edge].argmax(), edge]].item()
        raise GraphError(
            f"every edge must join ids of {node_table}; {int(is_unknown.any(axis=0).sum())} edges name an id "
            f"that is missing there, the first {missing!r} (edge {edge + 1}). Add the nodes or drop these "
            "edges; ids that are text are compared as they are written ('7' is neither '007' nor '7.0')."
        )
    return pairs, ids[:num_nodes]


def _number_by_row(pairs: NDArray[np.int64], ids: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Renumbers the nodes in the order in which the rows (source, target) first name them."""
    by_row = pairs.T.ravel()
    first = np.empty(len(ids), dtype=np.int64)
    first[by_row[::-1]] = np.arange(by_row.size)[::-1]  # the first appearance is written last
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(order.size)
    return number[pairs], ids[order]


def _convert_ids(columns: Sequence[Column]) -> list[pd.Series]:
    """The columns in one type: int64 if all of them are integers, else strings."""
    pd, pa = load("pandas"), load("pyarrow")
    integers = [_convert_integers(column) for column in columns]
    if all(ids is not None for ids in integers):
        return [pd.Series(ids) for ids in integers]
    texts = [column.values.astype(pd.ArrowDtype(pa.large_string())) for column in columns]
    for column, ids in zip(columns, texts, strict=True):
        longest = int(ids.str.len().max()) if len(ids) else 0
        if longest > MAX_LENGTH:
            raise DataError(
                f"{column.origin}: an id may have up to {MAX_LENGTH} characters; got one of {longest}. Check "
                "for a quote that is not closed, or use shorter ids."
            )
        has_control = ids.str.contains(r"[\x00-\x1f]").to_numpy(bool)
        if has_control.any():
            raise DataError(
                f"{column.origin}: ids must not hold control characters; row {int(has_control.argmax()) + 1} "
                "does. Check that the file is UTF-8 text (UTF-16 looks like this), and remove them."
            )
    return texts


def _convert_integers(column: Column) -> NDArray[np.int64] | None:
    """The ids as int64; None if they are strings. Raises if they are neither, or if one is missing."""
    if not len(column):
        return np.empty(0, dtype=np.int64)
    values = column.values
    is_missing = values.isna() | (values == "") if column.is_string else values.isna()
    if is_missing.any():
        raise DataError(
            f"{column.origin}: every row needs an id; {int(is_missing.sum())} have none, the first is row "
            f"{int(is_missing.to_numpy().argmax()) + 1}. Fill or remove them."
        )
    if values.dtype.kind not in "iuU":
        raise DataError(
            f"{column.origin}: ids must be integers or strings; got {values.dtype}. Convert them, e.g. with "
            "astype(int) or astype(str)."
        )
    if column.is_string and not (column.is_text and values.str.fullmatch(CANONICAL_INTEGER).all()):
        return None
    try:
        return values.astype("int64[pyarrow]").to_numpy(np.int64)
    except ValueError as error:
        if column.is_string:
            return None  # more digits than an integer holds
        raise DataError(
            f"{column.origin}: integer ids must fit into 64 bits with a sign. {error}. Convert them to "
            "strings."
        ) from error
