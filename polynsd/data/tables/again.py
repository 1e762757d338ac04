"""Tables to train on, and later other tables read in the same way: columns, categories, means, classes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from polynsd.data.tables.assemble import Assembled, assemble_by
from polynsd.data.tables.files import EXTENSIONS, FilePath, extension_of, read_table
from polynsd.data.tables.graphml import read_graphml
from polynsd.data.tables.options import ReadOptions
from polynsd.data.tables.read import GRAPHML
from polynsd.data.tables.recipe import UNSEEN_RULES
from polynsd.data.tables.schema import TableSchema
from polynsd.data.tables.tables import Table
from polynsd.errors import ConfigError, require_choice


def read_first(edges: FilePath, nodes: FilePath | None, options: ReadOptions) -> Assembled:
    """The graph in the owner's files, with the schema to read others by; see `read_graph`."""
    edge_table, node_table = _tables(edges, nodes)
    if _is_graphml(edges):
        options = options.with_reserved_ids()
    return assemble_by(edge_table, node_table, options, _name(edges))


def read_again(
    edges: FilePath,
    nodes: FilePath | None,
    schema: TableSchema,
    *,
    unseen: str = "error",
    id_column: str | None = None,
    source: str | None = None,
    target: str | None = None,
) -> Assembled:
    """The graph in other files, read as those that the schema comes from.

    Args:
        edges: a table with a row per edge, or a GraphML file.
        nodes: a table with a row per node. Columns are found by name, in any order; those that the schema
            does not know are reported as unused, and the label column may be missing.
        schema: of the first tables.
        unseen: `error`, or `ignore` for a row of zeros where a category is new.
        id_column: the column of ids, if it has another name than in the first tables.
        source: the column where an edge begins, likewise.
        target: the column where it ends, likewise.
    """
    require_choice("rule for unseen categories", unseen, UNSEEN_RULES)
    renamed = {"id_column": id_column, "source": source, "target": target}
    options = replace(schema.options, **{key: name for key, name in renamed.items() if name is not None})
    edge_table, node_table = _tables(edges, nodes)
    if node_table is None:
        raise ConfigError("a model needs the features of nodes; pass the node table too.")
    if _is_graphml(edges):
        options = options.with_reserved_ids()
    return assemble_by(edge_table, node_table, options, _name(edges), schema, unseen)


def _tables(edges: FilePath, nodes: FilePath | None) -> tuple[Table, Table | None]:
    require_choice("file extension", extension_of(edges), (*EXTENSIONS, GRAPHML))
    if _is_graphml(edges):
        if nodes is not None:
            raise ConfigError("a GraphML file holds its own nodes; leave out the node table.")
        return read_graphml(edges)
    return read_table(edges), None if nodes is None else read_table(nodes)


def _is_graphml(edges: FilePath) -> bool:
    return extension_of(edges) == GRAPHML


def _name(edges: FilePath) -> str:
    return Path(edges).name.removesuffix("".join(Path(edges).suffixes))
