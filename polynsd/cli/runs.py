"""`polynsd runs …`: what was run, what came of it, and how runs compare."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from polynsd.errors import ConfigError, unknown_name
from polynsd.report import print_table
from polynsd.runs.compare import BLOCK, compare_rows
from polynsd.runs.curves import curve_rows
from polynsd.runs.export import require_table_name, write_rows
from polynsd.runs.plain import flatten
from polynsd.runs.record import RunRecord, find_runs, read_run
from polynsd.runs.table import RUNS, Row, rows_of, run_rows, split_rows, where

WIDTH = 100  # of what is shown of one value


@dataclass(frozen=True)
class RunsList:
    """List the runs below a folder: state, dataset, model and result of each."""

    root: Positional[Path] = Path("runs")
    """Where to look; folders below it are searched too."""
    where: str | None = None
    """An SQL condition, e.g. "dataset = 'texas' AND test > 0.8"; columns as in --json."""
    sort: str = "folder"
    """A column; with a minus before it from the largest down, e.g. --sort=-test."""
    json: bool = False
    """Print JSON instead of a table."""

    def run(self) -> list[Row]:
        """Prints a line per run."""
        rows = split_rows(self.root)
        found = run_rows(rows) if self.where is None else where(rows, self.where)
        found = _sorted(found, self.sort)
        if self.json:
            _print_json(found)
            return found
        header = (
            "run",
            "state",
            "dataset",
            "protocol",
            "model",
            "metric",
            "test",
            "val",
            "splits",
            "started",
        )
        title = f"{len(found)} of {len(run_rows(rows))} runs in {self.root}"
        print_table(title, header, [_list_row(row) for row in found])
        for row in found:
            if row["problem"]:
                print(f"damaged: {row['problem']}")
        return found


@dataclass(frozen=True)
class RunsShow:
    """Show one run: what it does, how far it is, what came of it and where it was made."""

    folder: Positional[Path]
    """The folder of the run."""
    json: bool = False
    """Print JSON instead of tables."""

    def run(self) -> RunRecord:
        """Prints everything but the weights."""
        record = read_run(self.folder)
        if self.json:
            _print_json(_as_dict(record))
            return record
        about = {"kind": record.kind, "state": _state(record), **_prefixed(record)}
        print_table(str(self.folder), ("", ""), [(key, _shown(value)) for key, value in about.items()])
        _print_result(record)
        _print_curves(record)
        _print_sessions(record)
        return record


@dataclass(frozen=True)
class RunsCompare:
    """Compare runs: mean ± std per group, and paired differences over the splits they share."""

    folders: Positional[tuple[Path, ...]]
    """Two or more runs, or folders that hold many."""
    by: str | None = None
    """Columns that make a group, e.g. model,dataset or config.model.layer.degree; otherwise model for folders
    of many runs, folder for single ones."""
    baseline: str | None = None
    """The group that others are compared with; otherwise the first run, or the best on validation."""
    json: bool = False
    """Print JSON instead of a table."""
    out: Path | None = None
    """A file for the table: .csv or .parquet."""

    def run(self) -> list[Row]:
        """Prints a line per group."""
        require_table_name(self.out)
        if not self.folders:
            raise ConfigError("name the runs to compare, or a folder that holds them.")
        names = _names(self.folders)
        rows = [row for folder, name in names.items() for row in rows_of(folder, name)]
        single = len(self.folders) > 1 and all(folder in names for folder in self.folders)
        by = (self.by or ("folder" if single else "model")).split(",")
        first = names[self.folders[0]] if single and by == ["folder"] else None
        table = compare_rows(rows, by, self.baseline or first)
        if self.out is not None:
            write_rows(self.out, table)
        _print_json(table) if self.json else _print_comparison(table, by)
        return table


def _names(roots: Sequence[Path]) -> dict[Path, str]:
    """Every run below the roots, and its path from the folder that they share."""
    found = [folder for root in roots for folder in find_runs(root)]
    shared = Path(os.path.commonpath([root.resolve() for root in roots]))
    return {folder: folder.resolve().relative_to(shared).as_posix() for folder in found}


def _sorted(rows: list[Row], column: str) -> list[Row]:
    """Rows without a value come last, whatever the direction."""
    name, falling = column.removeprefix("-"), column.startswith("-")
    if name not in RUNS:
        raise unknown_name("column", name, RUNS)
    present = [row for row in rows if row[name] is not None]
    return sorted(present, key=lambda row: row[name], reverse=falling) + [r for r in rows if r[name] is None]


def _list_row(row: Row) -> tuple[str, ...]:
    texts = (row[key] or "" for key in ("folder", "state", "dataset", "protocol", "model", "metric"))
    started = (row["started"] or "")[:16].replace("T", " ")
    return (*texts, _mean(row), _number(row["val"]), str(row["splits"] or ""), started)


def _print_comparison(table: Sequence[Row], by: Sequence[str]) -> None:
    columns = [*BLOCK, *(column for column in by if column not in BLOCK)]
    header = (*columns, "runs", "n", "val", "test", "difference", "splits", "wins", "against")
    rows = [
        (
            *(row[column] or "" for column in columns),
            *(str(row[key]) for key in ("runs", "n")),
            _number(row["val"]),
            _mean(row),
            "" if row["difference"] is None else f"{row['difference']:+.4f} ± {row['difference_std']:.4f}",
            *("" if row[key] is None else str(row[key]) for key in ("pairs", "wins")),
            row["against"] or "",
        )
        for row in table
    ]
    print_table("mean ± population std; differences over shared splits", header, rows)


def _print_result(record: RunRecord) -> None:
    if record.result is None:
        return
    facts = {key: value for key, value in flatten(record.result).items() if key != "splits"}
    facts |= {f"timings.{key}": value for key, value in flatten(record.timings).items()}
    print_table("", ("result", ""), [(key, _shown(value)) for key, value in facts.items()])
    splits = [row for row in rows_of(record.folder, "") if row["split"] is not None]
    keys = ("split", "seed", "val", "test", "best_epoch", "epochs")
    if splits:
        print_table("", keys, [tuple(_shown(row[key]) for key in keys) for row in splits])


def _print_curves(record: RunRecord) -> None:
    records = record.metrics()
    rows = [(name, *(_shown(value) for value in values)) for name, *values in curve_rows(records)]
    if rows:
        print_table("", (f"{len(records):,} lines of metrics", "first", "least", "most", "last"), rows)


def _print_sessions(record: RunRecord) -> None:
    """A column per session: a resumed run shows what changed in between."""
    sessions = [{key: _shown(value) for key, value in flatten(entry).items()} for entry in record.environment]
    keys = dict.fromkeys(key for entry in sessions for key in entry)
    header = ("where it was made", *(f"session {number}" for number in range(1, len(sessions) + 1)))
    if sessions:
        print_table("", header, [(key, *(entry.get(key, "") for entry in sessions)) for key in keys])


def _as_dict(record: RunRecord) -> dict[str, Any]:
    return {
        "folder": str(record.folder),
        "kind": record.kind,
        "state": record.state,
        "config": record.config,
        "inputs": record.inputs,
        "environment": list(record.environment),
        "result": record.result,
        "timings": record.timings,
    }


def _state(record: RunRecord) -> str:
    state = record.state
    return f"{state}; start it again to go on" if state == "unfinished" else state


def _prefixed(record: RunRecord) -> dict[str, Any]:
    return flatten({"config": record.config, "inputs": record.inputs})


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _mean(row: Row) -> str:
    return "" if row["test"] is None else f"{row['test']:.4f} ± {row['std']:.4f}"


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))
