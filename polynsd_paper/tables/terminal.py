"""Results on a terminal: our means, the best of each column marked, as much side by side as fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from polynsd.report.output import PERCENT, print_table
from polynsd_paper.tables.experiment_page import Labels, column_heads, table_position
from polynsd_paper.tables.formatting import NOT_RUN, PARTIAL, natural_order, unit
from polynsd_paper.tables.leaderboards import complete, rank_rows
from polynsd_paper.tables.printed_numbers import parse_cell

if TYPE_CHECKING:
    from pandas import DataFrame, Series

PIPE_WIDTH = 200  # letters in a line where there is no terminal
GAP = 2  # letters between columns
BEST = "*"


def print_results(title: str, cells: DataFrame, sweep: bool = False) -> None:
    """Prints a table for each kind of cells; models come by their mean rank, the best first."""
    print(title)  # noqa: T201
    kinds = [tuple(parse_cell(cell)) for cell in cells["cell"]]
    for axes in dict.fromkeys(kinds):
        alike = cells[[kind == axes for kind in kinds]]
        if not sweep:
            order = rank_rows(alike, "cell")
            alike = alike.sort_values("cell", key=lambda texts: texts.map(order.index), kind="stable")
        _print_grid(alike, axes, sweep)
    if cells["is_partial"].any():
        print(f"{PARTIAL} of the first splits only, and in no comparison")  # noqa: T201


def _print_grid(cells: DataFrame, axes: Labels, sweep: bool) -> None:
    grid: dict[Labels, dict[str, Series[Any]]] = {}
    for _, cell in cells.iterrows():
        labels, column = table_position(cell["dataset"], parse_cell(cell["cell"]), axes, sweep)
        grid.setdefault(labels, {})[column] = cell
    if sweep:
        columns = natural_order(column for row in grid.values() for column in row)
    else:  # datasets in the order of the experiment, which the model with the most datasets shows
        columns = list(
            dict.fromkeys(name for row in sorted(grid.values(), key=len, reverse=True) for name in row)
        )
    heads = ("dataset", *axes[:-1]) if sweep else axes
    tops = dict(zip(columns, column_heads(axes[-1], columns), strict=True))
    best = {} if sweep else _best_means(cells)
    for group, is_long in _fitting(columns, tops, list(grid), line_width()):
        lines = [
            (*labels, *(_text(row.get(column), is_long, best) for column in group))
            for labels, row in grid.items()
        ]
        print_table("", (*heads, *(tops[column] for column in group)), lines)


def _best_means(cells: DataFrame) -> dict[str, float]:
    """By dataset the greatest mean, where there is more than one; partial records do not count."""
    groups = complete(cells).groupby("dataset")["mean"]
    return {str(dataset): max(means) for dataset, means in groups if len(means) > 1}


def _text(cell: Series[Any] | None, is_long: bool, best: dict[str, float]) -> str:
    if cell is None:
        return NOT_RUN
    scale, digits = unit(cell["metric"]), 2 if cell["metric"] in PERCENT else 3
    has_std = is_long and cell["std"] == cell["std"]
    values = [cell["mean"], cell["std"]] if has_std else [cell["mean"]]
    text = " ± ".join(f"{scale * value:.{digits if is_long else digits - 1}f}" for value in values)
    is_best = not cell["is_partial"] and cell["mean"] == best.get(cell["dataset"])
    return f"{BEST * is_best}{text}{PARTIAL * bool(cell['is_partial'])}"


def line_width() -> int:
    """How many letters fit in a line of the terminal, or are written to a pipe."""
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal else PIPE_WIDTH


def _fitting(
    columns: Sequence[str], tops: dict[str, str], rows: Sequence[Labels], width: int
) -> list[tuple[list[str], bool]]:
    """Columns that stand side by side, with deviations where all of them fit so."""
    labels = sum(max(map(len, names)) + GAP for names in zip(*rows, strict=True))
    for is_long, least in ((True, len("*99.99 ± 99.99")), (False, len("*99.9"))):
        size = max(least, *(len(top) for top in tops.values())) + GAP
        count = max(1, (width - labels - GAP) // size)
        if count >= len(columns):
            return [(list(columns), is_long)]
    return [(list(columns[at : at + count]), False) for at in range(0, len(columns), count)]
