"""A leaderboard among records: models that are rivals on each dataset, and who wins there beyond noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from polynsd.errors import DataError
from polynsd.stats import significance
from polynsd.stats.scores import LEAST_SPLITS, Array
from polynsd_paper.experiments.models import FAMILIES, MODEL_ROWS
from polynsd_paper.published import cell_text
from polynsd_paper.records import Record

OURS = tuple(f"polynsd-{maps}" for maps in FAMILIES)
BEST = "polynsd-best"  # the row whose maps are chosen by validation

Column = dict[str, Record]


@dataclass(frozen=True)
class Board:
    """Records that differ in dataset and model alone.

    Args:
        rest: the options that all of them share, e.g. `{"rule": "luan-60-20-20"}`.
        records: at most one per dataset and model.
    """

    rest: Mapping[str, Any]
    records: tuple[Record, ...]

    @property
    def suffix(self) -> str:
        """What tells its files from those of the other boards of an experiment."""
        return "".join(f"-{value}" for value in self.rest.values())

    @property
    def datasets(self) -> list[str]:
        """In the order of the records."""
        return list(dict.fromkeys(record.dataset for record in self.records))

    def column(self, dataset: str) -> Column:
        """The records of a dataset by model; partial ones are no rivals."""
        complete = [one for one in self.records if one.dataset == dataset and not one.is_partial]
        return {record.cell["model"]: record for record in complete}

    def plain(self) -> list[Record]:
        """The records with nothing but the model to name them."""
        return [replace(record, cell={"model": record.cell["model"]}) for record in self.records]


def boards(records: Sequence[Record]) -> list[Board]:
    """Records with a model, those of equal other options together."""
    found: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        if "model" in record.cell:
            found.setdefault(tuple(_rest(record).items()), []).append(record)
    return [Board(dict(rest), tuple(group)) for rest, group in found.items()]


def _rest(record: Record) -> dict[str, Any]:
    return {name: value for name, value in record.cell.items() if name != "model"}


def group_of(model: str) -> str:
    """The architecture of a row, whatever features it sees: rows of one are not rivals."""
    name = model.removesuffix("+adjacency")
    if name in MODEL_ROWS:
        return MODEL_ROWS[name].group
    return "polynsd" if name.startswith("polynsd") else name  # rows of the long search are no entrants


def paired_scores(column: Column) -> dict[str, Array]:
    """Scores [splits, seeds] of the models that have the most splits; none where no test is possible.

    One split tells nothing about others, and without the sizes of splits the variance is not known.
    """
    splits = {model: {score.split for score in record.scores} for model, record in column.items()}
    widest = max(splits.values(), key=len, default=set())
    if len(widest) < LEAST_SPLITS or any(record.shares is None for record in column.values()):
        return {}
    return {model: column[model].by_split() for model in column if splits[model] == widest}


def bold(board: Board) -> set[tuple[str, str]]:
    """(dataset, `cell_text`) of the entries that win their column beyond noise."""
    winners = set()
    for dataset in board.datasets:
        column = board.column(dataset)
        scores = paired_scores(column)
        if len(scores) > 1:
            shares = next(iter(column.values())).shares
            assert shares is not None
            groups = {model: group_of(model) for model in scores}
            cells = significance(scores, shares.train, groups=groups, test_share=shares.test)
            winners |= {(dataset, cell_text(column[model].cell)) for model in cells if cells[model].bold}
    return winners


def best_on_validation(records: Iterable[Record]) -> Record | None:
    """Over all splits, with seeds that no search has seen; test scores play no part."""
    return max(records, key=_validation, default=None)


def _validation(record: Record) -> float:
    if math.isnan(record.validation):
        raise DataError(
            f"{record.experiment}, {record.dataset}, {cell_text(record.cell)}: validation is not a number, "
            "so nothing can be chosen by it; train the cell anew with --again."
        )
    return record.validation


def chosen_maps(board: Board) -> dict[str, Record]:
    """By dataset, the PolyNSD with the best validation; only where all families were searched."""
    chosen = {}
    for dataset in board.datasets:
        column = board.column(dataset)
        families = [column[model] for model in OURS if model in column and column[model].search is not None]
        if len(families) == len(OURS):
            chosen[dataset] = max(families, key=_validation)
    return chosen
