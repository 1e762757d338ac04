"""The results on a front page: a few rows of the leaderboard, between two marks, made from its records.

python -m polynsd_paper.front_page README.md results
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from polynsd.errors import DataError
from polynsd.stats import bold_rule
from polynsd_paper.boards import OURS, Board, boards, bold, chosen_maps, group_of, paired_scores
from polynsd_paper.experiments.models import FAMILIES, WITH_ADJACENCY
from polynsd_paper.experiments.searched import LEADERBOARD, STANDARD
from polynsd_paper.marked_section import fill_page, table_and_text
from polynsd_paper.published import cell_text, find_published, published
from polynsd_paper.records import Record, current_records
from polynsd_paper.result_numbers import MISSING, deviation_text, ranked
from polynsd_paper.tables import BEST_LABEL, NO_TEST, in_order

CONTROLS = (*(f"nsd-{maps}" for maps in FAMILIES), "identity-sheaf", "poly-spectral", "mlp", "gcn")
BEYOND = ("polynsd-constant", "identity-sheaf-shortcut", *WITH_ADJACENCY)  # not in the paper
NOTES = {  # what has to be known of a row, if it is there
    "polynsd-constant": "polynsd-constant: maps that start constant, of any family; not in the paper.",
    "identity-sheaf": "identity-sheaf: PolyNSD whose maps are all the identity.",
    "identity-sheaf-shortcut": "identity-sheaf-shortcut: the same with the options of polynsd-constant.",
    "poly-spectral": "poly-spectral: the filter alone, on stalks of dimension one.",
    "polynsd+adjacency": "+adjacency: edges are features too, on the two graphs full of copies.",
}
OTHERS = 5  # rows that the records choose

Row = tuple[str, Mapping[str, str]]


def front_page_section(results: Path) -> str:
    """The section, from the folder of `polynsd reproduce`."""
    records, _ = current_records(LEADERBOARD, results / "records" / LEADERBOARD.name)
    return results_section(records)


def results_section(records: Sequence[Record]) -> str:
    """The table of the nine graphs and what has to be known to read it; partial records have no place."""
    shown = [record for record in records if record.dataset in STANDARD and not record.is_partial]
    found = boards(in_order(LEADERBOARD, shown))
    if not found:
        raise DataError("the leaderboard has no records; run `polynsd reproduce leaderboard` first.")
    board = found[0]
    others = strongest_others(board)
    ours = _our_rows(board, others)
    rows = [*ours, *_printed_rows()]
    lines = [(label, *(row.get(dataset, MISSING) for dataset in STANDARD)) for label, row in rows]
    return table_and_text([("", *STANDARD), *lines], _sentences(board, others, _has_gaps(ours)))


def strongest_others(board: Board) -> list[str]:
    """The models of other architectures with the best mean rank, of those that have all datasets."""
    shown = {group_of(model) for model in (*OURS, *CONTROLS)}
    others = [record for record in board.plain() if group_of(record.cell["model"]) not in shown]
    counts = Counter(record.cell["model"] for record in others)
    complete = [record for record in others if counts[record.cell["model"]] == len(STANDARD)]
    return ranked(complete)[:OTHERS]


def _our_rows(board: Board, others: Sequence[str]) -> list[Row]:
    """The maps chosen by validation, then a row per model that has been trained somewhere."""
    columns = {dataset: board.column(dataset) for dataset in board.datasets}
    winners = bold(board)
    models = {
        model: {dataset: column[model] for dataset, column in columns.items() if model in column}
        for model in (*OURS, *BEYOND, *CONTROLS, *others)
    }
    rows: list[Row] = [(BEST_LABEL, {name: _entry(one) for name, one in chosen_maps(board).items()})]
    for model, found in models.items():
        rows.append((model, {name: _entry(one, winners) for name, one in found.items()}))
    return [(label, row) for label, row in rows if row]


def _entry(record: Record, winners: Iterable[tuple[str, str]] = ()) -> str:
    text = _number(100 * record.mean, None if math.isnan(record.std) else 100 * record.std)
    return f"**{text}**" if (record.dataset, cell_text(record.cell)) in winners else text


def _number(mean: float, std: float | None) -> str:
    return f"{mean:.1f}" if std is None else f"{mean:.1f} ± {std:.1f}"


def _printed_rows() -> list[Row]:
    """PolyNSD as the paper prints it."""
    numbers = published(LEADERBOARD.name)
    rows: list[Row] = []
    for model in OURS:
        found = [find_published(numbers, dataset, {"model": model}) for dataset in STANDARD]
        row = {one.dataset: _number(one.mean, one.std) for one in found if one and one.mean is not None}
        rows.append((f"*paper:* {model}", row))
    return rows


def _sentences(board: Board, others: Sequence[str], has_gaps: bool) -> list[str]:
    """How the numbers came about, what is bold, and what the paper's rows are."""
    splits, seeds = map(_span, zip(*(record.by_split().shape for record in board.records), strict=True))
    trials = _span(record.search["trials"] for record in board.records if record.search)
    trained = {record.cell["model"] for record in board.records}
    best = [f"the {len(others)} others with the best mean rank on all graphs"] if others else []
    shown = " and ".join(["PolyNSD with its controls", *best])
    tested = any(len(paired_scores(board.column(dataset))) > 1 for dataset in board.datasets)
    return [
        f"Test accuracy in %, mean over {splits} splits × {seeds} seeds{deviation_text(board.records)}.",
        f"{len(trained)} models, each with the best on validation of {trials} configurations; shown are "
        f"{shown}. [results/leaderboard.md](results/leaderboard.md) has all.",
        *([f"{MISSING}: not trained yet, or not asked."] if has_gaps else []),
        f"{BEST_LABEL}: on every graph the family with the best validation.",
        *(text for model, text in NOTES.items() if model in trained),
        bold_rule() if tested else NO_TEST,
        "Rivals are all models, also those not shown. The paper's rows are as printed: its texas has a "
        "quarter more training nodes, and its bases were chosen on test nodes "
        "([docs/reproducing.md](docs/reproducing.md#what-differs-from-the-paper)).",
    ]


def _has_gaps(rows: Sequence[Row]) -> bool:
    return any(len(row) < len(STANDARD) for _, row in rows)


def _span(values: Iterable[int]) -> str:
    """`10`, or `16–32` where it is not the same everywhere."""
    known = sorted(values) or [0]
    return str(known[0]) if known[0] == known[-1] else f"{known[0]}–{known[-1]}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command."""
    fill_page(front_page_section, "README.md", "front page", arguments)


if __name__ == "__main__":
    main()
