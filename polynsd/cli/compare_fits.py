"""`polynsd runs compare` of fits: one score each, compared over the rows that both were scored on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from polynsd.errors import PolyNSDError
from polynsd.runs.record import RunRecord, read_run
from polynsd.runs.table import Row

PAIRED = ("rows", "low", "high", "difference_low", "difference_high", "only_this", "only_other")


def are_fits(rows: Sequence[Row]) -> bool:
    """Whether every run is a fitted estimator with one score."""
    return all(row["kind"] == "model" for row in rows) and len({row["folder"] for row in rows}) == len(rows)


def pair_fits(table: Sequence[Row], folders: Mapping[str, Path]) -> tuple[list[Row], str]:
    """The table of `compare_rows` with 95 % intervals, and in words what those of the differences are.

    Args:
        table: a row per fit.
        folders: the folders of the fits by their names in the table.
    """
    records = {name: read_run(folder) for name, folder in folders.items()}
    paired, problem = [], ""
    for row in table:
        record = records[row["folder"]]
        estimate = (record.result or {}).get("estimate") or {}
        row = {**row, **dict.fromkeys(PAIRED), "rows": estimate.get("nodes")}
        row |= {name: estimate.get(name) for name in ("low", "high")}
        if row["against"]:
            try:
                row |= _compare(record, records[row["against"]])
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


def _compare(record: RunRecord, other: RunRecord) -> Row:
    from polynsd.estimator.paired import compare_fits

    scores = compare_fits(record, other)
    return {
        "difference_low": scores.low,
        "difference_high": scores.high,
        "only_this": scores.only_first,
        "only_other": scores.only_second,
    }


def print_fits(table: Sequence[Row], about: str) -> None:
    """A line per fit; numbers as in the summary of a fit."""
    from polynsd.cli.help import wrap_text
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
