"""Learned frequency responses on homophilic and heterophilic graphs. (C56 to C61)

All are statistics of the shared filter m of trained PolyNSD, 81 runs per graph. m has one learned number that
moves them all, α: at uniform θ ΔG = 0.288 − 0.8 α. How far θ itself was learned is told beside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from polynsd_paper.claims.claim import (
    CONFIRMED,
    PARTLY,
    REFUTED,
    UNDECIDED,
    Finding,
    check,
    combine,
    judge_counts,
)
from polynsd_paper.claims.comparisons import complete_cells, select
from polynsd_paper.experiments.inside import HETEROPHILIC, HOMOPHILIC, SIZES
from polynsd_paper.experiments.models import FAMILIES
from polynsd_paper.measured import Mean, pool

if TYPE_CHECKING:
    import pandas as pd
    from pandas import DataFrame

CELLS = len(FAMILIES) * len(SIZES) ** 2  # of one graph
REGIMES = {"homophilic": HOMOPHILIC, "heterophilic": HETEROPHILIC}
FLAT = 0.15  # relative change from d = 2 to d = 4 that counts as none; the printed ones are up to 0.07


def grid_cells(records: DataFrame) -> pd.DataFrame:
    """The cells of PolyNSD on all four graphs."""
    import pandas

    rows = tuple(f"polynsd-{maps}" for maps in FAMILIES)
    return pandas.concat(
        [select(complete_cells(records, name), model=rows) for name in ("energy", "response")]
    )


def _enough(part: Finding, cells: pd.DataFrame) -> Finding:
    return part.require(len(cells), CELLS * sum(map(len, REGIMES.values())), "cells")


def _order(cells: pd.DataFrame, name: str, words: str, is_larger: bool = True) -> Finding:
    """Whether the means of all homophilic graphs are larger, or smaller, than those of the others."""
    means = {
        dataset: Mean.of(pool(select(cells, dataset=dataset), name))
        for datasets in REGIMES.values()
        for dataset in datasets
    }
    sign = 1 if is_larger else -1
    pairs = [(means[a], means[b]) for a in HOMOPHILIC for b in HETEROPHILIC]
    wins, losses = (
        sum(way * sign * (a.mean - b.mean) > a.half + b.half for a, b in pairs) for way in (1, -1)
    )
    pooled = {
        regime: Mean.of(pool(select(cells, dataset=datasets), name)) for regime, datasets in REGIMES.items()
    }
    listed = ", ".join(f"{dataset} {mean}" for dataset, mean in means.items())
    regimes = ", ".join(f"{regime} {mean}" for regime, mean in pooled.items())
    verdict = judge_counts(wins, losses, len(pairs))
    return Finding(verdict, f"{words}: {regimes} ({listed})", number=f"{words}: {regimes}")


def _learned_text(cells: pd.DataFrame) -> str:
    """How far θ moved, and how much of ΔG is α alone."""
    alpha, difference = pool(cells, "alpha"), pool(cells, "difference")
    rest = np.abs(difference - (0.288 - 0.8 * alpha)).mean() if len(alpha) else np.nan
    return (
        f"‖θ − uniform‖₁ {Mean.of(pool(cells, 'from_uniform'))}; |ΔG − (0.288 − 0.8 α)| {rest:.2f} on average"
    )


@check("C56")
def check_separation(records: DataFrame) -> Finding:
    """ΔG of homophilic against heterophilic graphs."""
    cells = grid_cells(records)
    found = _order(cells, "difference", "ΔG")
    return _enough(replace(found, evidence=f"{found.evidence}; {_learned_text(cells)}"), cells)


@check("C57")
def check_low_gain(records: DataFrame) -> Finding:
    """How often G_low is positive."""
    cells = grid_cells(records)
    shares = {
        regime: float((pool(select(cells, dataset=datasets), "low") > 0).mean())
        for regime, datasets in REGIMES.items()
        if len(select(cells, dataset=datasets))
    }
    listed = ", ".join(f"{share:.1%} of {regime} runs" for regime, share in shares.items())
    homophilic, heterophilic = (shares.get(regime, np.nan) for regime in REGIMES)
    verdict = REFUTED if homophilic > 0 else CONFIRMED if heterophilic > 0 else PARTLY
    return _enough(
        Finding(verdict, f"G_low > 0 in {listed} (printed: none and 38.8 %)", number=listed), cells
    )


@check("C58")
def check_correction(records: DataFrame) -> Finding:
    """α of homophilic against heterophilic graphs."""
    cells = grid_cells(records)
    return _enough(_order(cells, "alpha", "α", is_larger=False), cells)


@check("C59")
def check_changes(records: DataFrame) -> Finding:
    """Sign changes; with K = 3 there are at most two, and the filter starts with two."""
    cells = grid_cells(records)
    found = _order(cells, "changes", "changes between rising and falling", is_larger=False)
    note = "at most two are possible with K = 3, and an untrained filter has two"
    return _enough(replace(found, evidence=f"{found.evidence}; {note}"), cells)


def _means_by_regime(cells: DataFrame, option: str) -> Iterator[tuple[str, str, list[float]]]:
    """(regime, what was measured and how it goes, means by size) for |α| and |ΔG|."""
    for regime, datasets in REGIMES.items():
        chosen = select(cells, dataset=datasets)
        for name, words in (("alpha", "|α|"), ("difference", "|ΔG|")) if len(chosen) else ():
            means = [float(np.abs(pool(select(chosen, **{option: size}), name).mean())) for size in SIZES]
            listed = ", ".join(f"{mean:.2f}" for mean in means)
            yield regime, f"{regime} {words} at {option} = 2, 3, 4: {listed}", means


def _combine_parts(parts: Sequence[Finding], cells: DataFrame) -> Finding:
    return combine(*(_enough(part, cells) for part in parts or [Finding(UNDECIDED, "")]))


@check("C60")
def check_depth_of_responses(records: DataFrame) -> Finding:
    """|α| and ΔG by the number of layers."""
    cells, parts = grid_cells(records), []
    for _, text, means in _means_by_regime(cells, "L"):
        shrinks, grows = (np.diff(means) < 0).all(), means[-1] > means[0]
        parts.append(Finding(CONFIRMED if shrinks else REFUTED if grows else PARTLY, text, number=text))
    return _combine_parts(parts, cells)


@check("C61")
def check_stalks_of_responses(records: DataFrame) -> Finding:
    """|α| and ΔG by the dimension of the stalks."""
    cells, parts = grid_cells(records), []
    for regime, text, means in _means_by_regime(cells, "d"):
        change = means[-1] / means[0] - 1 if means[0] else np.nan
        holds = change < -FLAT if regime == "heterophilic" else abs(change) <= FLAT
        text += f" ({change:+.0%})"
        parts.append(Finding(CONFIRMED if holds else REFUTED, text, number=text))
    return _combine_parts(parts, cells)
