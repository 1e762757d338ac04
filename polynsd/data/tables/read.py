"""Graphs from the owner's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polynsd.data.tables.assemble import Read, assemble
from polynsd.data.tables.files import EXTENSIONS, FilePath, extension_of, read_table
from polynsd.data.tables.graphml import read_graphml
from polynsd.data.tables.options import ReadOptions
from polynsd.data.tables.report import log_report
from polynsd.errors import ConfigError, unknown_name

GRAPHML = ".graphml"


def read_graph(
    edges: FilePath, nodes: FilePath | None = None, *, name: str | None = None, **options: Any
) -> Read:
    """The graph in an edge file and a node file, and the report of what reading did.

    Args:
        edges: a table with a row per edge (`.csv`, `.tsv`, `.csv.gz`, `.parquet`), or a `.graphml`
            file, which holds the nodes too.
        nodes: a table with a row per node; without one the edges name the nodes.
        name: of the graph; the name of the edge file by default.
        options: see `ReadOptions`.
    """
    chosen = ReadOptions.of(**options)
    extension = extension_of(edges)
    if extension not in (*EXTENSIONS, GRAPHML):
        raise unknown_name("file extension", extension, (*EXTENSIONS, GRAPHML))
    name = name or Path(edges).name.removesuffix("".join(Path(edges).suffixes))
    if extension == GRAPHML:
        graph, report = _from_graphml(edges, nodes, chosen, name)
    else:
        node_table = None if nodes is None else read_table(nodes)
        graph, report = assemble(read_table(edges), node_table, chosen, name)
    log_report(name, report)
    return graph, report


def _from_graphml(path: FilePath, nodes: FilePath | None, options: ReadOptions, name: str) -> Read:
    if nodes is not None or any((options.id_column, options.source, options.target)):
        raise ConfigError(
            "a GraphML file holds its own nodes and ids; leave out nodes, id_column, source and target."
        )
    return assemble(*read_graphml(path), options.with_reserved_ids(), name)
