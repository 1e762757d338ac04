"""What a person looks at: progress, tables, figures; and the same events for machines."""

from polynsd.report.figures import graph_figure, results_figure
from polynsd.report.output import JsonLines, print_results, print_table
from polynsd.report.progress import ProgressReporter
from polynsd.report.protocol_view import ProtocolView
from polynsd.report.search_view import SearchView
from polynsd.report.tensorboard import TensorBoardLog

__all__ = [
    "JsonLines",
    "ProgressReporter",
    "ProtocolView",
    "SearchView",
    "TensorBoardLog",
    "graph_figure",
    "print_results",
    "print_table",
    "results_figure",
]
