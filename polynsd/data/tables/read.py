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
from polynsd.data.edges import merge_edges
from polynsd.data.graph import Graph
from polynsd.data.tables.encode import (
    UNSEEN_RULES,
    EncodedTable,
    NodeLabels,
    encode_columns,
    read_labels,
    read_weights,
)
from polynsd.data.tables.files import GRAPHML, TABLE_EXTENSIONS, FilePath, extension_of, read_table
from polynsd.data.tables.ids import number_nodes
from polynsd.data.tables.schema import ReadOptions, ReadReport, ReadResult, TableSchema
from polynsd.data.tables.table import DELIMITER_HINT, Column, Table, is_number_text
from polynsd.errors import ConfigError, DataError, require_choice, unknown_name


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
    edge_table, node_table = _read_files(edges, nodes)
    if extension_of(edges) == GRAPHML:
        if options.id_column or options.source or options.target:
            raise ConfigError(
                "a GraphML file holds its own nodes and ids; leave out id_column, source and target."
            )
        options = options.with_reserved_ids()
    return build_graph(edge_table, node_table, options, name or _name_graph(edges))


def read_tables_like(
    schema: TableSchema,
    edges: FilePath,
    nodes: FilePath | None,
    *,
    unseen: str = "error",
    id_column: str | None = None,
    source: str | None = None,
    target: str | None = None,
) -> ReadResult:
    """The graph in other files, read as those that the schema comes from.

    Args:
        schema: of the first tables.
        edges: a table with a row per edge, or a GraphML file.
        nodes: a table with a row per node. Columns are found by name, in any order; those that the schema
            does not know are reported as unused, and the label column may be missing.
        unseen: `error`, or `ignore` for a row of zeros where a category is new.
        id_column: the column of ids, if it has another name than in the first tables.
        source: the column where an edge begins, likewise.
        target: the column where it ends, likewise.
    """
    require_choice("rule for unseen categories", unseen, UNSEEN_RULES)
    renamed = {"id_column": id_column, "source": source, "target": target}
    options = replace(schema.options, **{key: name for key, name in renamed.items() if name is not None})
    edge_table, node_table = _read_files(edges, nodes)
    if node_table is None:
        raise ConfigError("a model needs the features of nodes; pass the node table too.")
    if extension_of(edges) == GRAPHML:
        options = options.with_reserved_ids()
    return build_graph(edge_table, node_table, options, _name_graph(edges), schema, unseen)


def _read_files(edges: FilePath, nodes: FilePath | None) -> tuple[Table, Table | None]:
    require_choice("file extension", extension_of(edges), (*TABLE_EXTENSIONS, GRAPHML))
    if extension_of(edges) != GRAPHML:
        return read_table(edges), None if nodes is None else read_table(nodes)
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
    pairs, ids, options = _read_ids(edges, nodes, options)
    _check_options(edges, nodes, options)
    labels, node_features = NodeLabels(), EncodedTable()
    if nodes is not None:
        labels = _read_labels(nodes, options, schema)
        names = options.features
        if names is None:
            names = [name for name in nodes.columns if name not in (options.id_column, options.label)]
        encoders = schema.node_features if schema else None
        node_features = encode_columns(nodes, names, options, encoders, unseen)
    encoders = schema.edge_features if schema else None
    edge_features = encode_columns(edges, options.edge_features, options, encoders, unseen)
    weight = None if options.weight is None else read_weights(edges.column(options.weight))
    merged = merge_edges(pairs, len(ids), weight, edge_features.values)
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
    all_encoders = (*node_features.encoders, *edge_features.encoders)
    report = ReadReport(
        edges=merged.report,
        num_nodes=graph.num_nodes,
        isolated=int((degrees(graph) == 0).sum()),
        task=labels.task,
        unlabelled=labels.num_missing,
        one_hot={e.column: len(e.categories) for e in all_encoders if e.categories is not None},
        filled={**node_features.filled, **edge_features.filled},
        edge_feature_names=edge_features.feature_names,
        unused=_unused_columns(edges, nodes, options, node_features),
    )
    schema = schema or TableSchema(
        options, node_features.encoders, edge_features.encoders, labels.task, labels.class_names
    )
    unseen_rows = {**node_features.unseen, **edge_features.unseen}
    return ReadResult(graph, report, schema, unseen_rows, labels.num_unknown)


def _read_ids(
    edges: Table, nodes: Table | None, options: ReadOptions
) -> tuple[NDArray[np.int64], NDArray[Any], ReadOptions]:
    """Node numbers [2, M] of the edges, the ids [N], and the options with the names of the id columns."""
    if len(edges.columns) < 2:
        raise DataError(
            f"{edges.name}: edges need at least two columns, source and target; only one was found, "
            f"'{edges.columns[0]}'. {DELIMITER_HINT}"
        )
    source, target = options.source or edges.columns[0], options.target or edges.columns[1]
    if source == target:
        raise ConfigError(
            f"{edges.name}: source and target must be different columns; both are '{source}'. Name both."
        )
    columns = [edges.column(name, keep_order=False) for name in (source, target)]
    id_name = None
    if nodes is None:
        options.require_no_node_options()
    else:
        id_name = options.id_column or nodes.columns[0]
        columns.append(nodes.column(id_name, keep_order=False))
    for table, column, is_named in (
        (edges, source, options.source),
        (edges, target, options.target),
        (nodes, id_name, options.id_column),
    ):
        if table is not None and column is not None and not is_named:
            _require_header_row(table, column, columns)
    named = nodes or edges
    pairs, ids = number_nodes(columns[0], columns[1], columns[2] if nodes else None, named.name)
    if not len(ids):
        raise DataError(f"{named.name}: a graph needs at least one node; there are no rows.")
    return pairs, ids, replace(options, source=source, target=target, id_column=id_name)


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
    """Raises if columns of `categorical` do not exist, or features give the id or the label away."""
    encodable = {*options.edge_features, *(nodes.columns if nodes else ())}
    for name in options.categorical or ():
        if name not in encodable:
            raise unknown_name("categorical column", name, encodable)
    for name in options.features or ():
        if name in (options.id_column, options.label):
            raise ConfigError(
                f"features must not name the id or the label column; got '{name}'. A model that sees its "
                "label learns nothing; remove the column from features."
            )


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
    used = {options.source, options.target, options.weight, *options.edge_features}
    unused = [name for name in edges.columns if name not in used]
    if nodes is not None:
        used = {options.id_column, options.label, *(encoder.column for encoder in node_features.encoders)}
        unused += [name for name in nodes.columns if name not in used]
    return tuple(unused)
