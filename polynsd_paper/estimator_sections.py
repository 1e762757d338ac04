"""The sections that say how the default estimator fares, from the records of `polynsd bench estimator`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from textwrap import fill

from polynsd.bench.comparison import (
    Table,
    compare_methods,
    describe_estimates,
    explain_failures,
    score_table,
    summary_table,
    verdict,
)
from polynsd.bench.estimators import Record, read_records
from polynsd_paper.formatting import markdown_table

RECORDS = "estimator.jsonl"
WIDTH = 150
NAME = "estimator"  # of the sections


def estimator_sections(results: Path) -> dict[str, dict[str, str]]:
    """Page → name → text; nothing where the comparison has not been run."""
    path = results / RECORDS
    if not path.is_file():
        return {}
    records = read_records(path)
    return {
        "README.md": {NAME: short_section(records)},
        "docs/comparison.md": {NAME: full_section(records)},
    }


def short_section(records: list[Record]) -> str:
    """On how many graphs the estimator is level with the best rival."""
    return _items(map(verdict, compare_methods(records)))


def full_section(records: list[Record]) -> str:
    """All that was measured: the summary with seconds, the estimates, and every graph."""
    boards = compare_methods(records)
    lines = [*map(verdict, boards), *map(describe_estimates, boards), *explain_failures(records)]
    parts = [_markdown(summary_table(boards)), _items(lines)]
    for table in map(score_table, boards):
        parts += [f"**{table.title[0].upper()}{table.title[1:]}**", _markdown(table)]
    return "\n\n".join(parts)


def _markdown(table: Table) -> str:
    return markdown_table(table.header, table.rows)


def _items(lines: Iterable[str]) -> str:
    return "\n".join(fill(f"- {line}", WIDTH, subsequent_indent="  ") for line in lines)
