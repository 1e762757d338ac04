"""Comparisons of records: cells are selected by their options, chosen on validation, and compared in pairs.

A table of cells has one row per record (`polynsd_paper.records.summarize`): dataset, the options of its cell
(model, K, …), `val` and `mean` over splits and seeds, and `scores` [splits, seeds].

    cells = complete_cells(records, "leaderboard")
    gap = compare_cells(find_cell(cells, dataset="cora", model="polynsd-general"),
                        find_cell(cells, dataset="cora", model="nsd-general"))

Differences are paired over splits, or over graphs where there is one split, with 95 % intervals; counts over
cells are Holm-adjusted (`gaps`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from polynsd.stats import Difference, compare_independent
from polynsd.stats.scores import LEAST_SPLITS
from polynsd_paper.claims.claim import Finding
from polynsd_paper.claims.gaps import Gaps
from polynsd_paper.experiments import get_experiment
from polynsd_paper.experiments.models import FAMILIES, MODEL_ROWS
from polynsd_paper.tables.formatting import join_unique
from polynsd_paper.tables.leaderboards import (
    OURS,
    architecture,
    best_on_validation,
    compare_cells,
    complete,
    counted_once,
)

if TYPE_CHECKING:
    from pandas import DataFrame, Series

OPTIONS = ("model", "maps", "K", "layers", "hidden", "stalk_dim", "basis", "rule", "setting", "change")


# Cells


def complete_cells(records: DataFrame, experiment: str) -> DataFrame:
    """The cells of an experiment that have all their splits, with a column for each of `OPTIONS`.

    Graphs that are copies of others count once (`counted_datasets`).
    """
    copies = set(get_experiment(experiment).datasets) - set(counted_datasets(experiment))
    cells = complete(records[(records["experiment"] == experiment) & ~records["dataset"].isin(copies)])
    return cells.assign(**{name: None for name in OPTIONS if name not in cells})


def counted_datasets(experiment: str) -> tuple[str, ...]:
    """The graphs that claims are decided on."""
    return counted_once(get_experiment(experiment).datasets)


def select(cells: DataFrame, **options: Any) -> DataFrame:
    """The cells with these values in their columns; a tuple or list allows several."""
    chosen = np.ones(len(cells), dtype=bool)
    for name, value in options.items():
        if name not in cells:
            return cells.iloc[:0]
        allowed = value if isinstance(value, (tuple, list)) else [value]
        chosen &= cells[name].isin(allowed).to_numpy()
    return cells[chosen]


def having(cells: DataFrame, option: str) -> DataFrame:
    """The cells that have a value of an option."""
    return cells[cells[option].notna()]


def find_cell(cells: DataFrame, **options: Any) -> Series | None:
    """The first cell with these options."""
    chosen = select(cells, **options)
    return None if chosen.empty else chosen.iloc[0]


def datasets_of(cells: DataFrame) -> list[str]:
    """The datasets, in the order of the cells."""
    return list(dict.fromkeys(cells["dataset"]))


def by_dataset(cells: DataFrame) -> list[DataFrame]:
    """The cells of each dataset."""
    return [table for _, table in cells.groupby("dataset", sort=False)]


def best_polynsd(cells: DataFrame) -> Series | None:
    """PolyNSD with the maps that are best on validation; None unless all three families were searched."""
    searched = select(cells, model=OURS, is_searched=True)
    return best_on_validation(searched) if len(searched) == len(OURS) else None


def best_variants(cells: DataFrame) -> dict[str, Series]:
    """By architecture, the variant (maps, convolution, options) that is best on validation.

    Rows that see other features are left out.
    """
    cells = select(cells, model=list(MODEL_ROWS))
    groups = cells.groupby([architecture(model) for model in cells["model"]], sort=False)
    best = {str(name): best_on_validation(group) for name, group in groups}
    return {name: cell for name, cell in best.items() if cell is not None}


def best_rival(cells: DataFrame) -> Series | None:
    """Of the architectures that are not PolyNSD the one with the best validation."""
    rivals = [row for group, row in best_variants(cells).items() if group != "polynsd"]
    return max(rivals, key=lambda row: row["val"], default=None)


def format_percent(cell: Series) -> str:
    """Mean and deviation in percent, e.g. `88.1 ± 0.4`."""
    deviation = "" if math.isnan(cell["std"]) else f" ± {100 * cell['std']:.1f}"
    return f"{100 * cell['mean']:.1f}{deviation}"


# Differences


def compare_graphs(first: ArrayLike, second: ArrayLike) -> Difference | None:
    """By Student's t over scores on independent graphs, one on each; None for fewer than three."""
    return None if np.size(first) < LEAST_SPLITS else compare_independent(first, second)


def compare_options(cells: DataFrame, pairs: Iterable[tuple[dict[str, Any], dict[str, Any]]]) -> Gaps:
    """The cell with the first options − the cell with the second, for every dataset and pair of options."""
    pairs = list(pairs)
    return Gaps(
        compare_cells(find_cell(table, **first), find_cell(table, **second))
        for table in by_dataset(cells)
        for first, second in pairs
    )


def compare_same_maps(cells: DataFrame) -> Gaps:
    """PolyNSD − NSD for every dataset and family of maps."""
    return compare_options(
        cells, (({"model": f"polynsd-{maps}"}, {"model": f"nsd-{maps}"}) for maps in FAMILIES)
    )


def compare_ablations(records: DataFrame, first: str, second: str) -> Gaps:
    """The first − the second of two rows of the ablations, on every graph."""
    return compare_options(complete_cells(records, "ablations"), [({"change": first}, {"change": second})])


def judge_ablation(gaps: Gaps, title: str) -> Finding:
    """Whether a change of the ablations is for the better on most of their graphs."""
    total = len(get_experiment("ablations").datasets)
    return gaps.judge_mostly_better(title, total, "graphs of the ablations")


# Searches


def describe_searches(records: DataFrame, option: str) -> str:
    """Which values of a layer's option the leaderboard's searches chose for PolyNSD, and their starts."""
    cells = select(records, experiment="leaderboard", model=OURS, is_searched=True)
    if cells.empty:
        return ""
    name = f"model.layer.{option}"
    chosen = Counter(str(_get_option(cell["configuration"], name)) for _, cell in cells.iterrows())
    starts = [_search_starts(cell) for _, cell in cells.iterrows()]
    kept = sum(
        any(all(_get_option(plain, key) == value for key, value in start.items()) for start in given)
        for plain, given in zip(cells["configuration"], starts, strict=True)
    )
    counts = [_format_counts(Counter(str(start.get(name)) for start in given)) for given in starts]
    by_counts = cells.assign(counts=counts).groupby("counts", sort=False)["dataset"]
    listed = "; ".join(f"{text} on {join_unique(datasets)}" for text, datasets in by_counts)
    return (
        f"; searches on validation ended with {option}: {_format_counts(chosen)}. That is no free choice: "
        f"they start with given architectures ({listed if len(by_counts) > 1 else counts[0]}), and "
        f"{kept} of {len(cells)} ended with one of these"
    )


def _search_starts(cell: Series) -> tuple[Mapping[str, Any], ...]:
    """The configurations with which the search of a leaderboard's cell starts."""
    cells = get_experiment("leaderboard").cells((cell["dataset"],), {"model": (cell["model"],)})
    return next((plan.starts for plan in cells if plan.options == {"model": cell["model"]}), ())


def _get_option(configuration: Any, name: str) -> Any:
    """The value under `model.layer.basis`; None where there is none."""
    for word in name.split("."):
        configuration = configuration.get(word) if isinstance(configuration, Mapping) else None
    return configuration


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {value}" for value, count in counts.most_common())
