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
    return [one for one in _all() if one.experiment == experiment]


def find_published(
    numbers: Sequence[Published], dataset: str, cell: Mapping[str, Any], source: str = "paper"
) -> Published | None:
    """The number of one cell, whatever the order of its options; None where there is none."""
    require_choice("source", source, SOURCES)
    key = cell_key(cell)
    places = (one for one in numbers if one.dataset == dataset and one.source == source)
    return next((one for one in places if cell_key(one.cell) == key), None)


def cell_key(cell: Mapping[str, Any]) -> CellKey:
    """What two cells share that mean the same: order and types of the options do not matter.

    Nor do the arguments of a basis: `gegenbauer(1.5)` is compared with the paper's Gegenbauer row, whose
    index is not printed.
    """
    return tuple(sorted((name, _plain(name, value)) for name, value in cell.items()))


def cell_text(cell: Mapping[str, Any]) -> str:
    """`maps=diagonal;K=4`"""
    return ";".join(f"{name}={value}" for name, value in cell.items())


def parse_cell(text: str) -> dict[str, str]:
    """The inverse of `cell_text`, with all values as text."""
    return dict(option.split("=", 1) for option in text.split(";"))


def _plain(name: str, value: Any) -> str:
    return str(value).partition("(")[0] if name == "basis" else str(value)


@cache
def _all() -> tuple[Published, ...]:
    text = files(__package__).joinpath("published.csv").read_text(encoding="utf-8")
    return tuple(_number(row) for row in csv.DictReader(text.splitlines()))


def _number(row: dict[str, str]) -> Published:
    mean, std = (float(row[name]) if row[name] else None for name in ("mean", "std"))
    return Published(
        row["experiment"],
        row["dataset"],
        parse_cell(row["cell"]),
        row["metric"],
        mean,
        std,
        row["source"],
        row["note"],
    )
