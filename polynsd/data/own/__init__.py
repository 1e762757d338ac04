"""Your own graph: from files and other libraries, and back, under your own ids.

    graph, report = read_graph("edges.csv", "nodes.csv", label="kind")

Tables need the packages of the extra `data` (pandas, pyarrow), which are loaded when first used.
"""

from polynsd.data.own.convert import from_networkx, from_pandas, from_pyg, from_scipy
from polynsd.data.own.edges import EdgeReport
from polynsd.data.own.export import to_networkx, to_pandas, to_pyg
from polynsd.data.own.files import write_table
from polynsd.data.own.options import ReadOptions
from polynsd.data.own.predictions import predictions_table
from polynsd.data.own.read import read_graph
from polynsd.data.own.report import ReadReport
from polynsd.data.own.write import write_graph

__all__ = [
    "EdgeReport",
    "ReadOptions",
    "ReadReport",
    "from_networkx",
    "from_pandas",
    "from_pyg",
    "from_scipy",
    "predictions_table",
    "read_graph",
    "to_networkx",
    "to_pandas",
    "to_pyg",
    "write_graph",
    "write_table",
]
