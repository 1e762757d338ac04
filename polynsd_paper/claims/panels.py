"""Synthetic panels: five graphs per cell, over which differences are paired. (C66 to C68)

In every cell each architecture has the maps or variant that is best on validation; the rival of PolyNSD is
the other architecture with the greatest test mean.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from polynsd_paper.boards import best_on_validation, group_of
from polynsd_paper.claims.claim import CONFIRMED, PARTLY, REFUTED, Claim, Evidence, Finding
from polynsd_paper.claims.parts import Part, combine, covered
from polynsd_paper.claims.readers import Table, best_other, methods
from polynsd_paper.claims.tally import CHANCE, MARGIN, Gap, Tally, none_beyond, over_graphs
from polynsd_paper.experiments.synthetic import PANELS
from polynsd_paper.records import Record

SATURATED = 0.98


class Cell(NamedTuple):
    """A setting of a panel: PolyNSD, its rival, and all records."""

    panel: str
    setting: dict[str, float]
    ours: Record
    rival: Record
    rows: list[Record]

    def get(self, *models: str) -> Record | None:
        """The best on validation of these models."""
        return best_on_validation([one for one in self.rows if one.cell["model"] in models])


def _cells(evidence: Evidence, panel: str) -> list[Cell]:
    """Of the panels whose name begins so, settings that have PolyNSD and others."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in Table.of(evidence, "synthetic").records:
        if record.dataset in PANELS and record.dataset.startswith(panel):
            groups.setdefault((record.dataset, str(record.cell["setting"])), []).append(record)
    return [
        Cell(name, _numbers(setting), ours, rival, rows)
        for (name, setting), rows in groups.items()
        if (ours := methods(rows).get("polynsd")) is not None and (rival := best_other(rows)) is not None
    ]


def _numbers(setting: str) -> dict[str, float]:
    """`C=2 heterophily=0.5` as numbers."""
    return {name: float(value) for name, _, value in (word.partition("=") for word in setting.split())}


def _whole(panel: str) -> int:
    return sum(len(grid) for name, grid in PANELS.items() if name.startswith(panel))


def _gap(first: Record | None, second: Record | None) -> Gap | None:
    if first is None or second is None or len(first.by_split()) != len(second.by_split()):
        return None
    return over_graphs(first.by_split().mean(1), second.by_split().mean(1))


def _against_rivals(cells: Iterable[Cell]) -> Tally:
    return Tally.of(_gap(cell.ours, cell.rival) for cell in cells)


def heterophily_sweep(evidence: Evidence) -> Finding:
    """PolyNSD against the best other architecture; GCN against the MLP at both ends."""
    cells = _cells(evidence, "heterophily")
    tally = _against_rivals(cells)
    first = Part(tally.mostly, f"PolyNSD − the best other architecture: {tally}", decisive=True)
    ends = [_gcn_and_mlp(cells, level) for level in (0.0, 1.0)]
    start = Part(ends[0].mostly, f"GCN − MLP at het = 0: {ends[0]}")
    sunk = Tally.of(Gap(-gap.difference, -gap.high, -gap.low) for gap in ends[1].gaps)
    end = Part(sunk.keeps_up(), f"MLP − GCN at het = 1: {sunk.not_worse}", decisive=True)
    return combine(
        covered(first, len(tally), _whole("heterophily"), "cells"),
        covered(start, len(ends[0]), 8, "cells of GCN and MLP at het = 0"),
        covered(end, len(sunk), 8, "cells of GCN and MLP at het = 1"),
    )


def _gcn_and_mlp(cells: Iterable[Cell], level: float) -> Tally:
    here = [cell for cell in cells if cell.setting.get("heterophily") == level]
    return Tally.of(_gap(cell.get("gcn"), cell.get("mlp")) for cell in here)


def amount_of_data(evidence: Evidence) -> Finding:
    """Is PolyNSD anywhere clearly below 98 %, and are the others lower?"""
    cells = _cells(evidence, "amount")
    tally = _against_rivals(cells)
    level = [
        over_graphs(one.ours.by_split().mean(1), [SATURATED] * len(one.ours.by_split())) for one in cells
    ]
    known = [gap for gap in level if gap is not None]
    means = [100 * cell.ours.mean for cell in cells] or [0.0]
    near = Part(
        none_beyond(known),
        f"PolyNSD has {min(means):.1f} to {max(means):.1f} %; below {SATURATED:.0%} by more than "
        f"{100 * MARGIN:g} points in {sum(gap.high < -MARGIN for gap in known)} of {len(known)} cells (95 %)",
        decisive=True,
    )
    lower = Part(tally.mostly, f"PolyNSD − the best other architecture: {tally}")
    return combine(*(covered(part, len(tally), _whole("amount"), "cells") for part in (near, lower)))


def noise_sweep(evidence: Evidence) -> Finding:
    """What noise costs PolyNSD and the best rival without noise; how they vary; which maps last longest."""
    cells = _cells(evidence, "noise")
    slopes = Tally.of(_less_lost(cells, cell) for cell in cells if cell.setting["noise"] > 0)
    maps = Tally.of(
        _gap(cell.get("polynsd-orthogonal", "polynsd-general"), cell.get("polynsd-diagonal"))
        for cell in cells
        if cell.setting["noise"] > 0
    )
    noisy = _whole("noise") - 2
    slower = Part(slopes.mostly, f"loss by noise of the best rival − of PolyNSD: {slopes}", decisive=True)
    longest = Part(maps.mostly, f"bundles and general maps − diagonal ones under noise: {maps}")
    return combine(
        covered(slower, len(slopes), noisy, "noisy cells"),
        covered(longest, len(maps), noisy, "noisy cells with two kinds of maps"),
        covered(_steadiness(cells), len(cells), _whole("noise"), "cells"),
    )


def _less_lost(cells: Iterable[Cell], cell: Cell) -> Gap | None:
    """Against the architecture that is the best rival where there is no noise."""
    clean = next((one for one in cells if one.panel == cell.panel and one.setting["noise"] == 0), None)
    rival = None if clean is None else methods(cell.rows).get(group_of(clean.rival.cell["model"]))
    if clean is None or rival is None:
        return None
    ours_lost, lost = (
        first.by_split().mean(1) - last.by_split().mean(1)
        for first, last in ((clean.ours, cell.ours), (clean.rival, rival))
    )
    return over_graphs(lost, ours_lost)


def _steadiness(cells: list[Cell]) -> Part:
    """By the sign test over cells: five graphs alone say little about a deviation."""
    from scipy.stats import binomtest

    pairs = [(cell.ours.std, cell.rival.std) for cell in cells if cell.ours.std != cell.rival.std]
    less = sum(ours < other for ours, other in pairs)
    sure = bool(pairs) and binomtest(less, len(pairs), 0.5, alternative="greater").pvalue < CHANCE
    verdict = CONFIRMED if sure else REFUTED if 2 * less <= len(pairs) else PARTLY
    return Part(verdict, f"PolyNSD varies less than the best rival in {less} of {len(pairs)} cells")


CLAIMS = (
    Claim(
        "C66",
        "Synthetic heterophily: GCN sinks to the MLP; PolyNSD stays on top.",
        "accuracy",
        heterophily_sweep,
        ("synthetic",),
    ),
    Claim(
        "C67",
        "Synthetic sizes: PolyNSD is near 98 % at all of them, others lower.",
        "accuracy",
        amount_of_data,
        ("synthetic",),
    ),
    Claim(
        "C68",
        "Synthetic noise: PolyNSD falls more slowly and varies less, bundles and general maps least.",
        "accuracy",
        noise_sweep,
        ("synthetic",),
    ),
)
