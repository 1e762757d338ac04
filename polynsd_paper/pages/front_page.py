"""The table of the front page: PolyNSD, its matched control and four rivals on eleven graphs.

    python -m polynsd_paper.pages.front_page      # which records are missing, and the commands that make them

PolyNSD is, on every graph, the record with the best validation of all that learn maps and see the graph's own
features; its control is the same configuration with identity maps and nothing else changed. NSD and SAGE are
also chosen by validation, among their families and variants. Two families of comparisons are fixed in
advance, whatever the scores: PolyNSD − control and PolyNSD − NSD, over these graphs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polynsd.stats import Comparison, Family, judge_family, significance
from polynsd.stats.families import LOSS, WIN
from polynsd_paper.claims.comparisons import find_cell, select
from polynsd_paper.experiments.block import LEARNED, SAME_REACH, TRANSPORT
from polynsd_paper.experiments.searched import CONTROL, FILTERED, LEADERBOARD, PLATONOV
from polynsd_paper.records import load_records, split_shares, summarize
from polynsd_paper.tables.formatting import (
    NOT_RUN,
    cell_number,
    gap_text,
    machine_text,
    markdown_table,
    range_text,
)
from polynsd_paper.tables.leaderboards import best_on_validation, compare_cells, complete, is_polynsd

if TYPE_CHECKING:
    from pandas import DataFrame, Series

GRAPHS = (
    "minesweeper", "tolokers", "chameleon_filtered", "squirrel_filtered", "roman_empire_glovesub", "cora",
    "citeseer", "pubmed", "film", "squirrel", "chameleon",
)  # fmt: skip
RIVALS: Mapping[str, tuple[str, ...]] = {
    "NSD": ("nsd-diagonal", "nsd-orthogonal", "nsd-general", "nsd-reference"),
    "tuned GCN": ("tuned-gcn",),
    "SAGE": ("tuned-sage", "sage"),
    "MLP": ("mlp",),
}
HEAD = ("graph", "PolyNSD", "matched control", *RIVALS, "what the sheaf adds")


@dataclass(frozen=True)
class FrontRow:
    """A graph: the records of PolyNSD, its control and the rivals; None where there is none.

    Args:
        graph: its name.
        cells: by the head of the column.
    """

    graph: str
    cells: Mapping[str, Series[Any] | None]

    def compare(self, other: str) -> Comparison | None:
        """PolyNSD − another column on the same splits."""
        return compare_cells(self.cells["PolyNSD"], self.cells[other])

    @cached_property
    def best(self) -> str:
        """The column that is better than every other one beyond noise; empty where none is."""
        ours = self.cells["PolyNSD"]
        shares = None if ours is None else split_shares(ours)
        scores = {
            name: cell["scores"]
            for name, cell in self.cells.items()
            if cell is not None and ours is not None and cell["split_numbers"] == ours["split_numbers"]
        }
        if shares is None or len(scores) < len(self.cells):
            return ""
        cells = significance(scores, shares)
        return next((name for name, cell in cells.items() if cell.bold), "")

    def line(self, verdict: str) -> tuple[str, ...]:
        """The row of the table; `verdict` is that of the control's family."""
        texts = []
        for name, cell in self.cells.items():
            text = cell_number(cell)
            texts.append(f"**{text}**" if name == self.best else text)
        added = gap_text(self.compare("matched control"), is_bold=verdict in (WIN, LOSS))
        return (self.graph, *texts, added)


def front_rows(cells: DataFrame) -> list[FrontRow]:
    """The table, from the current records of all experiments."""
    cells = complete(cells)
    return [FrontRow(graph, _columns(select(cells, dataset=graph))) for graph in GRAPHS]


def _columns(cells: DataFrame) -> dict[str, Series[Any] | None]:
    board = select(cells, experiment=(LEADERBOARD.name, FILTERED.name, PLATONOV.name))
    transport = select(cells, experiment=TRANSPORT.name)
    searched = board[[is_polynsd(row) and not row.endswith("+adjacency") for row in board["row"]]]
    found = [best_on_validation(searched), find_cell(transport, variant=LEARNED)]
    ours = max((cell for cell in found if cell is not None), key=lambda cell: cell["val"], default=None)
    if ours is None:
        control = None
    elif ours["experiment"] == TRANSPORT.name:
        control = find_cell(transport, variant=SAME_REACH)
    else:
        control = find_cell(board, row=CONTROL + ours["row"])
    rivals = {name: best_on_validation(select(board, row=rows)) for name, rows in RIVALS.items()}
    return {"PolyNSD": ours, "matched control": control, **rivals}


def front_family(rows: Iterable[FrontRow], other: str, *, is_classic: bool = False) -> Family:
    """PolyNSD − another column on all graphs that have both, adjusted together."""
    found = {row.graph: row.compare(other) for row in rows}
    known = {graph: one for graph, one in found.items() if one is not None}
    return judge_family({g: one.as_classic() if is_classic else one for g, one in known.items()})


def front_table(rows: Sequence[FrontRow]) -> str:
    """The table of the front page in Markdown."""
    family = front_family(rows, "matched control")
    verdicts = {graph: outcome.verdict for graph, outcome in family.outcomes.items()}
    return markdown_table(HEAD, [row.line(verdicts.get(row.graph, "")) for row in rows])


def front_text(rows: Sequence[FrontRow]) -> list[str]:
    """The sentences under the table."""
    families = ("matched control", "NSD")
    (control, nsd), classic = (
        [front_family(rows, name, is_classic=is_classic) for name in families] for is_classic in (False, True)
    )
    shown = [cell for row in rows for cell in row.cells.values() if cell is not None]
    trials = [int(cell["trials"]) for cell in shown if cell["is_searched"]]
    seconds = sum(cell["seconds"] + cell["search_seconds"] for cell in shown)
    devices = Counter(machine_text(cell["device"], cell["precision"]) for cell in shown)
    missing = len(rows) * (len(HEAD) - 2) - len(shown)
    earlier = sum(bool(cell["is_earlier"]) for cell in shown)
    gaps = f" {NOT_RUN}: {missing} cells are not trained yet." if missing else ""
    old = (
        f" {earlier} cells were chosen by an earlier search, with fewer trials and narrower ranges."
        if earlier
        else ""
    )
    splits, seeds = (range_text(cell[name] for cell in shown) for name in ("splits", "seeds"))
    machines = ", ".join(f"{name} ({count} cells)" for name, count in devices.most_common())
    return [
        f"Against its matched control PolyNSD has {control} graphs, against NSD {nsd}, Holm-adjusted (with "
        f"Nadeau and Bengio's own correction {classic[0]}, and {classic[1]}). A tie is a difference shown to "
        "be below one point; undecided is what the splits cannot tell "
        "([docs/statistics.md](docs/statistics.md)).",
        f"Test accuracy in % (ROC AUC on minesweeper and tolokers), {splits} splits × {seeds} seeds ± "
        "deviation over splits; everything chosen by validation. *Matched control*: the same model with "
        "identity maps, nothing else changed; *what the sheaf adds*: PolyNSD − control in points with its "
        "95 % interval, **bold** where it is a win or a loss after adjustment. A model is **bold** where it "
        f"is better than every other of a row without gaps. *NSD*: Neural Sheaf Diffusion, a sheaf without "
        "the polynomial. *Tuned GCN*: with norms, shortcuts and more depth. *roman_empire_glovesub*: the "
        f"edges and labels of roman-empire with other features, as its own are not free.{gaps}{old}",
        f"{range_text(trials)} trials per searched cell, {sum(trials):,} in all; {seconds:,.0f} s of "
        f"searches and trainings on {machines}.{_tries_text(rows)} "
        "[docs/choosing.md](docs/choosing.md) says where maps pay, [docs/findings.md](docs/findings.md) "
        "compares with the paper.",
    ]


def _tries_text(rows: Iterable[FrontRow]) -> str:
    """What is not counted as trials."""
    ours = [row.cells["PolyNSD"] for row in rows]
    count = sum(cell is not None and cell["experiment"] == TRANSPORT.name for cell in ours)
    if not count:
        return ""
    return (
        f" Not counted: on {count} graphs PolyNSD has settings that validation chose out of a few dozen "
        "tries (`transport`), which its rivals did not have."
    )


def missing_records(rows: Iterable[FrontRow]) -> list[tuple[str, str, str]]:
    """(experiment, row, graph) of the cells without a record; of several variants the first is named."""
    missing = []
    for row in rows:
        ours = row.cells["PolyNSD"]
        is_searched = ours is not None and ours["experiment"] != TRANSPORT.name
        for name in (name for name, cell in row.cells.items() if cell is None):
            if name in RIVALS:
                missing.append((_board_of(row.graph), RIVALS[name][0], row.graph))
            elif ours is not None and is_searched:
                missing.append((ours["experiment"], CONTROL + ours["row"], row.graph))
            else:
                missing.append((TRANSPORT.name, LEARNED if name == "PolyNSD" else SAME_REACH, row.graph))
    return missing


def _board_of(graph: str) -> str:
    return next((e.name for e in (LEADERBOARD, FILTERED) if graph in e.datasets), PLATONOV.name)


def commands(missing: Iterable[tuple[str, str, str]]) -> list[str]:
    """What trains these records: a command per experiment and row."""
    graphs: dict[tuple[str, str], list[str]] = {}
    for experiment, row, graph in missing:
        graphs.setdefault((experiment, row), []).append(graph)
    return [
        f"polynsd reproduce {experiment} --datasets {' '.join(names)} "
        f"--only '{'variant' if experiment == TRANSPORT.name else 'model'}={row}' --device cuda"
        for (experiment, row), names in graphs.items()
    ]


if __name__ == "__main__":
    records = load_records(Path(*sys.argv[1:2] or ["results"]))
    lacking = missing_records(front_rows(summarize(records[records["is_current"]])))
    sys.stdout.write("".join(f"{line}\n" for line in commands(lacking)))
