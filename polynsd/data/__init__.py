"""Graphs to learn from: benchmarks, your own data, synthetic generators, splits and checks.

graph = load("texas")                                    # from POLYNSD_DATA, the cache, or a download
graph = Graph.from_files("edges.csv", "nodes.csv", label="kind")
splits = get_splits(graph, "geom-gcn")                   # never invented: a missing split is an error
"""

from polynsd.data.datasets.archive import GraphArchive, load_graph, save_graph
from polynsd.data.datasets.catalogue import get_entry, load, names
from polynsd.data.datasets.manifest import Manifest
from polynsd.data.describe import Description, describe_graph
from polynsd.data.generators.chain import syntax_chain
from polynsd.data.generators.eccentricity import eccentricity_labels, hop_eccentricity
from polynsd.data.generators.heterophily import heterophilous_graph
from polynsd.data.generators.minesweeper import minesweeper
from polynsd.data.generators.streets import street_graph
from polynsd.data.graph import Graph, Masks
from polynsd.data.protocols import get_split, get_splits, num_splits
from polynsd.data.splits import Split, data_splits, random_split, stratified_split
from polynsd.data.validation import check_graph

__all__ = [
    "Description",
    "Graph",
    "GraphArchive",
    "Manifest",
    "Masks",
    "Split",
    "check_graph",
    "data_splits",
    "describe_graph",
    "eccentricity_labels",
    "get_entry",
    "get_split",
    "get_splits",
    "heterophilous_graph",
    "hop_eccentricity",
    "load",
    "load_graph",
    "minesweeper",
    "names",
    "num_splits",
    "random_split",
    "save_graph",
    "stratified_split",
    "street_graph",
    "syntax_chain",
]
