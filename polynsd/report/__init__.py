"""What a person looks at: progress, tables, pictures."""

from polynsd.report.figures import results_figure
from polynsd.report.files import require_file_name, write_json
from polynsd.report.graph_figure import graph_figure
from polynsd.report.progress import ProgressReporter
from polynsd.report.tables import print_table

__all__ = [
    "ProgressReporter",
    "graph_figure",
    "print_table",
    "require_file_name",
    "results_figure",
    "write_json",
]
