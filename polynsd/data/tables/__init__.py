"""Your own graph: from files and other libraries, and back, under your ids.

    graph, report = read_graph("edges.csv", "nodes.csv", label="kind")

Tables need the packages of the extra `data` (pandas, pyarrow), which are loaded when first used.
"""

from polynsd.data.edges import EdgeReport
from polynsd.data.tables.convert import from_networkx, from_pandas, from_pyg, from_scipy
from polynsd.data.tables.export import predictions_table, to_networkx, to_pandas, to_pyg, write_graph
from polynsd.data.tables.files import write_table
from polynsd.data.tables.options import ReadOptions
from polynsd.data.tables.read import (
    ReadReport,
    ReadResult,
    TableSchema,
    read_graph,
    read_tables,
    read_tables_like,
)

__all__ = [
    "EdgeReport",
    "ReadOptions",
    "ReadReport",
    "ReadResult",
    "TableSchema",
    "from_networkx",
    "from_pandas",
    "from_pyg",
    "from_scipy",
    "predictions_table",
    "read_graph",
    "read_tables",
    "read_tables_like",
    "to_networkx",
    "to_pandas",
    "to_pyg",
    "write_graph",
    "write_table",
]
