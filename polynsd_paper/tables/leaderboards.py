"""Leaderboards: models compared on each dataset, which of them wins beyond noise, and what maps add.

Functions take a table of `summarize`, a row per record, or such rows. A leaderboard is such a table whose
records differ in dataset and model alone; partial records take part in no comparison. What the maps add is
PolyNSD minus its matched control, the same configuration with identity maps:

    gaps = control_gaps(summarize(load_records(Path("results"), "leaderboard")))
    gaps["cora", "model=polynsd"]  # difference and 95 % interval over splits
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from polynsd.errors import DataError
from polynsd.optional import load_optional
from polynsd.stats import Comparison, compare, holm, significance
from polynsd.stats.scores import LEAST_SPLITS
from polynsd_paper.experiment import cell_text
from polynsd_paper.experiments.block import AS_CHANGE, LEARNED, SAME_REACH
from polynsd_paper.experiments.models import FAMILIES, MODEL_ROWS
from polynsd_paper.experiments.searched import CONTROL
from polynsd_paper.records import Array, option_names, split_shares
from polynsd_paper.tables.printed_numbers import parse_cell

if TYPE_CHECKING:
    from pandas import DataFrame, Series

OURS = tuple(f"polynsd-{maps}" for maps in FAMILIES)
CONTROLS = ("identity-sheaf", "poly-spectral")
CONTROLLED = ("model", "variant", "change")  # options that tell a winner from its control
CONTROL_OF = {LEARNED: SAME_REACH, AS_CHANGE[LEARNED]: AS_CHANGE[SAME_REACH]}
ADDED = "maps add"  # what the line of differences is called
DIGITS = 6
COPIES = {"cornell": "texas"}  # the usual file has the features and labels of Texas on Cornell's edges


def architecture(row: str) -> str:
    """The architecture of a model's row, whatever features or filter it has. Rows of one are not rivals.

    A matched control is a model with identity maps, whatever its winner is.
    """
    if row.startswith(CONTROL):
        return "identity-sheaf"
    name = row.removesuffix("+adjacency").removesuffix("+filter")
    if name in MODEL_ROWS:
        return MODEL_ROWS[name].group
    name = name.partition("-ode")[0]  # in continuous time
    return "polynsd" if name.startswith("polynsd") else name  # rows of the long search are in no other table


def is_polynsd(row: str) -> bool:
    """Whether a model's row is a PolyNSD."""
    return architecture(row) == "polynsd"


def leaderboards(cells: DataFrame) -> Iterator[tuple[dict[str, Any], DataFrame]]:
    """The options that all records of a leaderboard share (`{"rule": "luan-60-20-20"}`), and its records."""
    if "model" not in cells:
        return
    named = cells[cells["model"].notna()]
    shared = [name for name in option_names(cells) if name != "model"]
    if not shared:
        yield {}, named
        return
    for values, board in named.groupby(shared, sort=False, dropna=False):
        options = dict(zip(shared, values, strict=True))
        yield {name: value for name, value in options.items() if value == value and value is not None}, board


def complete(cells: DataFrame) -> DataFrame:
    """The records that have all of their splits."""
    return cells[~cells["is_partial"].astype(bool)]


def counted_once(datasets: Iterable[str]) -> tuple[str, ...]:
    """The graphs without copies of others among them, so that none counts twice."""
    names = tuple(datasets)
    return tuple(name for name in names if COPIES.get(name) not in names)


def best_on_validation(cells: DataFrame) -> Series | None:
    """The record with the greatest mean validation, the first of equals; None of an empty table.

    Validation is over all splits, with seeds that no search has seen. Test scores play no part.
    """
    if cells.empty:
        return None
    unknown = cells[cells["val"].isna()]
    if len(unknown):
        record = unknown.iloc[0]
        raise DataError(
            f"{record['experiment']}, {record['dataset']}, {record['cell']}: validation is not a number, "
            "so nothing can be chosen by it; train the cell anew with --again."
        )
    return cells.loc[cells["val"].idxmax()]


def choose_maps(board: DataFrame) -> DataFrame:
    """On every dataset the PolyNSD with the best validation, where all families of maps were searched."""
    families = complete(board[board["row"].isin(OURS) & board["is_searched"]])
    chosen = [
        best_on_validation(column)
        for _, column in families.groupby("dataset", sort=False)
        if len(column) == len(OURS)
    ]
    return families.loc[[record.name for record in chosen if record is not None]]


def paired_scores(column: DataFrame) -> dict[str, Array]:
    """By model, scores [splits, seeds] of the records of one dataset that have the most splits.

    Empty where no test is possible: one split tells nothing about others, and without the sizes of splits the
    variance is not known.
    """
    column = complete(column)
    widest = max(column["split_numbers"], key=len, default=())
    if len(widest) < LEAST_SPLITS or any(split_shares(cell) is None for _, cell in column.iterrows()):
        return {}
    same = column[[numbers == widest for numbers in column["split_numbers"]]]
    return dict(zip(same["row"], same["scores"], strict=True))


def compare_cells(first: Series[Any] | None, second: Series[Any] | None) -> Comparison | None:
    """First − second over the same splits; None where one is missing or they have other or few splits."""
    if first is None or second is None or first["split_numbers"] != second["split_numbers"]:
        return None
    return compare_scores(first["scores"], second["scores"], first)


def compare_scores(a: ArrayLike, b: ArrayLike, cell: Series[Any]) -> Comparison | None:
    """By the corrected t-test over splits; scores are [splits, seeds], `cell` has the shares of splits."""
    shares = split_shares(cell)
    return None if shares is None or len(np.asarray(a)) < LEAST_SPLITS else compare(a, b, shares)


def winners(board: DataFrame) -> set[tuple[str, str]]:
    """(dataset, cell) of the records that win their dataset beyond noise."""
    found = set()
    for dataset, column in board.groupby("dataset", sort=False):
        scores = paired_scores(column)
        if len(scores) > 1:
            shares = split_shares(complete(column).iloc[0])
            assert shares is not None  # otherwise no scores are paired
            groups = {model: architecture(model) for model in scores}
            tests = significance(scores, shares, groups=groups)
            texts = dict(zip(column["row"], column["cell"], strict=True))
            found |= {(str(dataset), texts[model]) for model in tests if tests[model].bold}
    return found


def control_of(cell: str) -> str | None:
    """The cell of the matched control, `model=control of polynsd` of `model=polynsd`; None of others."""
    options = parse_cell(cell)
    for name in CONTROLLED:
        value = options.get(name, "")
        control = CONTROL_OF.get(value) or (CONTROL + value if value.startswith("polynsd") else None)
        if control is not None:
            return cell_text({**options, name: control})
    return None


def control_gaps(cells: DataFrame) -> dict[tuple[str, str], Comparison]:
    """By dataset and cell, the difference to the control of every cell of an experiment that has one."""
    whole = complete(cells)
    rows = {(row["dataset"], row["cell"]): row for _, row in whole.iterrows()}
    found = {}
    for (dataset, cell), row in rows.items():
        gap = compare_cells(row, rows.get((dataset, control_of(cell) or "")))
        if gap is not None:
            found[dataset, cell] = gap
    return found


def compare_with_controls(cells: DataFrame) -> DataFrame:
    """Each family of PolyNSD against NSD with its maps, identity maps, no sheaf, and the best other model.

    A row per pair and dataset of every leaderboard; `p_holm` is adjusted over all rows. The best other model
    is the one with the greatest test mean, so that the comparison is the hardest there is.
    """
    pandas = load_optional("pandas", "tables of records need", "paper")
    rows = []
    for options, board in leaderboards(cells):
        for dataset, column in board.groupby("dataset", sort=False):
            rows += [{"dataset": dataset, **options, **row} for row in _pairs(complete(column))]
    table = pandas.DataFrame(rows)
    if len(table):
        table.insert(table.columns.get_loc("p") + 1, "p_holm", holm(table["p"].to_list()))
    # six digits that count: p-values may be small
    return table.map(lambda value: float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value)


def _pairs(column: DataFrame) -> Iterator[dict[str, Any]]:
    scores = paired_scores(column)
    tested = column[column["row"].isin(scores)].set_index("row")
    others = tested[[not is_polynsd(row) for row in tested.index]]
    best = others["mean"].idxmax() if len(others) else None
    for ours in OURS:
        for other in dict.fromkeys((f"nsd-{ours.partition('-')[2]}", *CONTROLS, best)):
            if ours in scores and other in scores:
                shares = split_shares(tested.loc[ours])
                assert shares is not None
                test = compare(scores[ours], scores[other], shares)
                yield {"model": ours, "against": other, "is_best_other": other == best, **asdict(test)}


def rank_rows(cells: DataFrame, label: str = "row") -> list[str]:
    """Labels by the number of their datasets, then by their mean rank there; partial ones come last."""
    ranks: dict[str, list[float]] = {}
    for _, column in complete(cells).groupby("dataset", sort=False):
        for name, rank in zip(column[label], rankdata(-column["mean"]) / len(column), strict=True):
            ranks.setdefault(name, []).append(float(rank))
    rest = [name for name in cells[label].unique() if name not in ranks]
    return [*sorted(ranks, key=lambda name: (-len(ranks[name]), float(np.mean(ranks[name])))), *rest]
