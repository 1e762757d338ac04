"""PolyNSD here and in the paper, graph by graph: a table and a figure.

comparisons = compare_with_paper(summarize(load_records(Path("results"))))
comparison_figure(Path("comparison.png"), comparisons)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polynsd.errors import DataError
from polynsd.report.panels import BASELINE, Panels, handle
from polynsd.report.panels import OURS as COLOUR
from polynsd_paper.experiment import cell_text
from polynsd_paper.experiments.block import LEARNED, TRANSPORT
from polynsd_paper.experiments.searched import (
    CONTROL,
    FILTERED,
    LEADERBOARD,
    LONG_SEARCH,
    MALIGNANT,
    PLATONOV,
)
from polynsd_paper.tables.figures import HOLLOW, finish, half_width, interval, plot_printed
from polynsd_paper.tables.formatting import NOT_RUN, cell_number, number_text, unit
from polynsd_paper.tables.leaderboards import OURS, best_on_validation, complete, is_polynsd, leaderboards
from polynsd_paper.tables.printed_numbers import cell_key, read_printed

if TYPE_CHECKING:
    from pandas import DataFrame, Series

SUITES = (LEADERBOARD, MALIGNANT, FILTERED, PLATONOV)
HEAD = ("graph", "paper", "published code", "as published, here", "PolyNSD here", "best other here")
REFERENCE = "polynsd-reference"
PAPER_TEXAS = ("malignant", "texas", "random-60-20-20")  # whose splits are those of the paper's leaderboard
TEXT = """\
Test accuracy, or ROC AUC on the graphs of Platonov et al., in %, mean over splits and seeds ± deviation over
splits. *Paper*: the greatest number printed for any family of maps. *Published code*: run again on these
splits, not tuned. *As published, here*: the published architecture, searched in the paper's own space.
*PolyNSD here*: the best validation of all PolyNSDs without adjacency features, in brackets which; those of
`transport` have this library's block and settings chosen by validation. *Best other*: the best validation of
what is no PolyNSD. — not run, or not printed. The paper's texas has random 60/20/20 splits, so its number
stands beside that rule. `cornell` carries the features and labels of Texas, as in most papers."""
ROW_INCHES = 0.3
ABOVE, BELOW = 0.16, -0.16  # where in its row a mark stands
REFERENCE_STYLE: dict[str, Any] = {
    "color": COLOUR, "marker": "s", "linestyle": "none", "markersize": 4, "alpha": 0.5,
}  # fmt: skip
OTHER_STYLE: dict[str, Any] = {"color": BASELINE, "marker": "o", "linestyle": "none", "markersize": 4}
HERE_STYLE: dict[str, Any] = {"color": COLOUR, "marker": "o", "markersize": 6, "linewidth": 1.5}


@dataclass(frozen=True)
class GraphComparison:
    """A graph under one rule of splits: what is printed for PolyNSD, and what was trained.

    Args:
        label: the graph, and the rule where there are several.
        column: all complete records there, a row each.
        paper: the greatest number that the paper prints for PolyNSD, a row of `read_printed`.
        code: the greatest that the published code gives.
        reference: the published architecture, searched in the paper's own space.
        here: the PolyNSD with the best validation, the library's own block and longer searches included.
        best_other: the best validation of a model that is no PolyNSD and does not see edges as features.
    """

    label: str
    column: DataFrame
    paper: Series[Any] | None
    code: Series[Any] | None
    reference: Series[Any] | None
    here: Series[Any] | None
    best_other: Series[Any] | None

    def line(self) -> tuple[str, ...]:
        """The row of the table."""
        printed = (
            NOT_RUN if number is None else number_text(number["metric"], number["mean"], number["std"])
            for number in (self.paper, self.code)
        )
        here, other = _text(self.here), _text(self.best_other)
        return (self.label, *printed, cell_number(self.reference), here, other)


def compare_with_paper(cells: DataFrame) -> list[GraphComparison]:
    """The graphs for which a PolyNSD is trained, from the current records of all experiments."""
    cells = complete(cells)
    is_other = (cells["experiment"] == LONG_SEARCH.name) | (
        (cells["experiment"] == TRANSPORT.name) & (cells.get("variant") == LEARNED)
    )
    longer = cells[is_other]
    comparisons = []
    for suite in SUITES:
        for shared, board in leaderboards(cells[cells["experiment"] == suite.name]):
            for dataset, column in board.groupby("dataset", sort=False):
                ours, others = (column[column["row"].map(is_polynsd) == is_ours] for is_ours in (True, False))
                if ours.empty:
                    continue
                is_same = (longer["dataset"] == dataset) & (longer["protocol"] == ours["protocol"].iloc[0])
                candidates = [best_on_validation(_plain(each)) for each in (ours, longer[is_same])]
                found = [cell for cell in candidates if cell is not None]
                comparisons.append(
                    GraphComparison(
                        " ".join([dataset, *(f"({value})" for value in shared.values())]),
                        column,
                        find_greatest(suite.name, dataset, shared, "paper"),
                        find_greatest(suite.name, dataset, shared, "published-code"),
                        next((c for _, c in ours.iterrows() if c["row"] == REFERENCE), None),
                        max(found, key=lambda cell: cell["val"], default=None),
                        best_on_validation(_plain(others)),
                    )
                )
    if not comparisons:
        raise DataError("there are no records of PolyNSD; run `polynsd reproduce leaderboard` first.")
    return comparisons


def find_greatest(
    experiment: str, dataset: str, shared: Mapping[str, Any], source: str
) -> Series[Any] | None:
    """The greatest number that a source prints for PolyNSD with the shared options."""
    is_paper_texas = (experiment, dataset, *shared.values()) == PAPER_TEXAS
    if is_paper_texas:
        experiment, shared = "leaderboard", {}
    if (experiment, dataset) == ("leaderboard", "texas") and is_paper_texas != (source == "paper"):
        return None  # the paper's splits are random, those of the code run again are not
    numbers = read_printed(experiment)
    keys = [cell_key(cell_text({**shared, "model": model})) for model in OURS]
    numbers = numbers[
        (numbers["dataset"] == dataset)
        & (numbers["source"] == source)
        & numbers["key"].isin(keys)
        & numbers["mean"].notna()
    ]
    return None if numbers.empty else numbers.loc[numbers["mean"].idxmax()]


def _plain(cells: DataFrame) -> DataFrame:
    """Models that see the graph's own features, and no controls."""
    return cells[[not row.endswith("+adjacency") and not row.startswith(CONTROL) for row in cells["row"]]]


def _text(cell: Series[Any] | None) -> str:
    if cell is None:
        return NOT_RUN
    where = {LONG_SEARCH.name: ", long search", TRANSPORT.name: " of `transport`"}
    return f"{cell_number(cell)} ({cell['row']}{where.get(cell['experiment'], '')})"


def comparison_figure(path: Path, comparisons: Sequence[GraphComparison]) -> Path:
    """Writes one PNG: points above or below the number that the paper prints, a row per graph with one."""
    zeros = [(graph, graph.paper["mean"]) for graph in comparisons if graph.paper is not None]
    if not zeros:
        raise DataError("no graph of the records has a printed number to compare with.")
    panels = Panels([""], (6.4, 1.4 + ROW_INCHES * len(zeros)))
    (axis,) = panels.axes
    axis.axvline(0, color=BASELINE, linewidth=1, linestyle="--", zorder=1)
    for row, (graph, zero) in enumerate(zeros):
        y = len(zeros) - row
        here, code = graph.here, graph.code
        if here is not None and half_width(here):  # a single split has none
            axis.plot([end - zero for end in interval(here)], [y, y], color=COLOUR, linewidth=1.5)
        for cell, height, look in (
            (here, y, {**HERE_STYLE, "linestyle": "none", "zorder": 3}),
            (graph.reference, y + ABOVE, REFERENCE_STYLE),
            (graph.best_other, y + BELOW, OTHER_STYLE),
        ):
            if cell is not None:
                axis.plot(unit(cell["metric"]) * cell["mean"] - zero, height, **look)
        if code is not None:
            plot_printed(axis, code["mean"] - zero, y, code["source"], BASELINE)
    axis.set(xlabel="points above or below the paper's best PolyNSD", ylim=(0.4, len(zeros) + 0.6))
    axis.set_yticks(range(len(zeros), 0, -1), [graph.label for graph, _ in zeros])
    hollow = {"color": BASELINE, "markerfacecolor": "none", "linestyle": "none", "markersize": 5}
    handles = [
        handle("PolyNSD here, 95 % interval", **HERE_STYLE),
        handle("as published, here", **REFERENCE_STYLE),
        handle("best other here, by validation", **OTHER_STYLE),
        handle("published code, run again", marker=HOLLOW["published-code"], **hollow),
        handle("printed in the paper", color=BASELINE, linewidth=1, linestyle="--"),
    ]
    return finish(panels, path, "PolyNSD here and in the paper", handles)
