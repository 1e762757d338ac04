"""What a person looks at: progress, tables, pictures."""

from polynsd.report.figures import results_figure
from polynsd.report.graph_figure import graph_figure
from polynsd.report.progress import ProgressReporter
from polynsd.report.tables import print_table

__all__ = ["ProgressReporter", "graph_figure", "print_table", "results_figure"]
