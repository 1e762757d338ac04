"""From an edge table and a node table to a `Graph`: node numbers, features, labels, with a report.

All problems of the tables are collected, and raised as one error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polynsd.data.describe import degrees
from polynsd.data.edges import MergedEdges, merge_edges
from polynsd.data.graph import Graph
from polynsd.data.tables.encode import EncodedTable, encode_columns, read_weights
from polynsd.data.tables.encoder import KEPT, column_days, find_column_format
from polynsd.data.tables.ids import number_nodes
from polynsd.data.tables.labels import NodeLabels, read_labels
from polynsd.data.tables.problems import Problems
from polynsd.data.tables.schema import ReadOptions, ReadReport, ReadResult, TableSchema
from polynsd.data.tables.table import Column, Table, is_number_text, suggest_delimiter
from polynsd.errors import ConfigError, DataError, PolyNSDError, unknown_name
from polynsd.memory import require_memory


def build_graph(
    edges: Table,
    nodes: Table | None,
    options: ReadOptions,
    name: str,
    schema: TableSchema | None = None,
    unseen: str = "error",
) -> ReadResult:
    """The graph of the tables.

    Args:
        edges: a row per edge.
        nodes: a row per node; without it the edges name the nodes.
        options: what each column means.
        name: of the graph.
        schema: the encoders and classes of earlier tables; learned from these tables unless given.
        unseen: `error` or `ignore`, for categories that the schema does not know.
    """
    problems = Problems()
    given, options = options, _name_id_columns(edges, nodes, options)
    pairs, ids = np.empty((2, 0), dtype=np.int64), np.empty(0, dtype=np.int64)
    with problems.collect():
        try:
            pairs, ids = _read_ids(edges, nodes, options, given)
        except PolyNSDError:
            _require_order(edges, nodes)
            if given.id_column is None:
                _require_ids_first(edges, nodes, options)
            raise
    with problems.collect():
        _check_options(edges, nodes, options, is_first=schema is None)
    columns = _NodeColumns()
    if nodes is not None:
        columns = _read_nodes(nodes, options, schema, unseen, problems)
    else:
        with problems.collect():
            given.require_no_node_options()
    encoders = schema.edge_features if schema else None
    on_edges = encode_columns(
        edges, options.edge_features, options, encoders, unseen, problems=problems, is_chosen=True, most=KEPT
    )
    weight = None
    with problems.collect():
        weight = None if options.weight is None else read_weights(edges.column(options.weight))
    problems.check()
    attr = on_edges.values
    if sparse.issparse(attr):
        require_memory(2 * 4 * attr.shape[0] * attr.shape[1], f"{edges.name}, its features as an array,")
        attr = attr.toarray()
    merged = merge_edges(pairs, len(ids), weight, attr, options.aggregate)
    labels, on_nodes = columns.labels, columns.features
    graph = Graph(
        name,
        merged.edge_index,
        len(ids),
        x=on_nodes.values,
        y=labels.y,
        edge_weight=merged.weight,
        edge_attr=merged.attr,
        node_ids=ids,
        class_names=labels.class_names,
        feature_names=on_nodes.feature_names or None,
    )
    report = _make_report(graph, merged, labels, on_nodes, on_edges)
    report = replace(report, unused=_unused_columns(edges, nodes, options, on_nodes))
    schema = schema or TableSchema(
        options, on_nodes.encoders, on_edges.encoders, labels.task, labels.class_names
    )
    unseen_rows = on_nodes.count("unseen") | on_edges.count("unseen")
    return ReadResult(graph, report, schema, unseen_rows, labels.num_unknown, columns.groups, columns.times)


class _NodeColumns(NamedTuple):
    """What the node table says beside the ids."""

    labels: NodeLabels = NodeLabels()
    features: EncodedTable = EncodedTable()
    groups: NDArray[np.int64] | None = None
    times: NDArray[np.float64] | None = None


def _read_nodes(
    nodes: Table, options: ReadOptions, schema: TableSchema | None, unseen: str, problems: Problems
) -> _NodeColumns:
    labels, groups, times = NodeLabels(), None, None
    with problems.collect():
        labels = _read_labels(nodes, options, schema)
    with problems.collect():
        groups = _read_groups(nodes, options, schema)
    with problems.collect():
        times = _read_times(nodes, options, schema)
    features = encode_columns(
        nodes,
        _feature_columns(nodes, options),
        options,
        schema.node_features if schema else None,
        unseen,
        problems=problems,
        is_chosen=options.features is not None,
    )
    return _NodeColumns(labels, features, groups, times)


def _make_report(
    graph: Graph, merged: MergedEdges, labels: NodeLabels, nodes: EncodedTable, edges: EncodedTable
) -> ReadReport:
    return ReadReport(
        edges=merged.report,
        num_nodes=graph.num_nodes,
        isolated=int((degrees(graph) == 0).sum()),
        task=labels.task,
        unlabelled=labels.num_missing,
        one_hot=nodes.one_hot | edges.one_hot,
        pooled=nodes.count("pooled") | edges.count("pooled"),
        dates=(*nodes.dates, *edges.dates),
        filled=nodes.count("filled") | edges.count("filled"),
        edge_feature_names=edges.feature_names,
        left_out={**nodes.left_out, **edges.left_out},
    )


def _name_id_columns(edges: Table, nodes: Table | None, options: ReadOptions) -> ReadOptions:
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


def _read_ids(
    edges: Table, nodes: Table | None, options: ReadOptions, given: ReadOptions
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Node numbers [2, M] of the edges, and the ids [N].

    Columns that the user has not named (`given`) are looked at twice: there may be no header.
    """
    source, target, id_column = options.source or "", options.target or "", options.id_column
    if source == target:
        raise ConfigError(
            f"{edges.name}: source and target must be different columns; both are '{source}'. Name both."
        )
    columns = [edges.column(name, keep_order=False) for name in (source, target)]
    if nodes is not None and id_column is not None:
        columns.append(nodes.column(id_column, keep_order=False))
    for table, column, is_named in (
        (edges, source, given.source),
        (edges, target, given.target),
        (nodes, id_column, given.id_column),
    ):
        if table is not None and column is not None and not is_named:
            _require_header_row(table, column, columns)
    named = nodes or edges
    pairs, ids = number_nodes(columns[0], columns[1], columns[2] if nodes else None, named.name)
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


def _check_options(edges: Table, nodes: Table | None, options: ReadOptions, is_first: bool) -> None:
    """Raises if options name columns that do not exist, or features give the id or the label away.

    A table that is read like an earlier one (not `is_first`) may lack columns that are not used.
    """
    node_columns = list(nodes.columns) if nodes else []
    for names, kind, columns in (
        (options.categorical or (), "categorical column", [*options.edge_features, *node_columns]),
        (options.exclude, "column to exclude", [*edges.columns, *node_columns]),
    ):
        for name in names if is_first else ():
            if name not in columns:
                raise unknown_name(kind, name, set(columns))
    for name in options.features or ():
        if name in (options.id_column, options.label):
            raise ConfigError(
                f"features must not name the id or the label column; got '{name}'. A model that sees its "
                "label learns nothing; remove the column from features=[...]."
            )
    both = [name for name in options.exclude if name in {*(options.features or ()), *options.edge_features}]
    if both or options.label in options.exclude:
        raise ConfigError(
            f"a column is used or excluded, not both; '{both[0] if both else options.label}' is named in "
            "exclude=[...]. Remove it there."
        )


def _feature_columns(nodes: Table, options: ReadOptions) -> Sequence[str]:
    """The columns of node features: those that are named, or all that are left."""
    if options.features is not None:
        return options.features
    taken = {options.id_column, options.label, options.group, options.time, *options.exclude}
    return [name for name in nodes.columns if name not in taken]


def _read_groups(nodes: Table, options: ReadOptions, schema: TableSchema | None) -> NDArray[np.int64] | None:
    """The number of every node's group; in another table than the first the column may be missing."""
    if options.group is None or (schema is not None and options.group not in nodes.columns):
        return None
    return nodes.column(options.group).categories[0]


def _read_times(nodes: Table, options: ReadOptions, schema: TableSchema | None) -> NDArray[np.float64] | None:
    """The number or the day of every node; in another table than the first the column may be missing."""
    if options.time is None or (schema is not None and options.time not in nodes.columns):
        return None
    column = nodes.column(options.time)
    times = column.numbers
    if times is None:
        date_format = find_column_format(column)
        times = None if date_format is None else column_days(column, date_format)
    if times is None:
        raise DataError(
            f"{column.origin}: times must be numbers or dates such as 2024-03-31. Correct them, or choose "
            "another column with time=…."
        )
    return times


def _read_labels(nodes: Table, options: ReadOptions, schema: TableSchema | None) -> NodeLabels:
    """The labels, under the classes of the schema if one is given; then the column may be missing."""
    if options.label is None:
        return NodeLabels()
    if schema is None:
        return read_labels(nodes.column(options.label), options.task)
    if schema.task is None or options.label not in nodes.columns:
        return NodeLabels()
    return read_labels(nodes.column(options.label), schema.task).with_classes(schema.class_names)


def _unused_columns(
    edges: Table, nodes: Table | None, options: ReadOptions, node_features: EncodedTable
) -> tuple[str, ...]:
    used = {options.source, options.target, options.weight, *options.edge_features, *options.exclude}
    unused = [name for name in edges.columns if name not in used]
    if nodes is not None:
        used = {options.id_column, options.label, options.group, options.time, *options.exclude}
        used |= {encoder.column for encoder in node_features.encoders} | node_features.left_out.keys()
        unused += [name for name in nodes.columns if name not in used]
    return tuple(unused)
