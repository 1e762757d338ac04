"""The user's ids: their columns, and the number of the node that each of them stands for.

Ids are integers or strings. Those of text files are integers only if every id of the graph is written as an
integer is ("7", not "007" and not "7.0"); otherwise all of them stay as they are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.tables.problems import Problems
from polynsd.data.tables.table import Column, Table, is_number_text, suggest_delimiter
from polynsd.errors import ConfigError, DataError, GraphError, PolyNSDError
from polynsd.memory import require_memory
from polynsd.optional import load_table_package

if TYPE_CHECKING:
    import pandas as pd

    from polynsd.data.tables.schema import ReadOptions

CANONICAL_INTEGER = r"(0|-?[1-9][0-9]*)"
MAX_LENGTH = 1000  # numpy stores every string as wide as the longest
OBJECT_BYTES = 100  # of a string in Python, with its place in a list


def name_id_columns(edges: Table, nodes: Table | None, options: ReadOptions) -> ReadOptions:
    """The options with the names of the id columns, the first ones by default."""
    if len(edges.columns) < 2:
        raise DataError(
            f"{edges.name}: edges need at least two columns, source and target; only one was found, "
            f"'{edges.columns[0]}'. {suggest_delimiter()}"
        )
    return replace(
        options,
        source=options.source or edges.columns[0],
        target=options.target or edges.columns[1],
        id_column=None if nodes is None else options.id_column or nodes.columns[0],
    )


def read_ids(
    edges: Table, nodes: Table | None, options: ReadOptions, user_options: ReadOptions
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Node numbers `[2, M]` of the edges, and the ids `[N]`.

    Args:
        edges: a row per edge.
        nodes: a row per node, or None.
        options: with the names of all id columns (`name_id_columns`).
        user_options: with those that the user has named.
    """
    try:
        return _number_ids(edges, nodes, options, user_options)
    except PolyNSDError:
        _require_order(edges, nodes)
        if user_options.id_column is None:
            _require_ids_first(edges, nodes, options)
        raise


def _number_ids(
    edges: Table, nodes: Table | None, options: ReadOptions, user_options: ReadOptions
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    if options.source == options.target:
        raise ConfigError(
            f"{edges.name}: source and target must be different columns; both are '{options.source}'. Name "
            "both."
        )
    roles = [(edges, "source"), (edges, "target")]
    if nodes is not None:
        roles.append((nodes, "id_column"))
    columns = [table.column(getattr(options, role), keep_order=False) for table, role in roles]
    for table, role in roles:
        if not getattr(user_options, role):  # then it is the first column, of a file that may have no header
            _require_header_row(table, getattr(options, role), columns)
    named = nodes or edges
    pairs, ids = _number_nodes(columns[0], columns[1], columns[2] if nodes else None, named.name)
    if not len(ids):
        raise DataError(f"{named.name}: a graph needs at least one node; there are no rows.")
    return pairs, ids


def _require_header_row(table: Table, name: str, ids: Sequence[Column]) -> None:
    """Raises if the first line of a text file holds a number or an id where a name should be."""
    if name in table.text_columns and (
        is_number_text(name) or any((column.values == name).any() for column in ids if column.is_string)
    ):
        raise DataError(
            f"{table.name}: the first line must name the columns, but '{name}' looks like an id. Add "
            "a header such as 'source,target' or 'id,age,label'; if it is one, name the column."
        )


def _require_order(edges: Table, nodes: Table | None) -> None:
    """Raises if the table of edges names nodes once each and that of nodes names pairs of them."""
    if nodes is None or len(nodes.columns) < 2:
        return
    ids, *ends = (
        table.column(name, keep_order=False).values.astype(str)
        for table, name in ((edges, edges.columns[0]), *((nodes, name) for name in nodes.columns[:2]))
    )
    if len(ends[0]) and ids.is_unique and all(end.isin(ids).all() for end in ends):
        raise DataError(
            f"{edges.name} looks like the table of nodes and {nodes.name} like that of edges; give the edges "
            "first."
        )


def _require_ids_first(edges: Table, nodes: Table | None, options: ReadOptions) -> None:
    """Raises if another column than the first of the node table names the ends of all edges, once each."""
    ends = [edges.column(name or "", keep_order=False).values for name in (options.source, options.target)]
    if nodes is None or not len(ends[0]):
        return
    texts = [end.astype(str) for end in ends]
    for name in nodes.columns[1:]:
        ids = nodes.column(name, keep_order=False).values.astype(str)
        if texts[0].iloc[:1].isin(ids).all() and ids.is_unique and all(end.isin(ids).all() for end in texts):
            raise DataError(
                f"{nodes.name}: the ids of the edges are in column '{name}', but the first column is taken "
                f"for the id. Say id_column='{name}'."
            )


def _number_nodes(
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
    pd, problems = load_table_package("pandas"), Problems()
    if nodes is None and len(source) and not (source.is_string or target.is_string):
        _check_type(source, problems)
        _check_type(target, problems)
        problems.check()
        ends = np.stack([_to_int64(source), _to_int64(target)], axis=1)  # so that rows number the nodes
        codes, ids = pd.factorize(ends.ravel())
        return codes.reshape(-1, 2).T, ids
    codes, ids = _factorize([source, target] if nodes is None else [nodes, source, target], problems)
    if nodes is None:
        problems.check()
        numbers, order = pd.factorize(codes.reshape(2, -1).T.ravel())  # in the order of the rows
        return numbers.reshape(-1, 2).T, ids[order]
    num_nodes = len(nodes)
    pairs = codes[num_nodes:].reshape(2, -1)
    with problems.collect():
        _require_distinct(codes[:num_nodes], ids, node_table)
    with problems.collect():
        _require_known(pairs, codes[:num_nodes], ids, node_table)
    problems.check()
    return pairs, ids[:num_nodes]


def _require_distinct(nodes: NDArray[np.int64], ids: NDArray[Any], node_table: str) -> None:
    """Raises if two rows have one id; `nodes` are the positions of their ids in `ids`, −1 without one."""
    is_repeated = load_table_package("pandas").Series(nodes).duplicated().to_numpy() & (nodes >= 0)
    if is_repeated.any():
        row, repeated = int(is_repeated.argmax()), int(is_repeated.sum())
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
    if is_unknown.any() and not len(nodes):
        raise GraphError(f"{node_table} has a header and no rows. Check that it was written completely.")
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


def _factorize(columns: Sequence[Column], problems: Problems) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """All ids of the columns as positions in the array of different ids, in the order of appearance.

    Rows without an id are among the problems; their position is −1.
    """
    pd, pa = load_table_package("pandas"), load_table_package("pyarrow")
    columns = [column for column in columns if len(column)]
    if not columns:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for column in columns:
        _check_type(column, problems)
    if not any(column.is_string for column in columns):
        problems.check()
        codes, ids = pd.factorize(np.concatenate([_to_int64(column) for column in columns]))
        return codes, ids
    text = pd.ArrowDtype(pa.large_string())
    codes, distinct = pd.factorize(pd.concat([column.values.astype(text) for column in columns]))
    distinct = pd.Series(distinct)
    empty = _check_texts(distinct, columns, problems)
    if len(distinct) and distinct.str.len().max() > MAX_LENGTH:
        problems.check()
    codes[np.isin(codes, empty)] = -1
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


def _check_type(column: Column, problems: Problems) -> None:
    """Raises unless ids are integers or strings; rows without an id are among the problems."""
    is_missing = column.values.isna()
    with problems.collect():
        if is_missing.any():
            raise DataError(
                f"{column.origin}: every row needs an id; {int(is_missing.sum())} have none, the first is "
                f"row {int(is_missing.to_numpy().argmax()) + 1}. Fill or remove them."
            )
    if column.values.dtype.kind not in "iuU":
        problems.check()
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


def _check_texts(distinct: pd.Series, columns: Sequence[Column], problems: Problems) -> NDArray[np.int64]:
    """Collects ids that are empty, too long or not text; returns the positions of the empty one, if any.

    Rows are looked up only for the message.
    """
    lengths, has_control = distinct.str.len(), distinct.str.contains(r"[\x00-\x1f]")
    rules = (
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
    for is_wrong, rule in rules:
        wrong = distinct[is_wrong.to_numpy(bool)]
        for column in columns if len(wrong) else ():
            rows = column.values.isin(wrong).to_numpy(bool)
            if column.is_string and rows.any():
                details = rule.format(count=int(rows.sum()), row=int(rows.argmax()) + 1)
                problems.errors.append(DataError(f"{column.origin}: {details}"))
    return np.flatnonzero((lengths == 0).to_numpy(bool))
