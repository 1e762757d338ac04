"""The tables of a run of `polynsd fit`: where they were, whether they have changed, how they were read."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from polynsd.data.tables import ReadResult, TableSchema, read_tables_like
from polynsd.errors import ConfigError, DataError
from polynsd.runs import RunRecord
from polynsd.runs.files import RESULT


def read_tables_for(record: RunRecord, edges: Path | None, nodes: Path | None, **options: Any) -> ReadResult:
    """Tables as a fitted model takes them: those that are named, or those of its fit."""
    schema = read_schema(record)
    if edges is None and nodes is None:
        edges, nodes = _tables_of_fit(record)
    return read_tables_like(schema, edges, nodes, **options)


def _tables_of_fit(record: RunRecord) -> tuple[Path, Path | None]:
    """The tables that the model was fitted to, if they are where they were and as they were."""
    paths = {name: Path(path) for name, path in (record.result or {}).get("paths", {}).items()}
    for name, path in paths.items():
        if not path.exists():
            raise DataError(f"the {name} of the fit were in {path}; they are not there now. Name them.")
        if hash_file(path) != record.inputs.get(name):
            raise DataError(f"{path} has changed since the fit. Name the tables with --edges and --nodes.")
    if "edges" not in paths:
        raise ConfigError(f"{record.folder} does not say where its tables were; name them with --edges.")
    return paths["edges"], paths.get("nodes")


def read_schema(record: RunRecord) -> TableSchema:
    """How the tables of the fit were read."""
    schema = (record.result or {}).get("schema")
    if schema is None:
        raise ConfigError(
            f"{record.folder} holds a model that was not trained on tables; load it in Python with "
            "polynsd.estimator.load_estimator, or fit one with polynsd fit."
        )
    try:
        return TableSchema.from_dict(schema)
    except (KeyError, TypeError, ValueError) as error:
        path = record.folder / RESULT
        raise DataError(f"{path} is damaged: its schema cannot be read ({error}).") from error


def hash_file(path: Path) -> str:
    """SHA-256 of a file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
