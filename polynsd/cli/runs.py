"""`polynsd runs list | show`: the runs below a folder, and one of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from polynsd.errors import unknown_name
from polynsd.runs.files import flatten
from polynsd.runs.record import RunRecord, read_run
from polynsd.runs.table import RUNS, Row, filter_runs, read_rows, split_rows, summarise_runs

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
            print(json.dumps(rows, indent=2))
            return rows
        texts = ("state", "dataset", "protocol", "model", "metric")
        lines = [
            (
                row["folder"],
                *(row[key] or "" for key in texts),
                format_score(row["test"], row["std"]),
                format_score(row["val"]),
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
            print(json.dumps(content | {"folder": str(record.folder)}, indent=2))
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


def _sort(rows: list[Row], column: str) -> list[Row]:
    """Rows without a value come last, whatever the direction."""
    name, descending = column.removeprefix("-"), column.startswith("-")
    if name not in RUNS:
        raise unknown_name("column", name, RUNS)
    present = [row for row in rows if row[name] is not None]
    missing = [row for row in rows if row[name] is None]
    return sorted(present, key=lambda row: row[name], reverse=descending) + missing


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


def format_score(value: float | None, std: float | None = None, sign: str = "") -> str:
    """`0.8125 ± 0.0312`; a single value has no spread, and nothing is said of none."""
    if value is None:
        return ""
    return f"{value:{sign}.4f}" + ("" if std is None else f" ± {std:.4f}")
