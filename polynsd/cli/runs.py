"""`polynsd runs list | show | compare`: the runs below a folder, one of them, and how several compare."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from polynsd.cli.compare_fits import are_fits, pair_fits, print_fits
from polynsd.errors import ConfigError, unknown_name
from polynsd.runs.compare import BLOCK, compare_rows, require_comparable
from polynsd.runs.files import flatten
from polynsd.runs.record import RunRecord, find_runs, read_run
from polynsd.runs.table import (
    RUNS,
    Row,
    filter_runs,
    read_rows,
    require_table_name,
    split_rows,
    summarise_runs,
    write_rows,
)

MAX_WIDTH = 100  # characters of one value
INDICES = ("split", "seed", "replica", "trial")  # of the metrics log: numbers that are no measurements


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
        from polynsd.report import print_table

        splits = split_rows(self.root)
        everything = summarise_runs(splits)
        rows = everything if self.where is None else filter_runs(splits, self.where)
        rows = _sort(rows, self.sort)
        if self.json:
            _print_json(rows)
            return rows
        texts = ("state", "dataset", "protocol", "model", "metric")
        lines = [
            (
                row["folder"],
                *(row[key] or "" for key in texts),
                _format_spread(row["test"], row["std"]),
                _format_number(row["val"]),
                str(row["splits"] or ""),
                (row["started"] or "")[:16].replace("T", " "),
            )
            for row in rows
        ]
        title = f"{len(rows)} of {len(everything)} runs in {self.root}"
        print_table(title, ("run", *texts, "test", "val", "splits", "started"), lines)
        for row in rows:
            if row["problem"]:
                print(f"damaged: {row['problem']}")
        return rows


@dataclass(frozen=True)
class RunsShow:
    """Show one run: what it does, its state, its result and where it was made."""

    folder: Positional[Path]
    """The folder of the run."""
    json: bool = False
    """Print JSON instead of tables."""

    def run(self) -> RunRecord:
        from polynsd.report import print_table
        from polynsd.report.fit_summary import format_fit

        record = read_run(self.folder)
        if self.json:
            keys = ("folder", "kind", "state", "config", "inputs", "environment", "result", "timings")
            content = {key: getattr(record, key) for key in keys}
            _print_json(content | {"folder": str(record.folder)})
            return record
        if record.result is not None and "summary" in record.result:
            print(f"{self.folder}: {record.state}, fitted {str(record.timings.get('finished'))[:16]} UTC\n")
            print(format_fit(record.result["summary"], str(self.folder), record.timings.get("seconds")))
            return record
        hint = "; start it again to go on" if record.state == "unfinished" else ""
        about = {"kind": record.kind, "state": record.state + hint}
        about |= flatten({"config": record.config, "inputs": record.inputs})
        print_table(str(self.folder), ("", ""), [(key, _format(value)) for key, value in about.items()])
        _print_result(record)
        _print_curves(record)
        _print_sessions(record)
        return record


@dataclass(frozen=True)
class RunsCompare:
    """Compare runs: mean ± std per group, and paired differences over the splits or rows they share."""

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
        require_table_name(self.out)
        if not self.folders:
            raise ConfigError("name the runs to compare, or a folder that holds them.")
        names = _name_runs(self.folders)
        rows = [row for folder, name in names.items() for row in read_rows(folder, name)]
        single = len(self.folders) > 1 and all(folder in names for folder in self.folders)
        by = (self.by or ("folder" if single else "model")).split(",")
        first = names[self.folders[0]] if single and by == ["folder"] else None
        if single:
            require_comparable(rows)
        table = compare_rows(rows, by, self.baseline or first)
        about = None
        if single and by == ["folder"] and are_fits(rows):
            table, about = pair_fits(table, {name: folder for folder, name in names.items()})
        if self.out is not None:
            write_rows(self.out, table)
        if self.json:
            _print_json(table)
        elif about is None:
            _print_comparison(table, by)
        else:
            print_fits(table, about)
        return table


def _name_runs(roots: Sequence[Path]) -> dict[Path, str]:
    """Every run below the roots, and its path from the folder that they share."""
    folders = [folder for root in roots for folder in find_runs(root)]
    shared = Path(os.path.commonpath([root.resolve() for root in roots]))
    return {folder: folder.resolve().relative_to(shared).as_posix() for folder in folders}


def _sort(rows: list[Row], column: str) -> list[Row]:
    """Rows without a value come last, whatever the direction."""
    name, descending = column.removeprefix("-"), column.startswith("-")
    if name not in RUNS:
        raise unknown_name("column", name, RUNS)
    present = [row for row in rows if row[name] is not None]
    missing = [row for row in rows if row[name] is None]
    return sorted(present, key=lambda row: row[name], reverse=descending) + missing


def _print_comparison(table: Sequence[Row], by: Sequence[str]) -> None:
    from polynsd.report import print_table

    columns = [*BLOCK, *(column for column in by if column not in BLOCK)]
    header = (*columns, "runs", "n", "val", "test", "difference", "splits", "wins", "against")
    rows = [
        (
            *(row[column] or "" for column in columns),
            *(str(row[key]) for key in ("runs", "n")),
            _format_number(row["val"]),
            _format_spread(row["test"], row["std"]),
            _format_spread(row["difference"], row["difference_std"], "+"),
            *("" if row[key] is None else str(row[key]) for key in ("pairs", "wins")),
            row["against"] or "",
        )
        for row in table
    ]
    print_table("mean ± population std; differences over shared splits", header, rows)


def _print_result(record: RunRecord) -> None:
    from polynsd.report import print_table

    if record.result is None:
        return
    facts = {key: value for key, value in flatten(record.result).items() if key != "splits"}
    facts |= {f"timings.{key}": value for key, value in flatten(record.timings).items()}
    print_table("", ("result", ""), [(key, _format(value)) for key, value in facts.items()])
    splits = [row for row in read_rows(record.folder, "") if row["split"] is not None]
    keys = ("split", "seed", "val", "test", "best_epoch", "epochs")
    if splits:
        print_table("", keys, [tuple(_format(row[key]) for key in keys) for row in splits])


def _print_curves(record: RunRecord) -> None:
    """First, least, greatest and last value of every number in the metrics log."""
    from polynsd.report import print_table

    curves: dict[str, list[float]] = {}
    records = record.metrics()
    for entry in records:
        for name, value in entry.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and name not in INDICES:
                curves.setdefault(name, []).append(value)
    rows = [
        (name, *(_format(value) for value in (values[0], min(values), max(values), values[-1])))
        for name, values in curves.items()
    ]
    if rows:
        print_table("", (f"{len(records):,} lines of metrics", "first", "least", "most", "last"), rows)


def _print_sessions(record: RunRecord) -> None:
    """A column per session: a resumed run shows what changed in between."""
    from polynsd.report import print_table

    sessions = [
        {key: _format(value) for key, value in flatten(entry).items()} for entry in record.environment
    ]
    keys = dict.fromkeys(key for entry in sessions for key in entry)
    header = ("where it was made", *(f"session {number}" for number in range(1, len(sessions) + 1)))
    if sessions:
        print_table("", header, [(key, *(entry.get(key, "") for entry in sessions)) for key in keys])


def _format(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_WIDTH else text[: MAX_WIDTH - 1] + "…"


def _format_number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _format_spread(value: float | None, std: float | None, sign: str = "") -> str:
    """`0.8125 ± 0.0312`; a single value has no spread."""
    if value is None:
        return ""
    return f"{value:{sign}.4f}" + ("" if std is None else f" ± {std:.4f}")


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))
