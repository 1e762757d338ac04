"""Graphs to learn from: synthetic generators, splits and checks.

Everything here is deterministic in its arguments and works without a network connection.
"""

from polynsd.data.heterophily import heterophilous_graph
from polynsd.data.minesweeper import minesweeper
from polynsd.data.splits import Split, data_splits, random_split, stratified_split
from polynsd.data.validation import check_graph

__all__ = [
    "Split",
    "check_graph",
    "data_splits",
    "heterophilous_graph",
    "minesweeper",
    "random_split",
    "stratified_split",
]
