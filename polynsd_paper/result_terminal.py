"""Results on a terminal: our means, the best of each column marked, as much of it side by side as fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from polynsd.report.output import PERCENT, print_table
from polynsd_paper.result_numbers import (
    MISSING,
    PARTIAL,
    cell_label,
    column_heads,
    natural_order,
    place,
    ranked,
    unique,
    unit,
)

if TYPE_CHECKING:
    from polynsd_paper.records import Record

PIPE = 200  # letters in a line where there is no terminal
GAP = 2  # letters between columns
MARK = "*"

Row = tuple[str, ...]
Grid = dict[Row, dict[str, "Record"]]


def print_results(title: str, records: Sequence[Record], sweep: bool = False) -> None:
    """Prints a table of each kind of cells; models come by their mean rank, the best first."""
    print(title)  # noqa: T201
    for axes in unique(tuple(record.cell) for record in records):
        alike = [record for record in records if tuple(record.cell) == axes]
        _print_grid(alike if sweep else _by_rank(alike), axes, sweep)
    if any(record.is_partial for record in records):
        print(f"{PARTIAL} of the first splits only, and in no comparison")  # noqa: T201


def _by_rank(records: Sequence[Record]) -> list[Record]:
    order = ranked(records)
    return sorted(records, key=lambda record: order.index(cell_label(record.cell)))


def _print_grid(records: Sequence[Record], axes: Row, sweep: bool) -> None:
    grid: Grid = {}
    places = {id(record): place(record.dataset, record.cell, axes, sweep) for record in records}
    for record in records:
        labels, column = places[id(record)]
        grid.setdefault(labels, {})[column] = record
    found = natural_order(column for _, column in places.values())
    columns = found if sweep else [name for name in _datasets(records) if name in found]
    heads = ("dataset", *axes[:-1]) if sweep else axes
    tops = dict(zip(columns, column_heads(axes[-1], columns), strict=True))
    best = set() if sweep else _best(grid, columns)
    for group, is_long in _fitting(columns, tops, grid, width()):
        lines = [
            (*labels, *(_text(row.get(column), is_long, (labels, column) in best) for column in group))
            for labels, row in grid.items()
        ]
        print_table("", (*heads, *(tops[column] for column in group)), lines)


def _datasets(records: Sequence[Record]) -> list[str]:
    """In the order of the experiment, which the model with the most datasets shows."""
    rows: dict[str, list[str]] = {}
    for record in records:
        rows.setdefault(cell_label(record.cell), []).append(record.dataset)
    return unique(name for row in sorted(rows.values(), key=len, reverse=True) for name in row)


def _best(grid: Grid, columns: Sequence[str]) -> set[tuple[Row, str]]:
    """The entries with the greatest mean of a column that has more than one; partial ones do not count."""
    best = set()
    for column in columns:
        entries = {labels: row[column] for labels, row in grid.items() if column in row}
        means = {labels: record.mean for labels, record in entries.items() if not record.is_partial}
        if len(means) > 1:
            best |= {(labels, column) for labels, mean in means.items() if mean == max(means.values())}
    return best


def _text(record: Record | None, is_long: bool, is_best: bool) -> str:
    if record is None:
        return MISSING
    digits = 2 if record.metric in PERCENT else 3
    scale, digits = unit(record.metric), digits if is_long else digits - 1
    values = [record.mean, record.std] if is_long and not math.isnan(record.std) else [record.mean]
    text = " ± ".join(f"{scale * value:.{digits}f}" for value in values)
    return f"{MARK * is_best}{text}{PARTIAL * record.is_partial}"


def width() -> int:
    """Letters in a line."""
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal else PIPE


def _fitting(
    columns: Sequence[str], tops: dict[str, str], grid: Grid, wide: int
) -> list[tuple[list[str], bool]]:
    """Columns that stand side by side, with deviations where all of them fit so."""
    labels = sum(max(map(len, names)) + GAP for names in zip(*grid, strict=True))
    for is_long, least in ((True, len("*99.99 ± 99.99")), (False, len("*99.9"))):
        size = max(least, *(len(top) for top in tops.values())) + GAP
        count = max(1, (wide - labels - GAP) // size)
        if count >= len(columns):
            return [(list(columns), is_long)]
    return [(list(columns[at : at + count]), False) for at in range(0, len(columns), count)]
