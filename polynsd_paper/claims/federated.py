"""Federated training: sheaves of first order and polynomial ones, masks, and plain baselines. (C64, C65)

Both claims are about Roman-Empire with ten clients, so it decides: with its own features where there are
records of it, with the substituted ones otherwise. The other graphs are told beside it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from polynsd_paper.claims.claim import CONFIRMED, REFUTED, UNDECIDED, Finding, check, combine
from polynsd_paper.claims.comparisons import (
    compare_options,
    complete_cells,
    find_cell,
    format_percent,
    select,
)
from polynsd_paper.experiments.federated import SHEAVES
from polynsd_paper.experiments.models import FAMILIES
from polynsd_paper.measured import pool

if TYPE_CHECKING:
    from pandas import DataFrame

ROMAN = ("roman_empire", "roman_empire_glovesub")
PLAIN = ("fedavg", "fedprox", "moon", "fedadam", "fedproto")
NEAR = 0.05  # of the rate of the most frequent class

Pairs = list[tuple[str, str]]


def roman_cells(records: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The cells of Roman-Empire, and those of the other graphs."""
    cells = complete_cells(records, "federated")
    name = next((name for name in ROMAN if (cells["dataset"] == name).any()), ROMAN[-1])
    return select(cells, dataset=name), cells[~cells["dataset"].isin(ROMAN)]


def judge_rows(records: DataFrame, title: str, pairs: Pairs, *, is_decisive: bool = False) -> Finding:
    """Whether the first row of each pair is mostly better on Roman-Empire; the other graphs are told too."""
    roman, others = roman_cells(records)
    options = [({"model": first}, {"model": second}) for first, second in pairs]
    gaps, elsewhere = compare_options(roman, options), compare_options(others, options)
    words = f"{title} ({_names(roman)})"
    finding = gaps.judge_mostly_better(words, len(pairs), "pairs of rows", is_decisive=is_decisive)
    if not len(elsewhere):
        return finding
    return replace(finding, evidence=f"{finding.evidence}; on other graphs: {elsewhere}")


def _names(cells: DataFrame) -> str:
    return ", ".join(dict.fromkeys(cells["dataset"])) or ROMAN[-1]


@check("C64")
def check_federated_sheaves(records: DataFrame) -> Finding:
    """Sheaf − GCN, polynomial − first order, loaded maps − current ones, and masks − none."""
    masks = ("current", "loaded")
    first_order: Pairs = [(f"nsd-{maps}+current", "gcn+fedath") for maps in FAMILIES]
    polynomial: Pairs = [(f"polynsd-{maps}+{m}", f"nsd-{maps}+{m}") for maps in FAMILIES for m in masks]
    loaded: Pairs = [(f"{row}+loaded", f"{row}+current") for row in SHEAVES]
    any_mask: Pairs = [(f"{row}+loaded", f"{row}+none") for row in SHEAVES]
    learned: Pairs = [(f"polynsd-{maps}+loaded", "identity+loaded") for maps in FAMILIES]
    control = judge_rows(records, "learned maps − identity", learned)
    finding = combine(
        judge_rows(records, "first-order sheaf − FedATH-GCN", first_order),
        judge_rows(records, "polynomial − first order", polynomial, is_decisive=True),
        judge_rows(records, "loaded maps − current maps", loaded),
        judge_rows(records, "loaded masks − no masks", any_mask),
    )
    return replace(finding, evidence=f"{finding.evidence}; control: {control.evidence}")


@check("C65")
def check_federated_baselines(records: DataFrame) -> Finding:
    """GCN with loaded maps − FedATH-GCN and − FedAvg; plain methods beside the most frequent class."""
    return combine(
        judge_rows(records, "GCN with loaded maps − FedATH-GCN", [("gcn+loaded", "gcn+fedath")]),
        judge_rows(records, "GCN with loaded maps − GCN", [("gcn+loaded", "fedavg")]),
        judge_chance(records),
    )


def judge_chance(records: DataFrame) -> Finding:
    """Plain methods are near chance where the best of them is at the rate of the most frequent class."""
    roman, _ = roman_cells(records)
    cells = [find_cell(roman, model=name) for name in PLAIN]
    found = [cell for cell in cells if cell is not None]
    if not found:
        return Finding(UNDECIDED, f"needs the rows {', '.join(PLAIN)} of {_names(roman)}")
    rate = float(np.mean(pool(select(roman, model=list(PLAIN)), "majority")))
    best = max(cell["mean"] for cell in found)
    listed = ", ".join(f"{cell['model']} {format_percent(cell)}" for cell in found)
    evidence = f"{listed}; the most frequent class of a client has {100 * rate:.1f} % of its test nodes"
    verdict = CONFIRMED if abs(best - rate) <= NEAR else REFUTED
    return Finding(verdict, evidence).require(len(found), len(PLAIN), "rows")
