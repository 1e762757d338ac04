"""`polynsd runs compare`: groups of runs over the splits they share, single fits over the rows they share."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from polynsd.cli.help import wrap_text
from polynsd.cli.runs import format_score
from polynsd.errors import ConfigError, PolyNSDError
from polynsd.runs.compare import BLOCK, compare_rows, require_comparable
from polynsd.runs.record import find_runs, read_run
from polynsd.runs.table import Row, read_rows, require_table_name, write_rows


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
        if single and by == ["folder"] and _are_fits(rows):
            table, about = _pair_fits(table, names)
        if self.out is not None:
            write_rows(self.out, table)
        if self.json:
            print(json.dumps(table, indent=2))
        elif about is None:
            _print_comparison(table, by)
        else:
            _print_fits(table, about)
        return table


def _name_runs(roots: Sequence[Path]) -> dict[Path, str]:
    """Every run below the roots, and its path from the folder that they share."""
    twice = [root for number, root in enumerate(roots) if root.resolve() in map(Path.resolve, roots[:number])]
    if twice:
        raise ConfigError(f"{twice[0]} is named twice; a run is compared with others.")
    folders = [folder for root in roots for folder in find_runs(root)]
    shared = Path(os.path.commonpath([root.resolve() for root in roots]))
    names = {folder: folder.resolve().relative_to(shared).as_posix() for folder in folders}
    return {folder: folder.resolve().name if name == "." else name for folder, name in names.items()}


def _print_comparison(table: Sequence[Row], by: Sequence[str]) -> None:
    from polynsd.report import print_table

    columns = [*BLOCK, *(column for column in by if column not in BLOCK)]
    header = (*columns, "runs", "n", "val", "test", "difference", "splits", "wins", "against")
    rows = [
        (
            *(row[column] or "" for column in columns),
            *(str(row[key]) for key in ("runs", "n")),
            format_score(row["val"]),
            format_score(row["test"], row["std"]),
            format_score(row["difference"], row["difference_std"], "+"),
            *("" if row[key] is None else str(row[key]) for key in ("pairs", "wins")),
            row["against"] or "",
        )
        for row in table
    ]
    print_table("mean ± population std; differences over shared splits", header, rows)


def _are_fits(rows: Sequence[Row]) -> bool:
    """Whether every run is a fitted estimator with one score."""
    return all(row["kind"] == "model" for row in rows) and len({row["folder"] for row in rows}) == len(rows)


def _pair_fits(table: Sequence[Row], names: Mapping[Path, str]) -> tuple[list[Row], str]:
    """The table of `compare_rows` with 95 % intervals, and in words what those of the differences are."""
    from polynsd.estimator.paired import compare_fits

    records = {name: read_run(folder) for folder, name in names.items()}
    paired, problem = [], ""
    for row in table:
        record = records[row["folder"]]
        estimate = (record.result or {}).get("estimate") or {}
        row = {**row, "rows": estimate.get("nodes"), "low": estimate.get("low"), "high": estimate.get("high")}
        row |= dict.fromkeys(("difference_low", "difference_high", "only_this", "only_other"))
        if row["against"]:
            try:
                scores = compare_fits(record, records[row["against"]])
                row |= {"difference_low": scores.low, "difference_high": scores.high}
                row |= {"only_this": scores.only_first, "only_other": scores.only_second}
            except PolyNSDError as error:
                problem = str(error).partition(" Name ")[0]  # advice for `polynsd predict`
        paired.append(row)
    if problem:
        return paired, (
            f"The rows cannot be paired, so the differences have no interval: {problem} Beside each score "
            "is its own 95 % interval, for the chance of which rows were scored."
        )
    return paired, (
        "In brackets: 95 % intervals for the chance of which rows were scored; those of the differences "
        "compare the two fits row by row. Another seed would change the fits as well."
    )


def _print_fits(table: Sequence[Row], about: str) -> None:
    """A line per fit; numbers as in the summary of a fit."""
    from polynsd.report.output import print_table, score_name, score_text

    metric = table[0]["metric"]
    header = ("run", "rows", score_name(metric), "against", "difference", "right only here", "only there")
    lines = []
    for row in table:
        score = score_text(metric, row["test"])
        if row["low"] is not None:
            score += f" [{score_text(metric, row['low'])}, {score_text(metric, row['high'])}]"
        rows, here, there = (
            "" if row[name] is None else f"{row[name]:,}" for name in ("rows", "only_this", "only_other")
        )
        difference = _format_difference(metric, row)
        lines.append((row["folder"], rows, score, row["against"] or "", difference, here, there))
    print_table(f"{table[0]['dataset']}: fits scored on the same rows", header, lines)
    print(wrap_text(about))


def _format_difference(metric: str, row: Row) -> str:
    """`-3.2 [-11.9, +5.4]`, without the brackets where there is no interval."""
    from polynsd.report.output import difference_text

    if row["difference"] is None:
        return ""
    text = difference_text(metric, row["difference"])
    if row["difference_low"] is None:
        return text
    low, high = (difference_text(metric, row[f"difference_{end}"]) for end in ("low", "high"))
    return f"{text} [{low}, {high}]"
