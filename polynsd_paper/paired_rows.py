"""PolyNSD against its controls and its best rival on the same splits: a row for every pair and dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from polynsd.stats import compare, holm
from polynsd_paper.boards import OURS, Board, Column, group_of, paired_scores

CONTROLS = ("identity-sheaf", "poly-spectral")
DIGITS = 6


def paired_rows(boards: Sequence[Board]) -> list[dict[str, Any]]:
    """Each family of PolyNSD against NSD with its maps, identity maps, no sheaf, and the best other model.

    `p_holm` is adjusted over all rows. The best other model is the one with the greatest test mean, so
    that the comparison is the hardest there is.
    """
    rows = [row for board in boards for dataset in board.datasets for row in _rows(board, dataset)]
    adjusted = holm([row["p"] for row in rows]).tolist() if rows else []
    return [_rounded(_after("p", row, p_holm=value)) for row, value in zip(rows, adjusted, strict=True)]


def _rows(board: Board, dataset: str) -> list[dict[str, Any]]:
    column = board.column(dataset)
    scores = paired_scores(column)
    shares = next((record.shares for record in column.values()), None)
    best = _best_other({model: column[model] for model in scores})
    rows = []
    for ours in OURS:
        for other in dict.fromkeys((f"nsd-{ours.partition('-')[2]}", *CONTROLS, best)):
            if shares is not None and ours in scores and other in scores:
                found = compare(scores[ours], scores[other], shares.train, test_share=shares.test)
                names = {"dataset": dataset, **board.rest, "model": ours, "against": other}
                rows.append({**names, "is_best_other": other == best, **asdict(found)})
    return rows


def _best_other(column: Column) -> str:
    others = [model for model in column if group_of(model) != "polynsd"]
    return max(others, key=lambda model: column[model].mean, default="")


def _after(name: str, row: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The row with more columns behind one of its own."""
    place = list(row).index(name) + 1
    items = list(row.items())
    return dict([*items[:place], *more.items(), *items[place:]])


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Six digits that count: p-values may be small."""
    return {name: float(f"{v:.{DIGITS}g}") if isinstance(v, float) else v for name, v in row.items()}
