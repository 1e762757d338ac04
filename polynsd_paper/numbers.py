"""Numbers of tables and figures: our records beside what others have printed for the same cells."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polynsd.optional import load_optional
from polynsd.report.output import PERCENT
from polynsd_paper.experiment import cell_text
from polynsd_paper.published import Published, cell_key, find_published

if TYPE_CHECKING:
    from pandas import DataFrame, Series

HERE, NOT_RUN, PARTIAL = "here", "—", "‡"
EXPLAINED = ("OOM", "INS")  # notes of the paper that stand in the place of a number
METRICS = {"roc_auc": "ROC AUC", "r2": "R²"}
SOURCE_NAMES = {"published-code": "published code", "authors-sweep": "authors' sweep"}
PREFIXES = {"paper": "paper", "published-code": "code", "authors-sweep": "sweep", "literature": "literature"}
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def unit(metric: str) -> int:
    """By which a metric is multiplied to be printed."""
    return 100 if metric in PERCENT else 1


def metric_name(metric: str) -> str:
    """`accuracy in %`"""
    return METRICS.get(metric, metric) + (" in %" if metric in PERCENT else "")


def cell_options(cell: Series[Any]) -> dict[str, Any]:
    """The options of a row of `summarize`, in the order of its cell."""
    return {name: cell[name] for name in (part.partition("=")[0] for part in cell["cell"].split(";"))}


def collect_numbers(cells: DataFrame, printed: Sequence[Published] = ()) -> DataFrame:
    """A row per number: ours, then the printed ones for the same datasets and kinds of cells.

    Columns: dataset, options (of the cell, named as ours are), cell, source, metric, mean and std (in percent
    where the metric is a share), note, is_partial, is_beside (whether we have the same cell).
    """
    pandas = load_optional("pandas", "tables of records need", "paper")
    rows: list[dict[str, Any]] = []
    ours: dict[Any, Mapping[str, Any]] = {}
    for _, cell in cells.iterrows():
        options, scale = cell_options(cell), unit(cell["metric"])
        ours[cell_key(options)] = options
        rows.append(
            {
                "dataset": cell["dataset"],
                "options": options,
                "source": HERE,
                "metric": cell["metric"],
                "mean": scale * cell["mean"],
                "std": scale * cell["std"],
                "note": "",
                "is_partial": bool(cell["is_partial"]),
                "is_beside": True,
            }
        )
    beside = {(row["dataset"], cell_key(row["options"])) for row in rows}
    datasets, kinds = set(cells["dataset"]), {frozenset(row["options"]) for row in rows}
    for number in printed:
        if number.dataset in datasets and frozenset(number.cell) in kinds:
            key = cell_key(number.cell)
            rows.append(
                {
                    "dataset": number.dataset,
                    "options": ours.get(key, number.cell),
                    "source": number.source,
                    "metric": number.metric,
                    "mean": math.nan if number.mean is None else number.mean,
                    "std": math.nan if number.std is None else number.std,
                    "note": number.note,
                    "is_partial": False,
                    "is_beside": (number.dataset, key) in beside,
                }
            )
    table = pandas.DataFrame(rows)
    table["cell"] = [cell_text(options) for options in table["options"]]
    return table


def number_text(metric: str, mean: float, std: float, note: str = "", is_partial: bool = False) -> str:
    """`84.95 ± 5.03`; NaN is a dash, or the paper's reason for it."""
    if math.isnan(mean):
        return note if note in EXPLAINED else NOT_RUN
    digits = 2 if metric in PERCENT else 3
    text = f"{mean:.{digits}f}" if math.isnan(std) else f"{mean:.{digits}f} ± {std:.{digits}f}"
    return f"{text} {PARTIAL}" if is_partial else text


def cell_number(cell: Series[Any]) -> str:
    """`number_text` of a row of `summarize`."""
    scale = unit(cell["metric"])
    return number_text(
        cell["metric"], scale * cell["mean"], scale * cell["std"], is_partial=cell["is_partial"]
    )


def printed_columns(cells: DataFrame, printed: Sequence[Published]) -> DataFrame:
    """`paper_mean`, `paper_std` and so on beside our cells, as fractions; NaN where nothing was printed."""
    pandas = load_optional("pandas", "tables of records need", "paper")
    rows = []
    for _, cell in cells.iterrows():
        row = {}
        for source, prefix in PREFIXES.items():
            number = find_published(printed, cell["dataset"], cell_options(cell), source)
            for name in ("mean", "std"):
                value = getattr(number, name, None)
                row[f"{prefix}_{name}"] = (
                    math.nan if value is None else round(value / unit(cell["metric"]), 6)
                )
        rows.append(row)
    return pandas.DataFrame(rows, index=cells.index)


def natural_order(labels: Iterable[str]) -> list[str]:
    """Each label once: by size where they differ in their numbers alone, else in the order of appearance."""
    unique = list(dict.fromkeys(labels))
    if len({NUMBER.sub("#", text) for text in unique}) != 1:
        return unique
    return sorted(unique, key=lambda text: [float(number) for number in NUMBER.findall(text)])


def deviation_text(cells: DataFrame) -> str:
    """` ± population standard deviation (ddof 0) of the split means`; empty where no deviation is known."""
    spread = cells[cells["std"].notna()]
    kinds = dict.fromkeys(
        f"{'sample' if ddof else 'population'} standard deviation (ddof {ddof}) "
        f"{'of the split means' if splits > 1 else 'over the seeds'}"
        for ddof, splits in zip(spread["ddof"], spread["splits"], strict=True)
    )
    return f" ± {' or '.join(kinds)}" if kinds else ""


def range_text(values: Iterable[int]) -> str:
    """`10`, or `16–32` where it is not the same everywhere."""
    ordered = sorted(values) or [0]
    low, high = ordered[0], ordered[-1]
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"
