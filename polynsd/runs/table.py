"""Many runs as one tidy table: a row per run and split.

    runs_table("runs")                                                  a pandas DataFrame
    query("runs", "SELECT model, avg(test) FROM splits GROUP BY model")  any SQL that DuckDB knows

Rows are plain dicts until somebody wants a DataFrame or SQL; only those need the extra `runs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

from polynsd.errors import ConfigError, DataError
from polynsd.runs.optional import load
from polynsd.runs.plain import compact
from polynsd.runs.record import RunRecord, find_runs, read_run
from polynsd.runs.scores import SCORES, common, mapping, model_label, scores, text, typed

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]

TEXT = ("dataset", "protocol", "model", "metric", "select")
SPLITS: dict[str, type] = {  # columns of `splits`, a row per run and split
    **dict.fromkeys(("folder", "kind", "state", *TEXT), str),
    **SCORES,
    **dict.fromkeys(("started", "finished", "commit"), str),
    "dirty": bool,
    **dict.fromkeys(("version", "config", "problem"), str),
}
RUNS: dict[str, type] = {  # columns of `runs`, a row per run
    **dict.fromkeys(("folder", "kind", "state", *TEXT), str),
    "splits": int,
    **dict.fromkeys(("val", "test", "std"), float),
    **dict.fromkeys(("started", "finished", "commit"), str),
    "dirty": bool,
    **dict.fromkeys(("version", "config", "problem"), str),
}


def split_rows(root: str | Path) -> list[Row]:
    """A row per run below `root` and split; a run without a result has one row without numbers."""
    root = Path(root)
    return [row for folder in find_runs(root) for row in rows_of(folder, folder.relative_to(root).as_posix())]


def rows_of(folder: Path, name: str) -> list[Row]:
    """The rows of one run, called `name`. A damaged one says so in its `problem`."""
    blank: Row = dict.fromkeys(SPLITS) | {"folder": text(name)}
    try:
        record = read_run(folder)
    except DataError as error:
        return [{**blank, "state": "damaged", "problem": text(str(error))}]
    about = _about(record)
    return [{**blank, **about, **split} for split in scores(record.result or {}, record.inputs.get("splits"))]


def run_rows(rows: Sequence[Row]) -> list[Row]:
    """A row per run: means over its splits, and the population's standard deviation of `test`."""
    return [_summary(list(group)) for _, group in groupby(rows, key=lambda row: row["folder"])]


def runs_table(root: str | Path) -> pd.DataFrame:
    """The tidy table of all runs below a folder."""
    pandas, arrow = load("pandas"), load("pyarrow")
    whole = {arrow.int64(): pandas.Int64Dtype()}
    return _arrow(split_rows(root), SPLITS).to_pandas(types_mapper=whole.get)


def query(root: str | Path, sql: str) -> pd.DataFrame:
    """Asks the tables `splits` (a row per run and split) and `runs` (a row per run)."""
    return _ask(split_rows(root), sql).df()


def where(rows: Sequence[Row], condition: str) -> list[Row]:
    """The runs of some rows for which an SQL condition holds."""
    answer = _ask(rows, f"SELECT * FROM runs WHERE {condition}")
    names = [column[0] for column in answer.description]
    return [dict(zip(names, values, strict=True)) for values in answer.fetchall()]


def _ask(rows: Sequence[Row], sql: str) -> Any:
    duckdb = load("duckdb")
    connection = duckdb.connect(
        config={"enable_external_access": "false"}
    )  # SQL sees the tables, not the disk
    connection.register("splits", _arrow(rows, SPLITS))
    connection.register("runs", _arrow(run_rows(rows), RUNS))
    try:
        return connection.execute(sql)
    except duckdb.Error as error:
        raise ConfigError(
            f"the table of runs cannot be asked that: {error}. Columns of runs: {', '.join(RUNS)}. "
            f"Columns of splits: {', '.join(SPLITS)}."
        ) from error


def _arrow(rows: Sequence[Row], columns: Mapping[str, type]) -> Any:
    arrow = load("pyarrow")
    types = {str: arrow.string(), int: arrow.int64(), float: arrow.float64(), bool: arrow.bool_()}
    return arrow.Table.from_pylist(
        list(rows), schema=arrow.schema([(n, types[t]) for n, t in columns.items()])
    )


def _about(record: RunRecord) -> Row:
    result, session = common(record.result or {}), record.environment[0] if record.environment else {}
    places = (result, record.inputs, record.config)
    git, packages = mapping(session.get("git")), mapping(session.get("packages"))
    return {
        **{key: text(_first(places, key)) for key in TEXT},
        "model": model_label(_first(places, "model")),
        "kind": text(record.kind),
        "state": record.state,
        "started": text(session.get("started")),
        "finished": text(record.timings.get("finished")),
        "commit": text(git.get("commit")),
        "dirty": typed(git.get("dirty"), bool),
        "version": text(packages.get("polynsd")),
        "config": compact(record.config),
    }


def _first(places: Sequence[Mapping[str, Any]], key: str) -> Any:
    return next((place[key] for place in places if place.get(key) is not None), None)


def _summary(rows: Sequence[Row]) -> Row:
    tests = [row["test"] for row in rows if row["test"] is not None]
    vals = [row["val"] for row in rows if row["val"] is not None]
    return {key: rows[0].get(key) for key in RUNS} | {
        "splits": len(tests) or None,
        "val": fmean(vals) if vals else None,
        "test": fmean(tests) if tests else None,
        "std": pstdev(tests) if tests else None,
    }
