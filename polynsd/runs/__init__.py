"""Runs as folders: resumable to the same result, safe to load, easy to tabulate."""

from polynsd.runs.files import StorageError
from polynsd.runs.parts import RunParts
from polynsd.runs.record import RunRecord, find_runs, read_run
from polynsd.runs.run import Run
from polynsd.runs.snapshots import RunSnapshots
from polynsd.runs.table import query, runs_table
from polynsd.runs.tensors import read_tensors, write_tensors

__all__ = [
    "Run",
    "RunParts",
    "RunRecord",
    "RunSnapshots",
    "StorageError",
    "find_runs",
    "query",
    "read_run",
    "read_tensors",
    "runs_table",
    "write_tensors",
]
