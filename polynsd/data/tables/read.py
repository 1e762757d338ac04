"""Graphs from a user's files: tables → node numbers, features, labels → `Graph`, with a report.

    graph, report = read_graph("edges.csv", "nodes.csv", label="kind")

    trained_on = read_tables("edges.csv", "nodes.csv", ReadOptions(label="kind"))
    new = read_tables_like(trained_on.schema, "new_edges.csv", "new_nodes.csv")

The second pair of tables is read like the first: the same columns, categories, means and classes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from polynsd.data.graph import Graph
from polynsd.data.tables.build import build_graph
from polynsd.data.tables.encoder import UNSEEN_RULES
from polynsd.data.tables.files import GRAPHML, TABLE_EXTENSIONS, FilePath, extension_of, read_table
from polynsd.data.tables.problems import Problems
from polynsd.data.tables.schema import ReadOptions, ReadReport, ReadResult, TableSchema
from polynsd.data.tables.table import Table
from polynsd.errors import ConfigError, require_choice
from polynsd.optional import load_table_package

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
    pd = load_table_package("pandas")
    return Table("no edges", pd.DataFrame({name: [] for name in names}, dtype=object))


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
