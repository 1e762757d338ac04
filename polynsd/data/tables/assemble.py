"""An edge table and a node table as a `Graph`, with a report of what was done to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polynsd.data.edges import MergedEdges, merge_edges
from polynsd.data.graph import Graph
from polynsd.data.tables.columns import Column
from polynsd.data.tables.features import FeatureBlock, feature_blocks, repeated_block
from polynsd.data.tables.ids import common_ids, number_by_appearance, number_by_table, to_numpy
from polynsd.data.tables.labels import Labels, read_labels, read_labels_again
from polynsd.data.tables.options import ReadOptions
from polynsd.data.tables.recipe import FeatureRecipe
from polynsd.data.tables.report import ReadReport
from polynsd.data.tables.schema import TableSchema
from polynsd.data.tables.tables import Table, require_two_columns
from polynsd.data.tables.weights import weights
from polynsd.errors import ConfigError, DataError, unknown_name

Read = tuple[Graph, ReadReport]


@dataclass(frozen=True, eq=False)
class _NodeData:
    """What a node table says beside its ids."""

    id_column: str | None = None
    blocks: Sequence[FeatureBlock] = ()
    labels: Labels | None = None
    unused: tuple[str, ...] = ()
    foreign_labels: int = 0


@dataclass(frozen=True, eq=False)
class Assembled:
    """A graph, the report, and what is needed to read another pair of tables in the same way."""

    graph: Graph
    report: ReadReport
    schema: TableSchema
    unseen: Mapping[str, int]  # column -> rows whose category the schema does not know
    foreign_labels: int  # labels that are none of the schema's classes


def assemble(edges: Table, nodes: Table | None, options: ReadOptions, name: str) -> Read:
    """The graph of the tables; without a node table the edges name the nodes."""
    assembled = assemble_by(edges, nodes, options, name)
    return assembled.graph, assembled.report


def assemble_by(
    edges: Table,
    nodes: Table | None,
    options: ReadOptions,
    name: str,
    schema: TableSchema | None = None,
    unseen: str = "error",
) -> Assembled:
    """The graph of the tables, with the features and classes of `schema` if one is given."""
    ends, end_columns = zip(*_end_columns(edges, options), strict=True)
    _check_categorical(edges, nodes, options)
    implied = [name for name, asked in zip(ends, (options.source, options.target), strict=True) if not asked]
    if nodes is None:
        options.require_no_node_options()
        edges.require_names(implied, end_columns)
        pairs, ids = number_by_appearance(common_ids(*end_columns))
        node_data = _NodeData()
    else:
        id_name, id_column = nodes.id_column(options.id_column, 0)
        columns = (*end_columns, id_column)
        edges.require_names(implied, columns)
        nodes.require_names([] if options.id_column else [id_name], columns)
        *end_ids, ids = common_ids(*columns)
        pairs = number_by_table(end_ids, ids, nodes.place)
        node_data = (
            _node_data(nodes, id_name, options)
            if schema is None
            else _node_data_again(nodes, id_name, options, schema, unseen)
        )
    if not len(ids):
        raise DataError(f"{(nodes or edges).place}: a graph needs at least one node; there are no rows.")
    edge_blocks = (
        _blocks(edges, options.edge_features, options)
        if schema is None
        else _blocks_again(edges, schema.edge_features, options, unseen)
    )
    weight = None if options.weight is None else weights(edges.column(options.weight))
    merged = merge_edges(pairs, len(ids), weight, _matrix([block.values for block in edge_blocks]))
    used = {*ends, options.weight, *options.edge_features}
    unused = (*(column for column in edges.raw if column not in used), *node_data.unused)
    graph = _graph(merged, to_numpy(ids), node_data, name)
    return Assembled(
        graph,
        _report(graph, merged, node_data, edge_blocks, unused),
        schema or _schema(options, ends, node_data, edge_blocks),
        {block.column: block.unseen for block in (*node_data.blocks, *edge_blocks) if block.unseen},
        node_data.foreign_labels,
    )


def _end_columns(edges: Table, options: ReadOptions) -> list[tuple[str, Column]]:
    require_two_columns(edges)
    source, target = edges.id_column(options.source, 0), edges.id_column(options.target, 1)
    if source[0] == target[0]:
        raise ConfigError(
            f"{edges.place}: source and target must be different columns; both are '{source[0]}'. Name both."
        )
    return [source, target]


def _check_categorical(edges: Table, nodes: Table | None, options: ReadOptions) -> None:
    known = {*options.edge_features, *(nodes.raw if nodes else ())}
    for column in options.categorical or ():
        if column not in known:
            raise unknown_name("categorical column", column, known)


def _node_data(nodes: Table, id_column: str, options: ReadOptions) -> _NodeData:
    reserved = {id_column, options.label}
    features = options.features
    if features is None:
        features = [name for name in nodes.raw if name not in reserved]
    leaked = [name for name in features if name in reserved]
    if leaked:
        raise ConfigError(
            f"features must not name the id or the label column; got '{leaked[0]}'. A model that sees its "
            "label learns nothing; remove the column from features."
        )
    labels = None if options.label is None else read_labels(nodes.column(options.label), options.task)
    unused = tuple(name for name in nodes.raw if name not in reserved and name not in features)
    return _NodeData(id_column, _blocks(nodes, features, options), labels, unused)


def _node_data_again(
    nodes: Table, id_column: str, options: ReadOptions, schema: TableSchema, unseen: str
) -> _NodeData:
    """By the schema; the label column may be missing."""
    labels, foreign = None, 0
    if options.label is not None and options.label in nodes.raw and schema.task is not None:
        labels, foreign = read_labels_again(nodes.column(options.label), schema.task, schema.class_names)
    used = {id_column, options.label, *(recipe.column for recipe in schema.node_features)}
    unused = tuple(name for name in nodes.raw if name not in used)
    return _NodeData(
        id_column, _blocks_again(nodes, schema.node_features, options, unseen), labels, unused, foreign
    )


def _blocks_again(
    table: Table, recipes: Sequence[FeatureRecipe], options: ReadOptions, unseen: str
) -> list[FeatureBlock]:
    absent = [recipe.column for recipe in recipes if recipe.column not in table.raw]
    if absent:
        raise DataError(
            f"{table.place} must have the columns of training; missing: {', '.join(absent)}. It has "
            f"{', '.join(table.raw)}."
        )
    return [repeated_block(table.column(r.column), r, options.missing, unseen) for r in recipes]


def _schema(
    options: ReadOptions, ends: Sequence[str], nodes: _NodeData, edge_blocks: Sequence[FeatureBlock]
) -> TableSchema:
    """Columns that were taken by their place are known by their name from now on."""
    source, target = ends
    return TableSchema(
        replace(options, id_column=nodes.id_column, source=source, target=target),
        tuple(block.recipe for block in nodes.blocks),
        tuple(block.recipe for block in edge_blocks),
        nodes.labels.task if nodes.labels else None,
        nodes.labels.class_names if nodes.labels else None,
    )


def _blocks(table: Table, names: Sequence[str], options: ReadOptions) -> list[FeatureBlock]:
    columns = [(name, table.column(name)) for name in names]
    return feature_blocks(columns, options.categorical or (), options.missing)


def _matrix(parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32] | None:
    return np.concatenate(parts, axis=1) if parts else None


def _names(blocks: Sequence[FeatureBlock]) -> tuple[str, ...]:
    return tuple(name for block in blocks for name in block.names)


def _graph(edges: MergedEdges, ids: NDArray[Any], nodes: _NodeData, name: str) -> Graph:
    return Graph(
        name,
        edges.edge_index,
        len(ids),
        x=_matrix([block.values for block in nodes.blocks]),
        y=nodes.labels.y if nodes.labels else None,
        edge_weight=edges.weight,
        edge_attr=edges.attr,
        node_ids=ids,
        class_names=nodes.labels.class_names if nodes.labels else None,
        feature_names=_names(nodes.blocks) or None,
    )


def _report(
    graph: Graph,
    edges: MergedEdges,
    nodes: _NodeData,
    edge_blocks: Sequence[FeatureBlock],
    unused: tuple[str, ...],
) -> ReadReport:
    blocks = [*nodes.blocks, *edge_blocks]
    return ReadReport(
        edges=edges.report,
        num_nodes=graph.num_nodes,
        isolated=int((np.bincount(edges.edge_index.ravel(), minlength=graph.num_nodes) == 0).sum()),
        task=nodes.labels.task if nodes.labels else None,
        unlabelled=nodes.labels.num_missing if nodes.labels else 0,
        one_hot={b.column: len(b.recipe.categories) for b in blocks if b.recipe.categories is not None},
        filled={b.column: b.missing for b in blocks if b.missing},
        edge_feature_names=_names(edge_blocks),
        unused=unused,
    )
