"""What trained models do inside: energies, influence, maps. (C29, C44, C45, C63)

Energies are those of the states after every layer, by the sheaf that acts on them, up to the last but one:
the same place for all models. The published place is inside the layer, after the Laplacian product in NSD,
which damps low frequencies by itself; it is told beside.
"""

from __future__ import annotations

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
from polynsd_paper.experiments.inside import DISTANCES, HETEROPHILIC, SIZES
from polynsd_paper.experiments.models import FAMILIES
from polynsd_paper.measured import Mean, curves, pool, series, slopes

if TYPE_CHECKING:
    from pandas import DataFrame

PANELS = [(dataset, maps) for dataset in HETEROPHILIC for maps in FAMILIES]
GRID = len(SIZES) ** 2  # cells of a panel and a method
FAR = 5  # hops from which on the paper speaks of distance
ORDER = 10.0  # "orders of magnitude": at least one
SPECIALISED = ("norm", "separation", "kurtosis")


@check("C29")
def check_first_order_responses(records: DataFrame) -> Finding:
    """How often Π r of trained stacks changes between rising and falling, maps taken as the same in all."""
    cells = complete_cells(records, "energy")
    nsd, poly = (
        select(cells, model=tuple(f"{kind}-{maps}" for maps in FAMILIES)) for kind in ("nsd", "polynsd")
    )
    changes, others = pool(nsd, "stack_changes"), pool(poly, "stack_changes")
    bent = float((changes > 0).mean()) if len(changes) else 0.0
    by_depth = ", ".join(
        f"L = {L}: {pool(select(nsd, L=L), 'stack_changes').mean():.2f}"
        for L in SIZES
        if len(select(nsd, L=L))
    )
    verdict = CONFIRMED if bent < 0.05 else REFUTED if bent > 0.5 else PARTLY
    evidence = (
        f"the response Π r(λ) of trained NSD stacks (maps fixed, no φ) is not monotone in {bent:.0%} of "
        f"{len(changes)} runs, with {Mean.of(changes)} changes between rising and falling ({by_depth}); "
        f"PolyNSD with K = 3: {Mean.of(others)}"
    )
    found = Finding(verdict, evidence, number=f"{bent:.0%} are not monotone")
    return found.require(len(nsd), len(PANELS) * GRID, "cells of NSD")


@check("C44")
def check_energy(records: DataFrame) -> Finding:
    """Slope of the quotient in NSD, and NSD − PolyNSD in level, for two graphs and three families."""
    cells = complete_cells(records, "energy")
    rising = lower = falling = higher = 0
    texts = []
    for dataset, maps in PANELS:
        nsd, poly = (select(cells, dataset=dataset, model=f"{kind}-{maps}") for kind in ("nsd", "polynsd"))
        if not len(nsd) or not len(poly):
            continue
        slope = Mean.of(slopes(curves(nsd, "own", without=1)))
        ours, theirs = (np.array([c.mean() for c in curves(each, "own", without=1)]) for each in (poly, nsd))
        gap = Mean.of(theirs - ours) if len(ours) == len(theirs) else Mean.of(np.zeros(0))
        probe = [pool_mean(each, "probe") for each in (nsd, poly)]
        rising, falling = rising + (slope.low > 0), falling + (slope.high < 0)
        lower, higher = lower + (gap.low > 0), higher + (gap.high < 0)
        texts.append(
            f"{dataset} {maps}: slope of NSD {slope.mean:+.3g}, level NSD {theirs.mean():.3g}, PolyNSD "
            f"{ours.mean():.3g}; at the published place {probe[0]:.3g} and {probe[1]:.3g}"
        )
    evidence = "; ".join(texts)
    parts = (
        Finding(judge_counts(rising, falling, len(PANELS)), f"NSD rises in {rising}, falls in {falling} of "
                f"{len(PANELS)} panels", number=f"NSD rises in {rising} of {len(PANELS)} panels"),
        Finding(judge_counts(lower, higher, len(PANELS)), f"PolyNSD is lower in {lower}, higher in {higher} "
                f"({evidence})"),
    )  # fmt: skip
    count = sum(len(select(cells, model=f"{kind}-{m}")) for kind in ("nsd", "polynsd") for m in FAMILIES)
    return combine(*(part.require(count, 2 * GRID * len(PANELS), "cells") for part in parts))


def pool_mean(cells: DataFrame, name: str) -> float:
    """The mean over all layers and models."""
    return float(np.concatenate([*series(cells, name, first=1), np.zeros(0)]).mean())


@check("C45")
def check_influence(records: DataFrame) -> Finding:
    """PolyNSD against NSD beyond five hops, as printed, at equal reach and at equal cost."""
    cells = complete_cells(records, "influence")
    graphs = list(dict.fromkeys(cells["dataset"]))
    printed = [
        far_ratio(cells, dataset, f"polynsd-{maps}", f"nsd-{maps}") for dataset in graphs for maps in FAMILIES
    ]
    pairs = {
        "one layer of degree 10 against 10 layers of NSD": ("polynsd-diagonal 1 layer", "nsd-diagonal"),
        "6 layers of degree 10 against 60 layers of NSD": ("polynsd-diagonal", "nsd-diagonal 60 layers"),
    }
    matched = {
        words: [far_ratio(cells, dataset, ours, theirs) for dataset in graphs]
        for words, (ours, theirs) in pairs.items()
    }
    as_printed = [ratio for ratio in printed if np.isfinite(ratio)]
    wide = sum(ratio >= ORDER for ratio in as_printed)
    equal = [ratio for ratios in matched.values() for ratio in ratios if np.isfinite(ratio)]
    still = sum(ratio >= ORDER for ratio in equal)
    listed = "; ".join(f"{words}: {_ratios(ratios)}" for words, ratios in matched.items())
    first = Finding(
        judge_counts(wide, len(as_printed) - wide, len(as_printed)),
        f"I(d)/I(0) at {FAR} to {DISTANCES} hops, PolyNSD (6 layers, K = 10) over NSD (10 layers): at least "
        f"{ORDER:g} times in {wide} of {len(as_printed)} cells ({_ratios(as_printed)})",
    )
    second = Finding(
        judge_counts(still, len(equal) - still, len(equal)),
        f"with reach matched it is {ORDER:g} times in {still} of {len(equal)} ({listed})",
        is_decisive=True,
        number=f"{ORDER:g} times in {still} of {len(equal)} at equal reach",
    )
    return combine(
        first.require(len(as_printed), 3 * len(FAMILIES), "pairs of one family", share=0.6),
        second.require(len(equal), 6, "pairs of equal reach", share=0.6),
    )


def far_ratio(cells: DataFrame, dataset: str, ours: str, theirs: str) -> float:
    """Geometric mean over seeds and distances from `FAR` on of relative influence, ours over theirs."""
    logs = []
    for model in (ours, theirs):
        chosen = select(cells, dataset=dataset, model=model)
        values = np.concatenate([*series(chosen, "mean", FAR, DISTANCES), np.zeros(0)])
        values = values[values > 0]
        logs.append(np.log(values).mean() if len(values) else np.nan)
    return float(np.exp(logs[0] - logs[1]))


def _ratios(ratios: list[float]) -> str:
    return ", ".join(f"{ratio:.2g}" for ratio in ratios)


@check("C63")
def check_specialisation(records: DataFrame) -> Finding:
    """Slopes over five layers of norm, separation and kurtosis, beside untrained and shuffled controls."""
    cells = select(complete_cells(records, "maps"), model="polynsd-diagonal")
    parts = []
    for name in SPECIALISED:
        grows = falls = total = beyond = 0
        texts = []
        for dataset in dict.fromkeys(cells["dataset"]):
            chosen = select(cells, dataset=dataset)
            own, *controls = (
                Mean.of(slopes(curves(chosen, f"{prefix}{name}", first=1)))
                for prefix in ("", "untrained_", "shuffled_")
            )
            grows, falls, total = grows + (own.low > 0), falls + (own.high < 0), total + 1
            beyond += own.low > max(control.mean for control in controls)
            texts.append(
                f"{dataset} {own.mean:+.3g} per layer (untrained {controls[0].mean:+.3g}, shuffled labels "
                f"{controls[1].mean:+.3g})"
            )
        verdict = PARTLY if grows else UNDECIDED
        if total and total in (beyond, falls):
            verdict = CONFIRMED if beyond == total else REFUTED
        number = f"{name} grows beyond its controls on {beyond} of {total}"
        part = Finding(verdict, f"{name}: {'; '.join(texts)}", number=number)
        parts.append(part.require(total, 2, "graphs", share=1.0))
    return combine(*parts)
