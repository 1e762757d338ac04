"""From an edge table and a node table to a `Graph`: node numbers, features, labels, with a report.

All problems of the tables are collected, and raised as one error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polynsd.data.describe import degrees
from polynsd.data.edges import EdgeReport, merge_edges
from polynsd.data.graph import Graph
from polynsd.data.tables.encoder import KEPT
from polynsd.data.tables.features import EncodedTable, encode_columns, read_weights
from polynsd.data.tables.ids import name_id_columns, read_ids
from polynsd.data.tables.labels import NodeLabels, read_labels
from polynsd.data.tables.problems import Problems
from polynsd.data.tables.schema import ReadOptions, ReadReport, ReadResult, TableSchema
from polynsd.data.tables.table import Column, Table
from polynsd.errors import ConfigError, DataError, unknown_name
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
    user_options, options = options, name_id_columns(edges, nodes, options)
    pairs, ids = np.empty((2, 0), dtype=np.int64), np.empty(0, dtype=np.int64)
    with problems.collect():
        pairs, ids = read_ids(edges, nodes, options, user_options)
    with problems.collect():
        _check_options(edges, nodes, options, is_first=schema is None)
    with problems.collect():
        if nodes is None:
            user_options.require_no_node_options()
    columns = _NodeColumns() if nodes is None else _read_nodes(nodes, options, schema, unseen, problems)
    encoders = schema.edge_features if schema else None
    edge_features = encode_columns(
        edges, options.edge_features, options, encoders, unseen, problems=problems, is_chosen=True, most=KEPT
    )
    weight = None
    with problems.collect():
        weight = read_weights(edges, options.weight)
    problems.check()
    attr = _to_array(edge_features, edges.name)
    merged = merge_edges(pairs, len(ids), weight, attr, options.aggregate)
    labels, features = columns.labels, columns.features
    graph = Graph(
        name,
        merged.edge_index,
        len(ids),
        x=features.values,
        y=labels.y,
        edge_weight=merged.weight,
        edge_attr=merged.attr,
        node_ids=ids,
        class_names=labels.class_names,
        feature_names=features.feature_names or None,
    )
    if schema is None:
        schema = TableSchema(
            options, features.encoders, edge_features.encoders, labels.task, labels.class_names
        )
    unused = _unused_columns(edges, nodes, options, features)
    report = _make_report(graph, merged.report, columns, edge_features, unused)
    unseen_rows = features.count("unseen") | edge_features.count("unseen")
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
    """Of another table than the first (with a `schema`), all columns but the features may be missing."""

    def find_column(name: str | None) -> Column | None:
        if name is None or (schema is not None and name not in nodes.columns):
            return None
        return nodes.column(name)

    task, class_names = (options.task, None) if schema is None else (schema.task, schema.class_names)
    labels, groups, times = NodeLabels(), None, None
    with problems.collect():
        if task is not None and (column := find_column(options.label)) is not None:
            labels = read_labels(column, task).with_classes(class_names)
    with problems.collect():
        if (column := find_column(options.group)) is not None:
            groups = column.categories[0]
    with problems.collect():
        if (column := find_column(options.time)) is not None:
            times = _read_times(column)
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


def _read_times(column: Column) -> NDArray[np.float64]:
    """The number or the day of every node."""
    times = column.read_numbers(column.date_format)
    if times is None:
        raise DataError(
            f"{column.origin}: times must be numbers or dates such as 2024-03-31. Correct them, or choose "
            "another column with time=…."
        )
    return times


def _to_array(features: EncodedTable, table: str) -> NDArray[np.float32] | None:
    """The features of the edges, which are never stored sparsely."""
    values = features.values
    if sparse.issparse(values):
        require_memory(2 * 4 * values.shape[0] * values.shape[1], f"{table}, its features as an array,")
        values = values.toarray()
    return values


def _make_report(
    graph: Graph, merged: EdgeReport, nodes: _NodeColumns, edges: EncodedTable, unused: tuple[str, ...]
) -> ReadReport:
    columns = (*nodes.features.columns, *edges.columns)
    features = EncodedTable(columns, {**nodes.features.left_out, **edges.left_out})
    return ReadReport(
        edges=merged,
        num_nodes=graph.num_nodes,
        isolated=int((degrees(graph) == 0).sum()),
        task=nodes.labels.task,
        unlabelled=0 if graph.y is None else int((~graph.is_labelled).sum()),
        numbers=features.numbers,
        one_hot=features.one_hot,
        pooled=features.count("pooled"),
        words=features.words,
        dates=features.dates,
        filled=features.count("filled"),
        edge_feature_names=edges.feature_names,
        unused=unused,
        left_out=features.left_out,
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
    return [name for name in nodes.columns if name not in _other_columns(options)]


def _other_columns(options: ReadOptions) -> set[str | None]:
    """The columns of the node table that have a meaning of their own."""
    return {options.id_column, options.label, options.group, options.time, *options.exclude}


def _unused_columns(
    edges: Table, nodes: Table | None, options: ReadOptions, node_features: EncodedTable
) -> tuple[str, ...]:
    used = {options.source, options.target, options.weight, *options.edge_features, *options.exclude}
    unused = [name for name in edges.columns if name not in used]
    if nodes is not None:
        used = _other_columns(options) | {encoder.column for encoder in node_features.encoders}
        used |= node_features.left_out.keys()
        unused += [name for name in nodes.columns if name not in used]
    return tuple(unused)
