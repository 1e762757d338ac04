"""Graphs from a user's files, DataFrames and NetworkX graphs, with a report of what reading did.

    graph, report = read_graph("edges.csv", "nodes.csv", label="kind")

    trained_on = read_tables("edges.csv", "nodes.csv", ReadOptions(label="kind"))
    new = read_tables_like(trained_on.schema, "new_edges.csv", "new_nodes.csv")

The second pair of tables is read like the first: the same columns, categories, means and classes. The
attributes of a NetworkX graph are the columns of two tables.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polynsd.data.graph import Graph
from polynsd.data.tables.build import build_graph
from polynsd.data.tables.encoder import UNSEEN_RULES
from polynsd.data.tables.files import GRAPHML, TABLE_EXTENSIONS, FilePath, extension_of, read_table
from polynsd.data.tables.problems import Problems
from polynsd.data.tables.schema import ID, SOURCE, TARGET, ReadOptions, ReadReport, ReadResult, TableSchema
from polynsd.data.tables.table import Table
from polynsd.errors import ConfigError, DataError, require_choice
from polynsd.optional import load_table_package

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

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


def from_pandas(
    edges: pd.DataFrame, nodes: pd.DataFrame | None = None, *, name: str = "graph", **options: Any
) -> Graph:
    """The graph in an edge table and a node table; `options` are those of `ReadOptions`."""
    node_table = None if nodes is None else Table.from_frame(nodes, "nodes")
    edge_table = Table.from_frame(edges, "edges")
    result = build_graph(edge_table, node_table, ReadOptions.from_keywords(**options), name)
    result.report.log(name)
    return result.graph


def from_networkx(graph: nx.Graph, *, name: str = "graph", **options: Any) -> Graph:
    """From a NetworkX graph of any kind; its nodes must be integers or strings, which are the ids."""
    result = read_networkx(graph, ReadOptions.from_keywords(**options), name)
    result.report.log(name)
    return result.graph


def read_tables(
    edges: FilePath, nodes: FilePath | None, options: ReadOptions, name: str | None = None
) -> ReadResult:
    """Like `read_graph`, with the schema by which `read_tables_like` reads other tables."""
    tables = _read_files(edges, nodes, options)
    if extension_of(edges) == GRAPHML:
        if options.id_column or options.source or options.target:
            raise ConfigError(
                "a GraphML file holds its own nodes and ids; leave out id_column, source and target."
            )
        options = options.with_reserved_ids()
    return build_graph(*tables, options, name or _name_graph(edges))


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
    tables = _read_files(edges, nodes, options)
    return build_graph(*tables, options, _name_graph(edges or nodes or ""), schema, unseen)


def read_networkx(
    graph: nx.Graph,
    options: ReadOptions,
    name: str,
    schema: TableSchema | None = None,
    unseen: str = "error",
) -> ReadResult:
    """Like `from_networkx`, with the report and the schema, by which another graph is read alike."""
    for node in graph.nodes:
        if not isinstance(node, int | str | np.integer) or isinstance(node, bool):
            raise DataError(
                f"the nodes of a NetworkX graph must be integers or strings, as they are the ids; got "
                f"{node!r}. Rename them, e.g. with networkx.relabel_nodes(graph, str)."
            )
    triples = list(graph.edges(data=True))
    ends = {SOURCE: [edge[0] for edge in triples], TARGET: [edge[1] for edge in triples]}
    edges = Table.from_records("the edges of the NetworkX graph", ends, [edge[2] for edge in triples])
    attributes = [attributes for _, attributes in graph.nodes(data=True)]
    nodes = Table.from_records("the nodes of the NetworkX graph", {ID: list(graph.nodes)}, attributes)
    return build_graph(edges, nodes, options.with_reserved_ids(), name, schema, unseen)


def _read_files(
    edges: FilePath | None, nodes: FilePath | None, options: ReadOptions
) -> tuple[Table, Table | None]:
    """The tables of edges, without rows if there is no file, and of nodes."""
    if edges is not None:
        require_choice("file extension", extension_of(edges), (*TABLE_EXTENSIONS, GRAPHML))
        if extension_of(edges) == GRAPHML:
            from polynsd.data.tables.graphml import read_graphml

            if nodes is not None:
                raise ConfigError("a GraphML file holds its own nodes; leave out the node table.")
            return read_graphml(edges)
    problems, tables = Problems(), list[Table | None]()
    for path in (edges, nodes):
        with problems.collect():
            tables.append(None if path is None else read_table(path, options.text_format))
    problems.check()
    edge_table, node_table = tables
    return edge_table or _no_edges(options), node_table


def _no_edges(options: ReadOptions) -> Table:
    names = [options.source or "source", options.target or "target", *options.edge_features]
    names += [] if options.weight is None else [options.weight]
    frame = load_table_package("pandas").DataFrame({name: [] for name in names}, dtype=object)
    return Table("no edges", frame)


def _name_graph(edges: FilePath) -> str:
    return Path(edges).name.removesuffix("".join(Path(edges).suffixes))
