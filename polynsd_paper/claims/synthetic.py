"""Synthetic graphs: PolyNSD on the panels (C66 to C68), and the generator itself (C69).

A panel's cell has five graphs, over which differences are paired. In every cell each architecture has the
maps or variant that is best on validation, and the rival of PolyNSD is the other architecture that is. Noise
is judged by what it costs a model, its score without noise minus that with it, not by the level of the score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polynsd.data import Graph, heterophilous_graph, heterophily
from polynsd.stats import Difference
from polynsd_paper.claims.claim import (
    CONFIRMED,
    PARTLY,
    REFUTED,
    UNDECIDED,
    Finding,
    check,
    combine,
)
from polynsd_paper.claims.comparisons import best_rival, best_variants, compare_graphs, complete_cells, select
from polynsd_paper.claims.gaps import CHANCE, CLAIM_MARGIN, Gaps
from polynsd_paper.experiments.synthetic import PANELS
from polynsd_paper.tables.leaderboards import OURS, best_on_validation

if TYPE_CHECKING:
    from pandas import DataFrame, Series

SATURATED = 0.98
NODES, CLASSES, FEATURES, DEGREE = 500, 4, 4, 4  # of the generator's check

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PanelCell:
    """A setting of a panel: PolyNSD, its rival, and the rows of all models."""

    panel: str
    setting: dict[str, float]
    ours: Series
    rival: Series
    rows: DataFrame

    def best_of(self, *models: str) -> Series | None:
        """The best of these models on validation."""
        return best_on_validation(select(self.rows, model=models))


def _panel_cells(records: DataFrame, panel: str) -> list[PanelCell]:
    """Settings with PolyNSD and others, of the panels whose name starts so."""
    cells = complete_cells(records, "synthetic")
    cells = select(cells, dataset=[name for name in PANELS if name.startswith(panel)])
    settings = []
    for (name, setting), rows in cells.groupby(["dataset", "setting"], sort=False):
        ours, rival = best_variants(rows).get("polynsd"), best_rival(rows)
        if ours is not None and rival is not None:
            numbers = dict(word.split("=") for word in setting.split())  # "C=2 heterophily=0.5"
            settings.append(PanelCell(name, {k: float(v) for k, v in numbers.items()}, ours, rival, rows))
    return settings


def _count_settings(panel: str) -> int:
    return sum(len(grid) for name, grid in PANELS.items() if name.startswith(panel))


def _graph_means(cell: Series) -> Array:
    return np.asarray(cell["scores"]).mean(1)


def _compare(first: Series | None, second: Series | None) -> Difference | None:
    if first is None or second is None or len(first["scores"]) != len(second["scores"]):
        return None
    return compare_graphs(_graph_means(first), _graph_means(second))


@check("C66")
def check_heterophily(records: DataFrame) -> Finding:
    """PolyNSD against the best other architecture; GCN against the MLP at both ends."""
    cells = _panel_cells(records, "heterophily")
    ours = Gaps(_compare(cell.ours, cell.rival) for cell in cells)
    start, end = (
        Gaps(
            _compare(cell.best_of(first), cell.best_of(second))
            for cell in cells
            if cell.setting.get("heterophily") == level
        )
        for level, first, second in ((0.0, "gcn", "mlp"), (1.0, "mlp", "gcn"))
    )
    total = _count_settings("heterophily")
    blind = [cell.best_of("mlp") for cell in cells]
    above = [
        row["mean"] - 1 / cell.setting["C"] for row, cell in zip(blind, cells, strict=True) if row is not None
    ]
    note = f"; the MLP is {100 * fmean(above):.0f} points above chance on average" if above else ""
    found = combine(
        ours.judge_mostly_better("PolyNSD − the best other architecture", total, is_decisive=True),
        start.judge_mostly_better("GCN − MLP at het = 0", 8, "cells of GCN and MLP at het = 0"),
        end.judge_as_good("MLP − GCN at het = 1", 8, "cells of GCN and MLP at het = 1", is_decisive=True),
    )
    return replace(found, evidence=found.evidence + note)


@check("C67")
def check_sizes(records: DataFrame) -> Finding:
    """Whether PolyNSD is anywhere clearly below 98 %, and whether the others are lower."""
    cells = _panel_cells(records, "amount")
    gaps = Gaps(_compare(cell.ours, cell.rival) for cell in cells)
    ours = [_graph_means(cell.ours) for cell in cells]
    levels = Gaps(compare_graphs(means, np.full(len(means), SATURATED)) for means in ours)
    means = [100 * cell.ours["mean"] for cell in cells] or [0.0]
    near = Finding(
        {True: CONFIRMED, False: REFUTED, None: UNDECIDED}[levels.is_never_lower()],
        f"PolyNSD has {min(means):.1f} to {max(means):.1f} %; below {SATURATED:.0%} by more than "
        f"{100 * CLAIM_MARGIN:g} points in {levels.lower} of {len(levels)} cells (Holm-adjusted)",
        is_decisive=True,
        number=f"{min(means):.0f} to {max(means):.0f} %",
    )
    total = _count_settings("amount")
    return combine(
        near.require(len(gaps), total, "cells"),
        gaps.judge_mostly_better("PolyNSD − the best other architecture", total),
    )


@check("C68")
def check_noise(records: DataFrame) -> Finding:
    """What noise costs PolyNSD and its rival without noise; which maps it costs least; how they vary."""
    cells, total = _panel_cells(records, "noise"), _count_settings("noise")
    clean = {cell.panel: cell for cell in cells if cell.setting["noise"] == 0}
    pairs = [(clean[cell.panel], cell) for cell in cells if cell.setting["noise"] > 0 and cell.panel in clean]
    losses = Gaps(
        _compare_losses(without, noisy, [without.rival["model"]], list(OURS)) for without, noisy in pairs
    )
    maps = Gaps(_compare_losses(without, noisy, [OURS[0]], list(OURS[1:])) for without, noisy in pairs)
    return combine(
        losses.judge_mostly_better(
            "loss by noise of the rival − of PolyNSD", total - 2, "noisy cells", is_decisive=True
        ),
        maps.judge_mostly_better(
            "loss by noise of diagonal maps − of bundles and general ones",
            total - 2,
            "noisy cells with two kinds of maps",
        ),
        _judge_deviations(cells).require(len(cells), total, "cells"),
    )


def _compare_losses(
    without: PanelCell, noisy: PanelCell, first: Sequence[str], second: Sequence[str]
) -> Difference | None:
    """What noise costs the first − what it costs the second, each chosen by validation without noise."""
    losses = []
    for models in (first, second):
        start = without.best_of(*models)
        end = None if start is None else noisy.best_of(start["model"])
        if start is None or end is None or len(start["scores"]) != len(end["scores"]):
            return None
        losses.append(_graph_means(start) - _graph_means(end))
    return compare_graphs(*losses)


def _judge_deviations(cells: list[PanelCell]) -> Finding:
    """By the sign test over cells: five graphs alone say little about a deviation."""
    from scipy.stats import binomtest

    pairs = [(cell.ours["std"], cell.rival["std"]) for cell in cells]
    pairs = [(ours, rival) for ours, rival in pairs if ours != rival]
    less = sum(ours < rival for ours, rival in pairs)
    is_sure = bool(pairs) and binomtest(less, len(pairs), 0.5, alternative="greater").pvalue < CHANCE
    is_false = bool(pairs) and binomtest(less, len(pairs), 0.5, alternative="less").pvalue < CHANCE
    verdict = CONFIRMED if is_sure else REFUTED if is_false else UNDECIDED
    return Finding(verdict, f"PolyNSD varies less than its rival in {less} of {len(pairs)} cells")


@check("C69")
def check_generator() -> Finding:
    """Degree, inter-class share and class means of the corrected and of the published generator."""
    ours, published = measure_generator(legacy=False), measure_generator(legacy=True)
    ring = measure_generator(legacy=True, edge_noise=0.5)
    evidence = (
        f"N = {NODES}, degree {DEGREE}, {CLASSES} classes, het = 0, 0.5, 0.9, 1. Published generator, every "
        f"edge rewired: degree {published['degree']:.2f}, share off by up to {published['share']:.3f}, "
        f"squared distance of class means {published['means']:.1f} times that of chance; with half of the "
        f"ring kept (p = 0.5) the share is off by {ring['share']:.2f}. Ours: degree {ours['degree']:.2f}, "
        f"share off by {ours['share']:.3f}, means {ours['means']:.1f} times chance"
    )
    holds = published["degree"] > DEGREE - 0.01 and published["share"] < 0.02 and published["means"] < 2
    number = f"class means {published['means']:.1f} times as far apart as by chance"
    return Finding(CONFIRMED if holds else PARTLY, evidence, number=number)


def measure_generator(legacy: bool, edge_noise: float = 0.0) -> dict[str, float]:
    """Mean degree, largest error of the inter-class share, mean `class_distance_ratio` over 24 graphs."""
    degrees, shares, means = [], [], []
    for number, level in enumerate((0.0, 0.5, 0.9, 1.0)):
        graphs = [
            heterophilous_graph(
                NODES,
                CLASSES,
                FEATURES,
                DEGREE,
                level,
                edge_noise=edge_noise,
                seed=100 * number + i,
                legacy=legacy,
            )
            for i in range(6)
        ]
        degrees += [2 * graph.num_edges / NODES for graph in graphs]
        shares.append(abs(float(np.mean([heterophily(graph) for graph in graphs])) - level))
        means += [class_distance_ratio(graph) for graph in graphs]
    return {"degree": float(np.mean(degrees)), "share": max(shares), "means": float(np.mean(means))}


def class_distance_ratio(graph: Graph) -> float:
    """Squared distances of class means over what they are by chance, about 1 where all share one mean.

    Σ_{c<c'} ‖μ_c − μ_c'‖² / Σ (s_c²/n_c + s_c'²/n_c')
    """
    x = graph.x.astype(np.float64)
    groups = [x[graph.y == c] for c in range(CLASSES)]
    means = np.stack([group.mean(0) for group in groups])
    noise = np.array([group.var(0, ddof=1).sum() / len(group) for group in groups])
    squared = ((means[:, None] - means[None]) ** 2).sum(-1)
    upper = np.triu_indices(CLASSES, 1)
    return float(squared[upper].sum() / (noise[:, None] + noise[None])[upper].sum())
