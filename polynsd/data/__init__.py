"""Graphs to learn from: benchmarks, your own data, synthetic generators, splits and checks.

graph = load("texas")                                    # from POLYNSD_DATA, the cache, or a download
graph = Graph.from_files("edges.csv", "nodes.csv", label="kind")
graph = heterophilous_graph(num_nodes=600, heterophily=0.95)
splits = get_splits(graph, "geom-gcn")                   # never invented: a missing split is an error
data = graph.to_pyg()                                    # what models train on
"""

from polynsd.data.datasets.archive import load_graph, save_graph
from polynsd.data.datasets.catalogue import get_entry, load, names, open_graph
from polynsd.data.describe import Description, describe_graph, heterophily
from polynsd.data.generators import (
    eccentricity_labels,
    heterophilous_graph,
    hop_eccentricity,
    make_graph,
    minesweeper,
    planted_sheaf,
    street_graph,
    syntax_chain,
)
from polynsd.data.graph import Graph
from polynsd.data.protocols import get_split, get_splits, num_splits
from polynsd.data.splits import (
    Masks,
    Split,
    data_splits,
    random_split,
    split_by_group,
    split_by_time,
    stratified_split,
)
from polynsd.data.validation import check_arrays, check_graph

__all__ = [
    "Description",
    "Graph",
    "Masks",
    "Split",
    "check_arrays",
    "check_graph",
    "data_splits",
    "describe_graph",
    "eccentricity_labels",
    "get_entry",
    "get_split",
    "get_splits",
    "heterophilous_graph",
    "heterophily",
    "hop_eccentricity",
    "load",
    "load_graph",
    "make_graph",
    "minesweeper",
    "names",
    "num_splits",
    "open_graph",
    "planted_sheaf",
    "random_split",
    "save_graph",
    "split_by_group",
    "split_by_time",
    "stratified_split",
    "street_graph",
    "syntax_chain",
]
