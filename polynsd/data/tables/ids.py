"""The user's ids, and the number of the node that each of them stands for.

Ids are integers or strings. Those of text files are integers only if every id of the graph is written as an
integer is ("7", not "007" and not "7.0"); otherwise all of them stay as they are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.tables.problems import Problems
from polynsd.data.tables.table import Column
from polynsd.errors import DataError, GraphError
from polynsd.memory import require_memory
from polynsd.optional import load_table_package

if TYPE_CHECKING:
    import pandas as pd

CANONICAL_INTEGER = r"(0|-?[1-9][0-9]*)"
MAX_LENGTH = 1000  # numpy stores every string as wide as the longest
OBJECT_BYTES = 100  # of a string in Python, with its place in a list


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
    pd = load_table_package("pandas")
    if nodes is None and len(source) and not (source.is_string or target.is_string):
        _check_type(source)
        _check_type(target)
        ends = np.stack([_to_int64(source), _to_int64(target)], axis=1)  # so that rows number the nodes
        codes, ids = pd.factorize(ends.ravel())
        return codes.reshape(-1, 2).T, ids
    codes, ids = _factorize([source, target] if nodes is None else [nodes, source, target])
    if nodes is None:
        numbers, order = pd.factorize(codes.reshape(2, -1).T.ravel())  # in the order of the rows
        return numbers.reshape(-1, 2).T, ids[order]
    problems, num_nodes = Problems(), len(nodes)
    pairs = codes[num_nodes:].reshape(2, -1)
    with problems.collect():
        _require_distinct(codes[:num_nodes], ids, node_table)
    with problems.collect():
        _require_known(pairs, codes[:num_nodes], ids, node_table)
    problems.check()
    return pairs, ids[:num_nodes]


def _require_distinct(nodes: NDArray[np.int64], ids: NDArray[Any], node_table: str) -> None:
    """Raises if two rows have one id; `nodes` are the positions of their ids in `ids`."""
    is_repeated = nodes != np.arange(len(nodes))  # positions count the ids as they first appear
    if is_repeated.any():
        row, repeated = int(is_repeated.argmax()), len(nodes) - int(nodes.max()) - 1
        rows = "1 row repeats" if repeated == 1 else f"{repeated} rows repeat"
        raise DataError(
            f"{node_table} must name every id once; {rows} one, the first "
            f"{ids[nodes[row]].item()!r} in row {row + 1}. Remove or merge them."
        )


def _require_known(
    pairs: NDArray[np.int64], nodes: NDArray[np.int64], ids: NDArray[Any], node_table: str
) -> None:
    """Raises if an edge names an id that no row has; ids of edges alone come after those of the rows."""
    is_unknown = pairs > nodes.max(initial=-1)
    if is_unknown.any():
        edge = int(is_unknown.any(axis=0).argmax())
        missing = ids[pairs[is_unknown[:, edge].argmax(), edge]].item()
        examples = f" Its ids are like {', '.join(map(repr, ids[:2].tolist()))}." if len(nodes) > 1 else ""
        raise GraphError(
            f"every edge must join ids of {node_table}; {int(is_unknown.any(axis=0).sum())} edges name an id "
            f"that is missing there, the first {missing!r} (edge {edge + 1}).{examples} Add the nodes or "
            "drop these edges; ids that are text are compared as they are written ('7' is neither '007' nor "
            "'7.0')."
        )


def _factorize(columns: Sequence[Column]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """All ids of the columns as positions in the array of different ids, in the order of appearance."""
    pd, pa = load_table_package("pandas"), load_table_package("pyarrow")
    columns = [column for column in columns if len(column)]
    if not columns:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for column in columns:
        _check_type(column)
    if not any(column.is_string for column in columns):
        codes, ids = pd.factorize(np.concatenate([_to_int64(column) for column in columns]))
        return codes, ids
    text = pd.ArrowDtype(pa.large_string())
    codes, distinct = pd.factorize(pd.concat([column.values.astype(text) for column in columns]))
    distinct = pd.Series(distinct)
    _check_texts(distinct, columns)
    can_be_integers = all(column.is_text or not column.is_string for column in columns)
    if can_be_integers and distinct.str.fullmatch(CANONICAL_INTEGER).all():
        try:
            return codes, distinct.astype("int64[pyarrow]").to_numpy(np.int64)
        except ValueError:
            pass  # more digits than an integer holds
    longest = int(distinct.str.len().max())
    require_memory(
        len(distinct) * (4 * longest + OBJECT_BYTES),
        f"{columns[0].origin}: {len(distinct):,} ids, one of them of {longest} characters,",
    )
    return codes, distinct.to_numpy(object).astype(str)


def _check_type(column: Column) -> None:
    """Raises unless every row has an id and the ids are integers or strings."""
    is_missing = column.values.isna()
    if is_missing.any():
        raise DataError(
            f"{column.origin}: every row needs an id; {int(is_missing.sum())} have none, the first is row "
            f"{int(is_missing.to_numpy().argmax()) + 1}. Fill or remove them."
        )
    if column.values.dtype.kind not in "iuU":
        raise DataError(
            f"{column.origin}: ids must be integers or strings; got {column.values.dtype}. Convert them, "
            "e.g. with astype(int) or astype(str)."
        )


def _to_int64(column: Column) -> NDArray[np.int64]:
    try:
        return np.asarray(column.values.astype("int64[pyarrow]").to_numpy(np.int64))
    except ValueError as error:
        raise DataError(
            f"{column.origin}: integer ids must fit into 64 bits with a sign. {error}. Convert them to "
            "strings."
        ) from error


def _check_texts(distinct: pd.Series, columns: Sequence[Column]) -> None:
    """Raises for ids that are empty, too long or not text; rows are looked up only for the message."""
    lengths, has_control = distinct.str.len(), distinct.str.contains(r"[\x00-\x1f]")
    problems = (
        (
            lengths == 0,
            "every row needs an id; {count} have none, the first is row {row}. Fill or remove them.",
        ),
        (
            lengths > MAX_LENGTH,
            f"an id may have up to {MAX_LENGTH} characters; got one of {lengths.max()}. Check for a quote "
            "that is not closed, or use shorter ids.",
        ),
        (
            has_control,
            "ids must not hold control characters; row {row} does. Check that the file is UTF-8 text (UTF-16 "
            "looks like this), and remove them.",
        ),
    )
    for is_wrong, problem in problems:
        wrong = distinct[is_wrong.to_numpy(bool)]
        for column in columns if len(wrong) else ():
            rows = column.values.isin(wrong).to_numpy(bool)
            if column.is_string and rows.any():
                details = problem.format(count=int(rows.sum()), row=int(rows.argmax()) + 1)
                raise DataError(f"{column.origin}: {details}")
