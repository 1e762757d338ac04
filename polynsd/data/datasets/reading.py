"""A graph from wherever its name points: the catalogue, an archive, or tables of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polynsd.data.datasets import catalogue
from polynsd.data.datasets.archive import load_graph
from polynsd.data.datasets.entries import Entry
from polynsd.data.graph import Graph
from polynsd.data.tables import read_graph


def find_graph(
    name: str,
    nodes: Path | None = None,
    label: str | None = None,
    weight: str | None = None,
    extras: bool = False,
) -> tuple[Graph, Entry | None, Any]:
    """The graph, its entry in the catalogue, and a report on the tables that were read.

    Args:
        name: of a benchmark, or a path.
        nodes: a table of nodes, where edges stand in a table of their own.
        label: the column of the labels.
        weight: the column of the edge weights.
        extras: whether to keep further arrays of an archive.
    """
    path = Path(name)
    if path.suffix == ".npz":
        return load_graph(path, extras=extras), None, None
    if path.suffix or path.is_file():
        graph, report = read_graph(path, nodes, label=label, weight=weight)
        return graph, None, report
    return catalogue.load(name), catalogue.get_entry(name), None
