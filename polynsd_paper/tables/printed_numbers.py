"""Numbers that others have printed for our experiments, and why they may differ from ours.

printed_numbers.csv has a row per number: experiment, dataset, cell (the options that name it,
`maps=diagonal;K=4`), metric, mean and std in percent as printed, source and note. Sources:

    paper           the tables of the PolyNSD paper, which quote most baselines from elsewhere
    authors-sweep   exports of the authors' own sweeps over K and the stalk dimension
    published-code  the published code, run again
    literature      other papers and their repositories, named in the note

A number that is missing there is NaN, and the note says why, where the paper does: OOM (out of memory), INS
(numerically unstable), N/A. footnotes.csv has a sentence for each reason why two numbers cannot be compared.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from polynsd.errors import require_choice
from polynsd.optional import load_optional
from polynsd_paper.tables.formatting import PARTIAL, unit

if TYPE_CHECKING:
    from pandas import DataFrame, Series

HERE = "here"  # the source of our own numbers
SOURCES = ("paper", "published-code", "authors-sweep", "literature")
PREFIXES = {"paper": "paper", "published-code": "code", "authors-sweep": "sweep", "literature": "literature"}


def read_printed(experiment: str) -> DataFrame:
    """The rows of printed_numbers.csv for an experiment, with the `cell_key` of each in a column `key`."""
    table = _read_csv("printed_numbers.csv")
    return table[table["experiment"] == experiment]


@cache
def _read_csv(name: str) -> DataFrame:
    pandas = load_optional("pandas", "tables of records need", "paper")
    with files(__package__).joinpath(name).open(encoding="utf-8") as file:
        table = pandas.read_csv(file, dtype=str, keep_default_na=False)
    if "cell" not in table:
        return table
    numbers = {name: table[name].replace("", "nan").astype(float) for name in ("mean", "std")}
    return table.assign(**numbers, key=table["cell"].map(cell_key))


def cell_key(cell: str) -> str:
    """Equal for cells that mean the same: `K=4;maps=diagonal` of `maps=diagonal;K=4`.

    The arguments of a basis do not matter either: `gegenbauer(1.5)` is compared with the paper's Gegenbauer
    row, whose index is not printed.
    """
    return ";".join(sorted(re.sub(r"^(basis=\w+)\(.*", r"\1", option) for option in cell.split(";")))


def parse_cell(cell: str) -> dict[str, str]:
    """`{"maps": "diagonal", "K": "4"}` of `maps=diagonal;K=4`; all values are text."""
    return dict(option.split("=", 1) for option in cell.split(";"))


def find_printed(numbers: DataFrame, dataset: str, cell: str, source: str = "paper") -> Series[Any] | None:
    """The number of one cell, whatever the order of its options; None where there is none."""
    require_choice("source", source, SOURCES)
    is_same = (numbers["dataset"] == dataset) & (numbers["key"] == cell_key(cell))
    matches = numbers[is_same & (numbers["source"] == source) & numbers["mean"].notna()]
    return None if matches.empty else matches.iloc[0]


def collect_numbers(cells: DataFrame, printed: DataFrame) -> DataFrame:
    """A row per number: ours, then the printed ones for the same datasets and kinds of cells.

    Columns: dataset, cell (named as ours is), options (of the cell, as texts), source, metric, mean and std
    (in percent where the metric is a share), note, marks, is_partial, is_beside (whether we have the same
    cell).

    Args:
        cells: a table of `summarize`, or of `mark_cells`.
        printed: a table of `read_printed`.
    """
    pandas = load_optional("pandas", "tables of records need", "paper")
    if "marks" not in cells:
        cells = cells.assign(marks=cells["is_partial"].map({True: PARTIAL, False: ""}))
    scale = cells["metric"].map(unit)
    ours = cells[["dataset", "cell", "metric", "marks", "is_partial"]].assign(
        key=cells["cell"].map(cell_key),
        source=HERE,
        mean=scale * cells["mean"],
        std=scale * cells["std"],
        note="",
    )
    theirs = printed.assign(key=printed["cell"].map(cell_key), marks="", is_partial=False)
    kinds, their_kinds = (t["key"].map(lambda key: re.sub("=[^;]*", "", key)) for t in (ours, theirs))
    theirs = theirs[theirs["dataset"].isin(ours["dataset"]) & their_kinds.isin(kinds)]
    table = pandas.concat([ours, theirs[ours.columns]], ignore_index=True)
    names = dict(zip(ours["key"], ours["cell"], strict=True))
    table["cell"] = table["key"].map(names).fillna(table["cell"])
    table["options"] = table["cell"].map(parse_cell)
    same = table.merge(ours[["dataset", "key"]].drop_duplicates(), how="left", indicator=True)
    table["is_beside"] = (same["_merge"] == "both").to_numpy()
    return table


def printed_columns(cells: DataFrame, printed: DataFrame) -> DataFrame:
    """`paper_mean`, `paper_std` and so on beside our cells, as fractions; NaN where nothing was printed."""
    ours = cells[["dataset"]].assign(key=cells["cell"].map(cell_key))
    columns = {}
    for source, prefix in PREFIXES.items():
        theirs = printed[printed["source"] == source].drop_duplicates(["dataset", "key"])
        beside = ours.merge(theirs, how="left", on=["dataset", "key"]).set_index(cells.index)
        for name in ("mean", "std"):
            columns[f"{prefix}_{name}"] = (beside[name] / cells["metric"].map(unit)).round(6)
    return ours[[]].assign(**columns)


@dataclass(frozen=True)
class Footnote:
    """A sentence about some columns or rows of an experiment's table.

    Args:
        about: datasets, models or other labels of the table; none: all of it.
        text: the sentence.
    """

    about: tuple[str, ...]
    text: str

    def concerns(self, label: str) -> bool:
        """Whether a row or column of that label is meant in particular; `jacobi(0.5, 0)` is `jacobi`."""
        return label.partition("(")[0] in self.about


def footnotes_for(experiment: str, labels: Collection[str] | None = None) -> list[Footnote]:
    """The footnotes of an experiment; with `labels`, those about one of them, then those about everything."""
    table = _read_csv("footnotes.csv")
    notes = [
        Footnote(tuple(filter(None, about.split(";"))), text)
        for experiments, about, text in table.itertuples(index=False)
        if experiment in experiments.split(";")
    ]
    if labels is None:
        return notes
    particular = [note for note in notes if any(map(note.concerns, labels))]
    return particular + [note for note in notes if not note.about]
