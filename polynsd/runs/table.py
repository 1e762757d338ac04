"""Many runs as one tidy table: a row per run and split.

    runs_table("runs")                                                  a pandas DataFrame
    query("runs", "SELECT model, avg(test) FROM splits GROUP BY model")  any SQL that DuckDB knows

Rows are dicts; only DataFrames, SQL and Parquet need the extra `runs`.

The scores of each kind of run:

    protocol    splits: [{split, seed, fingerprint, val, test, best_epoch, epochs}, …]
    run-off     none: it compares trials, and is in no test
    model       val, test; or values: {val_score_, metric_} of an estimator
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from io import BytesIO, StringIO
from itertools import groupby
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

from polynsd.errors import ConfigError, DataError
from polynsd.runs.files import compact_json, make_folder, write_durably
from polynsd.runs.record import RunRecord, find_runs, load_package, read_run

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]

SCORES: dict[str, type] = {
    "split": int,
    "seed": int,
    "fingerprint": str,
    "val": float,
    "test": float,
    "best_epoch": int,
    "epochs": int,
}
ABOUT = ("dataset", "protocol", "model", "metric", "select")
FIRST = dict.fromkeys(("folder", "kind", "state", *ABOUT), str)
LAST = {
    **dict.fromkeys(("started", "finished", "commit"), str),
    "dirty": bool,
    **dict.fromkeys(("version", "config", "problem"), str),
}
SPLITS: dict[str, type] = {**FIRST, **SCORES, **LAST}  # columns of `splits`, a row per run and split
RUNS: dict[str, type] = {  # columns of `runs`, a row per run
    **FIRST,
    "splits": int,
    **dict.fromkeys(("val", "test", "std"), float),
    **LAST,
}
SUFFIXES = (".csv", ".parquet")


def split_rows(root: str | Path) -> list[Row]:
    """A row per run below `root` and split; a run without a result has one row without numbers."""
    root = Path(root)
    return [
        row for folder in find_runs(root) for row in read_rows(folder, folder.relative_to(root).as_posix())
    ]


def read_rows(folder: Path, name: str) -> list[Row]:
    """The rows of one run, called `name`. A damaged one says so in its `problem`."""
    empty: Row = dict.fromkeys(SPLITS) | {"folder": _to_text(name)}
    try:
        record = read_run(folder)
    except DataError as error:
        return [{**empty, "state": "damaged", "problem": _to_text(str(error))}]
    about, fingerprints = _describe(record), record.inputs.get("splits")
    rows = []
    for split in _split_scores(record.result or {}):
        scores = {key: _to_type(split.get(key), kind) for key, kind in SCORES.items()}
        if isinstance(fingerprints, list) and not scores["fingerprint"]:  # the result may not repeat them
            scores["fingerprint"] = _to_type(dict(enumerate(fingerprints)).get(scores["split"]), str)
        rows.append({**empty, **about, **scores})
    return rows


def summarise_runs(rows: Sequence[Row]) -> list[Row]:
    """A row per run: means over its splits, and the population's std of `test`, where there are several."""
    summaries = []
    for _, group in groupby(rows, key=lambda row: row["folder"]):
        splits = list(group)
        count = sum(row["test"] is not None for row in splits) or None
        about = {key: splits[0].get(key) for key in RUNS}
        summaries.append(about | {"splits": count, **average_scores(splits)})
    return summaries


def average_scores(rows: Sequence[Row]) -> Row:
    """Means of `val` and `test`, and the population's `std` of several tests; None where there are none."""
    vals, tests = ([row[key] for row in rows if row[key] is not None] for key in ("val", "test"))
    return {
        "val": fmean(vals) if vals else None,
        "test": fmean(tests) if tests else None,
        "std": pstdev(tests) if len(tests) > 1 else None,
    }


def runs_table(root: str | Path) -> pd.DataFrame:
    """The tidy table of all runs below a folder."""
    pandas, arrow = load_package("pandas"), load_package("pyarrow")
    integers = {arrow.int64(): pandas.Int64Dtype()}  # whole numbers stay whole where some are missing
    return _to_arrow(split_rows(root), SPLITS).to_pandas(types_mapper=integers.get)


def query(root: str | Path, sql: str) -> pd.DataFrame:
    """The answer to SQL over the tables `splits` (a row per run and split) and `runs` (a row per run)."""
    return _execute(split_rows(root), sql).df()


def filter_runs(rows: Sequence[Row], condition: str) -> list[Row]:
    """The runs of some rows for which an SQL condition holds."""
    answer = _execute(rows, f"SELECT * FROM runs WHERE {condition}")
    names = [column[0] for column in answer.description]
    return [dict(zip(names, values, strict=True)) for values in answer.fetchall()]


def _execute(rows: Sequence[Row], sql: str) -> Any:
    duckdb = load_package("duckdb")
    # SQL sees the tables, not the disk
    connection = duckdb.connect(config={"enable_external_access": "false"})
    connection.register("splits", _to_arrow(rows, SPLITS))
    connection.register("runs", _to_arrow(summarise_runs(rows), RUNS))
    try:
        return connection.execute(sql)
    except duckdb.Error as error:
        raise ConfigError(
            f"the table of runs cannot be asked that: {error}. Columns of runs: {', '.join(RUNS)}. "
            f"Columns of splits: {', '.join(SPLITS)}."
        ) from error


def _to_arrow(rows: Sequence[Row], columns: Mapping[str, type]) -> Any:
    arrow = load_package("pyarrow")
    types = {str: arrow.string(), int: arrow.int64(), float: arrow.float64(), bool: arrow.bool_()}
    schema = arrow.schema([(name, types[kind]) for name, kind in columns.items()])
    return arrow.Table.from_pylist(list(rows), schema=schema)


def require_table_name(path: Path | None) -> None:
    """Raises, before any work is done, where a table could not be written."""
    if path is not None and (path.suffix not in SUFFIXES or path.is_dir()):
        raise ConfigError(f"tables are .csv or .parquet files; got {path}. Name such a file.")


def write_rows(path: Path, rows: Sequence[Row]) -> Path:
    """Writes rows with equal keys as .csv or .parquet, all or nothing."""
    require_table_name(path)
    make_folder(path.parent)
    if path.suffix == ".csv":
        text = StringIO()
        writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_durably(path, text.getvalue().encode())
    else:
        content = BytesIO()
        table = load_package("pyarrow").Table.from_pylist(list(rows))
        load_package("pyarrow.parquet").write_table(table, content)
        write_durably(path, content.getvalue())
    return path


def _describe(record: RunRecord) -> Row:
    """All columns but the scores."""
    session = record.environment[0] if record.environment else {}
    sources = (_with_common_names(record.result or {}), record.inputs, record.config)
    about = {key: next((s[key] for s in sources if s.get(key) is not None), None) for key in ABOUT}
    git, packages = _to_dict(session.get("git")), _to_dict(session.get("packages"))
    return {
        **{key: _to_text(value) for key, value in about.items()},
        "model": _to_text(
            _to_dict(about["model"]).get("model", about["model"])
        ),  # a label or a configuration
        "kind": _to_text(record.kind),
        "state": record.state,
        "started": _to_text(session.get("started")),
        "finished": _to_text(record.timings.get("finished")),
        "commit": _to_text(git.get("commit")),
        "dirty": _to_type(git.get("dirty"), bool),
        "version": _to_text(packages.get("polynsd")),
        "config": compact_json(record.config),
    }


def _split_scores(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The scores of every split; one mapping in all where a result has no splits."""
    splits = result.get("splits")
    if isinstance(splits, list) and splits and all(isinstance(split, dict) for split in splits):
        return splits
    return [_with_common_names(result)]


def _with_common_names(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result with the names that estimators use translated."""
    values = _to_dict(result.get("values"))
    names = {"val": "val_score_", "metric": "metric_"}
    return {key: values[name] for key, name in names.items() if name in values} | dict(result)


def _to_type(value: Any, kind: type) -> Any:
    """The value if it has its column's type and fits into 64 bits, None otherwise."""
    if kind is float and type(value) is int:
        return float(value) if abs(value) < 2**63 else None
    if type(value) is not kind or (isinstance(value, int) and abs(value) >= 2**63):
        return None
    return _to_text(value) if kind is str else value


def _to_text(value: Any) -> str | None:
    """Text that every table can hold: JSON and file names may contain lone surrogates."""
    if value is None:
        return None
    text = value if isinstance(value, str) else compact_json(value)
    return text.encode(errors="replace").decode()


def _to_dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
