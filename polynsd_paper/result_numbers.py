"""The numbers of a table: our records beside what others have printed for the same cells."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from scipy.stats import rankdata

from polynsd.report.output import PERCENT
from polynsd_paper.published import Published, cell_key, find_published

if TYPE_CHECKING:
    from polynsd_paper.records import Record

HERE, MISSING, PARTIAL = "here", "—", "‡"
EXPLAINED = ("OOM", "INS")  # notes that stand in the place of a number
METRICS = {"roc_auc": "ROC AUC", "r2": "R²"}
SOURCE_NAMES = {"published-code": "published code", "authors-sweep": "authors' sweep"}
PREFIXES = {"paper": "paper", "published-code": "code", "authors-sweep": "sweep", "literature": "literature"}

NUMBER = re.compile(r"\d+(?:\.\d+)?")

Place = tuple[tuple[str, ...], str]


@dataclass(frozen=True)
class Number:
    """One entry of a table, in percent where its metric is a share."""

    dataset: str
    cell: Mapping[str, Any]
    source: str
    metric: str
    mean: float | None
    std: float | None
    note: str = ""
    is_partial: bool = False

    def __str__(self) -> str:
        if self.mean is None:
            return self.note if self.note in EXPLAINED else MISSING
        digits = 2 if self.metric in PERCENT else 3
        text = " ± ".join(f"{value:.{digits}f}" for value in (self.mean, self.std) if value is not None)
        return f"{text} {PARTIAL}" if self.is_partial else text


def collect(records: Sequence[Record], published: Sequence[Published]) -> list[Number]:
    """Our numbers, then the printed ones for the same datasets and kinds of cells, named as ours are."""
    ours = {cell_key(record.cell): record.cell for record in records}
    datasets = {record.dataset for record in records}
    kinds = {frozenset(record.cell) for record in records}
    wanted = [one for one in published if one.dataset in datasets and frozenset(one.cell) in kinds]
    return [our_number(record) for record in records] + [
        Number(
            one.dataset,
            ours.get(cell_key(one.cell), one.cell),
            one.source,
            one.metric,
            one.mean,
            one.std,
            one.note,
        )
        for one in wanted
    ]


def tidy_rows(records: Sequence[Record], published: Sequence[Published] = ()) -> list[dict[str, Any]]:
    """A row per record with all that it tells, and what others have printed for the cell beside it.

    All metrics are fractions, the printed ones too.
    """
    axes = dict.fromkeys(name for record in records for name in record.cell)
    return [
        {
            "dataset": record.dataset,
            **{name: record.cell.get(name) for name in axes},
            **record.row(),
            **_printed(record, published),
        }
        for record in records
    ]


def _printed(record: Record, published: Sequence[Published]) -> dict[str, float | None]:
    """`paper_mean`, `paper_std` and so on, empty where nothing was printed."""
    numbers: dict[str, float | None] = {}
    for source, prefix in PREFIXES.items():
        one = find_published(published, record.dataset, record.cell, source)
        for name in ("mean", "std"):
            value = getattr(one, name, None)
            numbers[f"{prefix}_{name}"] = None if value is None else round(value / unit(record.metric), 6)
    return numbers


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Writes rows whose columns may differ; what a row does not have is empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def unit(metric: str) -> int:
    """By which a metric is multiplied to be printed."""
    return 100 if metric in PERCENT else 1


def metric_name(metric: str) -> str:
    """`accuracy in %`"""
    return METRICS.get(metric, metric) + (" in %" if metric in PERCENT else "")


def natural_order(labels: Iterable[str]) -> list[str]:
    """Labels that differ in their numbers alone by size, others in the order in which they came."""
    found = unique(labels)
    if len({NUMBER.sub("#", text) for text in found}) != 1:
        return found
    return sorted(found, key=lambda text: [float(number) for number in NUMBER.findall(text)])


def place(dataset: str, cell: Mapping[str, Any], axes: Sequence[str], sweep: bool) -> Place:
    """Labels of row and column: datasets run across or, in a sweep, the last option of the cells."""
    values = tuple(str(cell[name]) for name in axes)
    return ((dataset, *values[:-1]), values[-1]) if sweep else (values, dataset)


def column_heads(axis: str, columns: Sequence[str]) -> list[str]:
    """`K=4` for numbers; names speak for themselves."""
    return [f"{axis}={column}" if NUMBER.fullmatch(column) else column for column in columns]


def unique(values: Iterable[Any]) -> list[Any]:
    """Each once, in the order in which they came."""
    return list(dict.fromkeys(values))


def cell_label(cell: Mapping[str, Any], but: int = 0) -> str:
    """The values of a cell, without the last `but` of them."""
    values = [str(value) for value in cell.values()]
    return ", ".join(values[: len(values) - but]) or "all"


def ranked(records: Sequence[Record]) -> list[str]:
    """Labels by the number of their datasets, then by their mean rank there; partial ones come last."""
    ranks: dict[str, list[float]] = {}
    complete = [record for record in records if not record.is_partial]
    for dataset in unique(record.dataset for record in complete):
        group = [record for record in complete if record.dataset == dataset]
        for record, rank in zip(group, rankdata([-one.mean for one in group]) / len(group), strict=True):
            ranks.setdefault(cell_label(record.cell), []).append(float(rank))
    rest = [label for label in unique(cell_label(one.cell) for one in records) if label not in ranks]
    return [*sorted(ranks, key=lambda name: (-len(ranks[name]), fmean(ranks[name]))), *rest]


def our_number(record: Record) -> Number:
    """The entry of a record."""
    scale, std = unit(record.metric), None if math.isnan(record.std) else record.std * unit(record.metric)
    mean = scale * record.mean
    return Number(record.dataset, record.cell, HERE, record.metric, mean, std, is_partial=record.is_partial)


def deviation_text(records: Sequence[Record]) -> str:
    """` ± population standard deviation (ddof 0) of the split means`; nothing where no deviation is known."""
    kinds = unique(_deviation(record) for record in records if not math.isnan(record.std))
    return f" ± {' or '.join(kinds)}" if kinds else ""


def _deviation(record: Record) -> str:
    splits, _ = record.by_split().shape
    kind = "sample" if record.ddof else "population"
    what = "of the split means" if splits > 1 else "over the seeds"
    return f"{kind} standard deviation (ddof {record.ddof}) {what}"
