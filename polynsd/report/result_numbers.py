"""The numbers of a table: our records beside what others have printed for the same cells."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polynsd.experiments.published import Published, cell_key
from polynsd.report.pace import PERCENT

if TYPE_CHECKING:
    from polynsd.experiments.record import Record

HERE, MISSING = "here", "—"
EXPLAINED = ("OOM", "INS")  # notes that stand in the place of a number
METRICS = {"roc_auc": "ROC AUC", "r2": "R²"}
SOURCE_NAMES = {"published-code": "published code", "authors-sweep": "authors' sweep"}


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

    def __str__(self) -> str:
        if self.mean is None:
            return self.note if self.note in EXPLAINED else MISSING
        digits = 2 if self.metric in PERCENT else 3
        return " ± ".join(f"{value:.{digits}f}" for value in (self.mean, self.std) if value is not None)


def collect(records: Sequence[Record], published: Sequence[Published]) -> list[Number]:
    """Our numbers, then the printed ones for the same datasets and kinds of cells, named as ours are."""
    ours = {cell_key(record.cell): record.cell for record in records}
    datasets = {record.dataset for record in records}
    kinds = {frozenset(record.cell) for record in records}
    wanted = [one for one in published if one.dataset in datasets and frozenset(one.cell) in kinds]
    return [_ours(record) for record in records] + [
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
    """A row per number, ours with all that the record tells, in percent where the metric is a share."""
    numbers = collect(records, published)
    about = [record.row() for record in records] + [{} for _ in numbers[len(records) :]]
    return [
        {
            "dataset": one.dataset,
            **one.cell,
            "source": one.source,
            **more,
            "metric": one.metric,
            "mean": _rounded(one.mean),
            "std": _rounded(one.std),
            "note": one.note,
        }
        for one, more in zip(numbers, about, strict=True)
    ]


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
    """Numbers by size, names in the order in which they came."""
    unique = list(dict.fromkeys(labels))
    try:
        return sorted(unique, key=float)
    except ValueError:
        return unique


def _ours(record: Record) -> Number:
    scale = unit(record.metric)
    return Number(record.dataset, record.cell, HERE, record.metric, scale * record.mean, scale * record.std)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
