"""Graphs into files, by extension: tables, GraphML, or the library's own archive (`.npz`)."""

from __future__ import annotations

import logging
from pathlib import Path

from polynsd.data.graph import Graph
from polynsd.data.tables.export import to_networkx, to_pandas
from polynsd.data.tables.files import EXTENSIONS, FilePath, extension_of, write_table, writing
from polynsd.data.tables.read import GRAPHML
from polynsd.errors import unknown_name

ARCHIVE = ".npz"

logger = logging.getLogger("polynsd")


def write_graph(graph: Graph, path: FilePath) -> list[Path]:
    """Writes the graph and returns the files.

    Tables are two files, the edges at `path` and the nodes beside it: `edges.csv` and `edges_nodes.csv`.
    Only archives hold the splits; for the other formats the log says what was left out.
    """
    path, extension = Path(path), extension_of(path)
    if extension == ARCHIVE:
        from polynsd.data.datasets.archive import save_graph

        with writing(path):
            save_graph(path, graph)
        return [path]
    if extension not in (*EXTENSIONS, GRAPHML):
        raise unknown_name("file extension", extension, (*EXTENSIONS, GRAPHML, ARCHIVE))
    if graph.masks or graph.extras:
        logger.warning("%s holds no splits and extras; write a %s file to keep them.", path.name, ARCHIVE)
    return _write_graphml(graph, path) if extension == GRAPHML else _write_tables(graph, path, extension)


def _write_graphml(graph: Graph, path: Path) -> list[Path]:
    import networkx as nx

    with writing(path):
        nx.write_graphml(to_networkx(graph), path)
    return [path]


def _write_tables(graph: Graph, path: Path, extension: str) -> list[Path]:
    nodes_path = path.with_name(f"{path.name[: -len(extension)]}_nodes{extension}")
    for table, file in zip(to_pandas(graph), (path, nodes_path), strict=True):
        write_table(table, file)
    return [path, nodes_path]
