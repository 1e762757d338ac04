"""Runs as folders: resumable to the same result, safe to load, easy to tabulate."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polynsd.runs.files import StorageError
    from polynsd.runs.record import RunRecord, find_runs, read_run
    from polynsd.runs.run import Run
    from polynsd.runs.snapshots import RunParts, RunSnapshots
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

if not TYPE_CHECKING:  # a type checker would take it for a promise that every name exists
    from polynsd.lazy import import_on_use as _import_on_use

    __getattr__ = _import_on_use(
        __name__,
        {
            "files": ("StorageError",),
            "record": ("RunRecord", "find_runs", "read_run"),
            "run": ("Run",),
            "snapshots": ("RunParts", "RunSnapshots"),
            "table": ("query", "runs_table"),
            "tensors": ("read_tensors", "write_tensors"),
        },
    )
