"""What a person looks at: progress, tables, pictures."""

from polynsd.report.figures import results_figure
from polynsd.report.files import require_file_name, write_json
from polynsd.report.graph_figure import graph_figure
from polynsd.report.live import ProtocolView, SearchView
from polynsd.report.progress import ProgressReporter
from polynsd.report.records import JsonLines
from polynsd.report.tables import print_table
from polynsd.report.tensorboard import TensorBoardLog

__all__ = [
    "JsonLines",
    "ProgressReporter",
    "ProtocolView",
    "SearchView",
    "TensorBoardLog",
    "graph_figure",
    "print_table",
    "require_file_name",
    "results_figure",
    "write_json",
]
