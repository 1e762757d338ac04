"""What has to be known of a number before it is compared: marks behind it, and what they mean.

majority.csv has, by dataset and protocol, the test accuracy in % of the best constant prediction, in the mean
over splits. A model that does no better has learned nothing, whatever its deviation.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from polynsd.optional import load_optional
from polynsd_paper.experiments.reference import FAMILIES, REFERENCES
from polynsd_paper.tables.formatting import PARTIAL, unit
from polynsd_paper.tables.printed_numbers import cell_key, read_printed

if TYPE_CHECKING:
    from pandas import DataFrame, Series

EARLIER, ELSEWHERE, BELOW, TRIVIAL = "◊", "⊗", "▽", "∅"
MEANINGS = {
    PARTIAL: "Of the first splits only, and in no comparison.",
    EARLIER: "Chosen by an earlier search, with fewer trials and narrower ranges; not yet searched anew.",
    ELSEWHERE: "On another kind of device, or in another precision, than most of its column.",
    BELOW: "More than a point below the best published number of the model.",
    TRIVIAL: "No better than the best constant prediction, or than chance: it has learned nothing.",
}
POINT = 0.01
CHANCE = {"roc_auc": 0.5, "r2": 0.0}


class Best(NamedTuple):
    """The greatest published number of a model on a graph, as a fraction, and where it stands."""

    mean: float
    source: str


def mark_cells(cells: DataFrame) -> DataFrame:
    """The table of `summarize` with columns `marks` (of `MEANINGS`), `best_published` and its source."""
    usual = {
        key: group[["device", "precision"]].agg("; ".join, axis=1).mode()[0]
        for key, group in cells.groupby(["experiment", "dataset"], sort=False)
    }
    best = [find_best(cell) for _, cell in cells.iterrows()]
    marks = [
        _marks(cell, usual[cell["experiment"], cell["dataset"]], known)
        for (_, cell), known in zip(cells.iterrows(), best, strict=True)
    ]
    return cells.assign(
        marks=marks,
        best_published=[None if one is None else one.mean for one in best],
        best_published_in=["" if one is None else one.source for one in best],
    )


def _marks(cell: Series[Any], usual: str, best: Best | None) -> str:
    is_elsewhere = "; ".join((cell["device"], cell["precision"])) != usual
    is_below = best is not None and cell["mean"] < best.mean - POINT
    floor = constant_score(cell)
    flags = {
        PARTIAL: cell["is_partial"],
        EARLIER: cell["is_earlier"],
        ELSEWHERE: is_elsewhere,
        BELOW: is_below and not cell["is_partial"],
        TRIVIAL: floor is not None and cell["mean"] < floor + POINT,
    }
    return "".join(mark for mark, is_set in flags.items() if is_set)


def find_best(cell: Series[Any]) -> Best | None:
    """The best published number of a cell; that of a reference row is the best of its three families.

    The paper's PolyNSD has other splits of texas than all others.
    """
    if cell["dataset"] == "texas" and cell["row"].startswith("polynsd"):
        return None
    numbers = read_printed(cell["experiment"])
    names = [cell["cell"]]
    if cell["row"] in REFERENCES:
        names = [cell["cell"].replace("-reference", f"-{maps}") for maps in FAMILIES]
    is_same = (numbers["dataset"] == cell["dataset"]) & numbers["key"].isin(map(cell_key, names))
    numbers = numbers[is_same & numbers["mean"].notna()]
    if numbers.empty:
        return None
    row = numbers.loc[numbers["mean"].idxmax()]
    source = f"{row['source']}: {row['note']}" if row["note"] else row["source"]
    return Best(round(row["mean"] / unit(cell["metric"]), 6), source)


def constant_score(cell: Series[Any]) -> float | None:
    """What a constant prediction scores on the test nodes; None where it is not known."""
    if cell["metric"] in CHANCE:
        return CHANCE[cell["metric"]]
    table = _read_majority()
    same = table[(table["dataset"] == cell["dataset"]) & (table["protocol"] == cell["protocol"])]
    return None if same.empty else float(same["accuracy"].iloc[0]) / 100


@cache
def _read_majority() -> DataFrame:
    pandas = load_optional("pandas", "tables of records need", "paper")
    with files(__package__).joinpath("majority.csv").open(encoding="utf-8") as file:
        return pandas.read_csv(file)
