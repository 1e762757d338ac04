"""Graphs from a user's files: tables → node numbers, features, labels → `Graph`, with a report.

    graph, report = read_graph("edges.csv", "nodes.csv", label="kind")

    trained_on = read_tables("edges.csv", "nodes.csv", ReadOptions(label="kind"))
    new = read_tables_like(trained_on.schema, "new_edges.csv", "new_nodes.csv")

The second pair of tables is read like the first: the same columns, categories, means and classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.describe import degrees
from polynsd.data.edges import MergedEdges, merge_edges
from polynsd.data.graph import Graph
from polynsd.data.tables.encode import (
    KEPT,
    UNSEEN_RULES,
    EncodedTable,
    column_days,
    encode_columns,
    find_column_format,
    read_weights,
)
from polynsd.data.tables.files import GRAPHML, TABLE_EXTENSIONS, FilePath, extension_of, read_table
from polynsd.data.tables.ids import number_nodes
from polynsd.data.tables.labels import NodeLabels, read_labels
from polynsd.data.tables.problems import Problems
from polynsd.data.tables.schema import ReadOptions, ReadReport, ReadResult, TableSchema
from polynsd.data.tables.table import DELIMITER_HINT, Column, Table, is_number_text, load
from polynsd.errors import ConfigError, DataError, require_choice, unknown_name

MOST_OF_EDGES = KEPT  # features that a column of the edge table may become, because they are stored densely
RENAMED = ("id_column", "source", "target", "delimiter", "encoding", "decimal")


def read_graph(
    edges: FilePath, nodes: FilePath | None = None, *, name: str | None = None, **options: Any
) -> tuple[Graph, ReadReport]:
    """The graph in an edge file and a node file, and the report of what reading did.

    Args:
        edges: a table with a row per edge (`.csv`, `.tsv`, `.csv.gz`, `.parquet`), or a `.graphml`
            file, which holds the nodes too.
        nodes: a table with a row per node; without one the edges name the nodes.
        name: of the graph; the name of the edge file by default.
        options: see `ReadOptions`.
    """
    result = read_tables(edges, nodes, ReadOptions.from_keywords(**options), name)
    result.report.log(result.graph.name)
    return result.graph, result.report


def read_tables(
    edges: FilePath, nodes: FilePath | None, options: ReadOptions, name: str | None = None
) -> ReadResult:
    """Like `read_graph`, with the schema by which `read_tables_like` reads other tables."""
    edge_table, node_table = _read_files(edges, nodes, options)
    if extension_of(edges) == GRAPHML:
        if options.id_column or options.source or options.target:
            raise ConfigError(
                "a GraphML file holds its own nodes and ids; leave out id_column, source and target."
            )
        options = options.with_reserved_ids()
    return build_graph(edge_table, node_table, options, name or _name_graph(edges))


def read_tables_like(
    schema: TableSchema,
    edges: FilePath | None,
    nodes: FilePath | None,
    *,
    unseen: str = "error",
    **renamed: str | None,
) -> ReadResult:
    """The graph in other files, read as those that the schema comes from.

    Args:
        schema: of the first tables.
        edges: a table with a row per edge, or a GraphML file; None for nodes without edges.
        nodes: a table with a row per node. Columns are found by name, in any order; those that the schema
            does not know are reported as unused, and the label column may be missing.
        unseen: `error`, or `ignore` for a row of zeros where a category is new.
        renamed: what is otherwise than in the first tables: `id_column`, `source`, `target`, `delimiter`,
            `encoding`, `decimal`.
    """
    require_choice("rule for unseen categories", unseen, UNSEEN_RULES)
    for key in renamed:
        require_choice("option", key, RENAMED)
    options = replace(schema.options, **{key: name for key, name in renamed.items() if name is not None})
    is_graphml = edges is not None and extension_of(edges) == GRAPHML
    if nodes is None and not is_graphml:
        raise ConfigError("a model needs the features of nodes; pass the node table too, nodes=….")
    options = options.with_reserved_ids() if is_graphml else options
    if edges is None:
        edge_table, node_table = _no_edges(options), read_table(nodes or "", options.text_format)
    else:
        edge_table, found = _read_files(edges, nodes, options)
        assert found is not None
        node_table = found
    return build_graph(edge_table, node_table, options, _name_graph(edges or nodes or ""), schema, unseen)


def _no_edges(options: ReadOptions) -> Table:
    """A table of edges without rows."""
    names = [options.source or "source", options.target or "target", *options.edge_features]
    names += [] if options.weight is None else [options.weight]
    return Table("no edges", load("pandas").DataFrame({name: [] for name in names}, dtype=object))


def _read_files(edges: FilePath, nodes: FilePath | None, options: ReadOptions) -> tuple[Table, Table | None]:
    require_choice("file extension", extension_of(edges), (*TABLE_EXTENSIONS, GRAPHML))
    if extension_of(edges) != GRAPHML:
        problems = Problems()
        tables = list[Table]()
        for path in (edges,) if nodes is None else (edges, nodes):
            with problems.collect():
                tables.append(read_table(path, options.text_format))
        problems.check()
        return tables[0], None if nodes is None else tables[1]
    if nodes is not None:
        raise ConfigError("a GraphML file holds its own nodes; leave out the node table.")
    from polynsd.data.tables.graphml import read_graphml

    return read_graphml(edges)


def _name_graph(edges: FilePath) -> str:
    return Path(edges).name.removesuffix("".join(Path(edges).suffixes))


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
        pairs, ids = _read_ids(edges, nodes, options, given)
    with problems.collect():
        _check_options(edges, nodes, options)
    labels, node_features = NodeLabels(), EncodedTable()
    groups = times = None
    if nodes is None:
        with problems.collect():
            given.require_no_node_options()
    else:
        with problems.collect():
            labels = _read_labels(nodes, options, schema)
        with problems.collect():
            groups = _read_groups(nodes, options, schema)
        with problems.collect():
            times = _read_times(nodes, options, schema)
        node_features = encode_columns(
            nodes,
            _feature_columns(nodes, options),
            options,
            schema.node_features if schema else None,
            unseen,
            problems=problems,
            is_chosen=options.features is not None,
        )
    edge_features = encode_columns(
        edges,
        options.edge_features,
        options,
        schema.edge_features if schema else None,
        unseen,
        problems=problems,
        is_chosen=True,
        most=MOST_OF_EDGES,
    )
    weight = None
    with problems.collect():
        weight = None if options.weight is None else read_weights(edges.column(options.weight))
    problems.check()
    merged = merge_edges(pairs, len(ids), weight, edge_features.values, options.aggregate)
    graph = Graph(
        name,
        merged.edge_index,
        len(ids),
        x=node_features.values,
        y=labels.y,
        edge_weight=merged.weight,
        edge_attr=merged.attr,
        node_ids=ids,
        class_names=labels.class_names,
        feature_names=node_features.feature_names or None,
    )
    report = _make_report(graph, merged, labels, node_features, edge_features)
    report = replace(report, unused=_unused_columns(edges, nodes, options, node_features))
    schema = schema or TableSchema(
        options, node_features.encoders, edge_features.encoders, labels.task, labels.class_names
    )
    unseen_rows = {**node_features.unseen, **edge_features.unseen}
    return ReadResult(graph, report, schema, unseen_rows, labels.num_unknown, groups, times)


def _make_report(
    graph: Graph, merged: MergedEdges, labels: NodeLabels, nodes: EncodedTable, edges: EncodedTable
) -> ReadReport:
    return ReadReport(
        edges=merged.report,
        num_nodes=graph.num_nodes,
        isolated=int((degrees(graph) == 0).sum()),
        task=labels.task,
        unlabelled=labels.num_missing,
        one_hot={**nodes.one_hot, **edges.one_hot},
        pooled={**nodes.pooled, **edges.pooled},
        dates=(*nodes.dates, *edges.dates),
        filled={**nodes.filled, **edges.filled},
        edge_feature_names=edges.feature_names,
        left_out={**nodes.left_out, **edges.left_out},
    )


def _name_id_columns(edges: Table, nodes: Table | None, options: ReadOptions) -> ReadOptions:
    """The options with the names of the id columns, the first ones by default."""
    if len(edges.columns) < 2:
        raise DataError(
            f"{edges.name}: edges need at least two columns, source and target; only one was found, "
            f"'{edges.columns[0]}'. {DELIMITER_HINT}"
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


def _check_options(edges: Table, nodes: Table | None, options: ReadOptions) -> None:
    """Raises if options name columns that do not exist, or features give the id or the label away."""
    node_columns = list(nodes.columns) if nodes else []
    for names, kind, columns in (
        (options.categorical or (), "categorical column", [*options.edge_features, *node_columns]),
        (options.exclude, "column to exclude", [*edges.columns, *node_columns]),
    ):
        for name in names:
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
