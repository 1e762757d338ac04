"""Your own graph from files and back to files, under your ids.

    graph, report = read_graph("edges.csv", "nodes.csv", label="kind")

Tables need the packages of the extra `data` (pandas, pyarrow), which are loaded when first used. For
DataFrames and graphs of other libraries see the methods of `polynsd.data.Graph`.
"""

from polynsd.data.edges import EdgeReport
from polynsd.data.tables.files import TextFormat, write_table
from polynsd.data.tables.read import read_graph, read_tables, read_tables_like
from polynsd.data.tables.schema import ReadOptions, ReadReport, ReadResult, TableSchema
from polynsd.data.tables.write import predictions_table, write_graph

__all__ = [
    "EdgeReport",
    "ReadOptions",
    "ReadReport",
    "ReadResult",
    "TableSchema",
    "TextFormat",
    "predictions_table",
    "read_graph",
    "read_tables",
    "read_tables_like",
    "write_graph",
    "write_table",
]
