"""Numbers that others have printed for our experiments, as one table beside this file.

A number belongs to an experiment, a dataset, a cell (the options that name it) and a source:

    paper           the tables of the PolyNSD paper, which quote most baselines from elsewhere
    authors-sweep   exports of the authors' own sweeps over K and the stalk dimension
    published-code  the published code, run again
    literature      other papers and their repositories, named in the note

All are in percent, as printed. A number that is missing there is None, and the note says why, where the
paper does: OOM (out of memory), INS (numerically unstable), N/A.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from polynsd.errors import require_choice

SOURCES = ("paper", "published-code", "authors-sweep", "literature")

CellKey = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Published:
    """One printed number."""

    experiment: str
    dataset: str
    cell: Mapping[str, str]
    metric: str
    mean: float | None
    std: float | None
    source: str
    note: str


def published(experiment: str) -> list[Published]:
    """All numbers for an experiment, in the order of the tables; none for one that nobody has printed."""
    return [number for number in _read_numbers() if number.experiment == experiment]


def find_published(
    numbers: Sequence[Published], dataset: str, cell: Mapping[str, Any], source: str = "paper"
) -> Published | None:
    """The number of one cell, whatever the order of its options; None where there is none."""
    require_choice("source", source, SOURCES)
    key = cell_key(cell)
    beside = (number for number in numbers if number.dataset == dataset and number.source == source)
    return next((number for number in beside if cell_key(number.cell) == key), None)


def cell_key(cell: Mapping[str, Any]) -> CellKey:
    """Equal for cells that mean the same: order and types of the options do not matter.

    Nor do the arguments of a basis: `gegenbauer(1.5)` is compared with the paper's Gegenbauer row, whose
    index is not printed.
    """
    texts = {name: str(value) for name, value in cell.items()}
    if "basis" in texts:
        texts["basis"] = texts["basis"].partition("(")[0]
    return tuple(sorted(texts.items()))


def parse_cell(text: str) -> dict[str, str]:
    """`{"maps": "diagonal", "K": "4"}` of `maps=diagonal;K=4`; all values are text."""
    return dict(option.split("=", 1) for option in text.split(";"))


@cache
def _read_numbers() -> tuple[Published, ...]:
    text = files(__package__).joinpath("published.csv").read_text(encoding="utf-8")
    numbers = []
    for row in csv.DictReader(text.splitlines()):
        mean, std = (float(row[name]) if row[name] else None for name in ("mean", "std"))
        values: dict[str, Any] = {**row, "cell": parse_cell(row["cell"]), "mean": mean, "std": std}
        numbers.append(Published(**values))
    return tuple(numbers)
