"""NSD against PolyNSD at equal cost: both swept over sizes, both chosen on validation. (C05, C49 to C52)"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from polynsd.stats import Comparison
from polynsd_paper.claims.claim import (
    CONFIRMED,
    PARTLY,
    REFUTED,
    UNDECIDED,
    Finding,
    check,
    combine,
)
from polynsd_paper.claims.comparisons import (
    compare_options,
    complete_cells,
    datasets_of,
    format_percent,
    having,
    select,
)
from polynsd_paper.claims.gaps import Gaps, gap_evidence
from polynsd_paper.experiments.models import FAMILIES
from polynsd_paper.experiments.sweeps import DEGREES, LAYERS, NSD_VS_POLY, WIDTHS
from polynsd_paper.tables.leaderboards import best_on_validation, compare_cells

if TYPE_CHECKING:
    from pandas import DataFrame, Series

HETEROPHILIC = ("chameleon", "squirrel")
LARGE = 10**6  # parameters with which NSD may win on squirrel, by C52
GAIN, NEAR_TWENTY = 0.06, 0.15

Filter = Callable[["DataFrame"], "DataFrame"]


class SizePair(NamedTuple):
    """PolyNSD with two layers and the best K, and an NSD, on one dataset with one family of maps."""

    dataset: str
    maps: str
    poly: Series
    nsd: Series
    gap: Comparison


def compare_with_nsd(
    records: DataFrame, among: Filter = lambda cells: cells, datasets: Sequence[str] = ()
) -> list[SizePair]:
    """Two layers of PolyNSD with the best K against the best of some NSDs with the same maps."""
    cells = complete_cells(records, "nsd-vs-poly")
    pairs = []
    for dataset in datasets or datasets_of(cells):
        for maps in FAMILIES:
            here = select(cells, dataset=dataset)
            poly = best_on_validation(having(select(here, model=f"polynsd-{maps}"), "K"))
            nsd = best_on_validation(among(select(here, model=f"nsd-{maps}")))
            gap = compare_cells(poly, nsd)
            if poly is not None and nsd is not None and gap is not None:
                pairs.append(SizePair(dataset, maps, poly, nsd, gap))
    return pairs


def _gaps(pairs: Sequence[SizePair]) -> Gaps:
    return Gaps(pair.gap for pair in pairs)


def _parameter_ratios(pairs: Sequence[SizePair]) -> list[float]:
    return [pair.poly["parameters"] / pair.nsd["parameters"] for pair in pairs]


def _judge_less(ratios: Sequence[float], what: str) -> Finding:
    """Whether PolyNSD needs less than NSD in the median."""
    if not ratios:
        return Finding(UNDECIDED, f"{what}: needs pairs on one device")
    ratio = median(ratios)
    text = f"median ratio of {what} {ratio:.2f}"
    return Finding(CONFIRMED if ratio < 1 else REFUTED, text, number=text)


@check("C05")
def check_trade_off(records: DataFrame) -> Finding:
    """Accuracy, parameters and seconds against the best NSD of any size; accuracy at equal products."""
    pairs = compare_with_nsd(records)
    degrees = [K for K in DEGREES if 2 * K in LAYERS]  # two layers of degree K against 2K layers of NSD
    products = compare_options(
        complete_cells(records, "nsd-vs-poly"),
        (
            ({"model": f"polynsd-{maps}", "K": K}, {"model": f"nsd-{maps}", "layers": 2 * K})
            for maps in FAMILIES
            for K in degrees
        ),
    )
    same = [pair for pair in pairs if pair.poly["device"] == pair.nsd["device"] and pair.nsd["seconds"]]
    seconds = [pair.poly["seconds"] / pair.nsd["seconds"] for pair in same]
    title = "two layers of PolyNSD − NSD of the best depth and width"
    parts = (
        _gaps(pairs).judge_as_good(title, is_decisive=True),
        _judge_less(_parameter_ratios(pairs), "parameters"),
        _judge_less(seconds, f"training time ({len(same)} pairs, each on one device)"),
    )
    equal = products.judge_mostly_better("at equal numbers of products, PolyNSD − NSD", is_decisive=True)
    equal = replace(equal, evidence=f"{equal.evidence}. Memory: C26")
    total = len(FAMILIES) * len(NSD_VS_POLY.datasets)
    return combine(
        *(part.require(len(pairs), total, "cells") for part in parts),
        equal.require(len(products), total * len(degrees), "pairs of equal products"),
    )


@check("C49")
def check_best_depth(records: DataFrame) -> Finding:
    """Against NSD of the best depth: equal on pubmed with fewer parameters, 6 to 13 points on the others."""
    pubmed, others = (
        compare_with_nsd(records, lambda cells: having(cells, "layers"), datasets)
        for datasets in (("pubmed",), HETEROPHILIC)
    )
    gains = _gaps(others)
    title = "PolyNSD − NSD of the best depth, chameleon and squirrel"
    always, mostly = gains.judge_always_better(title), gains.judge_mostly_better(title)
    is_enough = always.verdict == CONFIRMED and min(gap.difference for gap in gains.gaps) >= GAIN
    listed = ", ".join(f"{pair.dataset} {pair.maps} {gap_evidence(pair.gap)}" for pair in others)
    main = Finding(
        CONFIRMED if is_enough else PARTLY if mostly.verdict == CONFIRMED else mostly.verdict,
        f"{mostly.evidence}; {listed}",
        is_decisive=True,
        number=gains.number,
    )
    on_pubmed = (
        _gaps(pubmed).judge_as_good("pubmed"),
        _judge_less(_parameter_ratios(pubmed), "parameters on pubmed"),
    )
    return combine(
        main.require(len(gains), 2 * len(FAMILIES), "cells of chameleon and squirrel"),
        *(part.require(len(pubmed), len(FAMILIES), "cells of pubmed") for part in on_pubmed),
    )


def _two_layers(cells: DataFrame) -> DataFrame:
    return select(cells, layers=2)


@check("C50")
def check_equal_depth(records: DataFrame) -> Finding:
    """Against NSD with two layers: whether there is a gain, and whether the largest is near 20 points."""
    pairs = compare_with_nsd(records, _two_layers, HETEROPHILIC)
    title = "PolyNSD − NSD, both with two layers (not equal reach)"
    parts = [_gaps(pairs).judge_mostly_better(title, is_decisive=True)]
    if pairs:
        best = max(pairs, key=lambda pair: pair.poly["mean"] - pair.nsd["mean"])
        is_near = best.gap.difference >= NEAR_TWENTY and best.gap.low > 0
        evidence = (
            f"largest of {len(pairs)} gaps {gap_evidence(best.gap)} ({best.dataset}, {best.maps}: "
            f"{format_percent(best.poly)} against {format_percent(best.nsd)}); near 20 means "
            f"{100 * NEAR_TWENTY:g} or more"
        )
        is_excluded = best.gap.high < NEAR_TWENTY
        parts.append(Finding(CONFIRMED if is_near else REFUTED if is_excluded else UNDECIDED, evidence))
    return combine(*(part.require(len(pairs), 2 * len(FAMILIES), "cells") for part in parts))


@check("C51")
def check_widest(records: DataFrame) -> Finding:
    """Accuracy and parameters against the widest NSD, and accuracy against NSD as narrow as PolyNSD."""
    datasets, total = ("pubmed", "chameleon"), 2 * len(FAMILIES)
    pairs = compare_with_nsd(records, lambda cells: select(cells, hidden=WIDTHS[-1]), datasets)
    narrow = _gaps(compare_with_nsd(records, _two_layers, datasets))
    shares = [100 * ratio for ratio in _parameter_ratios(pairs)] or [0.0]
    size = Finding(
        CONFIRMED if max(shares) <= 20 else REFUTED,
        f"PolyNSD has {min(shares):.1f} to {max(shares):.1f} % of its parameters",
    )
    return combine(
        _gaps(pairs).judge_as_good(f"PolyNSD − NSD of width {WIDTHS[-1]}", total, is_decisive=True),
        size.require(len(pairs), total, "cells"),
        narrow.judge_mostly_better("PolyNSD − NSD of the same width and depth", total, is_decisive=True),
    )


@check("C52")
def check_equal_size(records: DataFrame) -> Finding:
    """For every NSD on squirrel the best PolyNSD of at most its size; how large the NSDs are that win."""
    cells = select(complete_cells(records, "nsd-vs-poly"), dataset="squirrel")
    comparisons, winners = [], []
    for maps in FAMILIES:
        ours = select(cells, model=f"polynsd-{maps}")
        narrow = best_on_validation(having(ours, "K"))
        for _, nsd in select(cells, model=f"nsd-{maps}").iterrows():
            small = ours[ours["parameters"] <= 1.001 * nsd["parameters"]]
            comparisons.append(compare_cells(best_on_validation(small), nsd))
            gap = compare_cells(narrow, nsd)
            winners += [nsd["parameters"]] if gap is not None and gap.high < 0 else []
    gaps, total = Gaps(comparisons), len(FAMILIES) * (len(LAYERS) + len(WIDTHS) - 1)
    title = "best PolyNSD on validation of at most the size − NSD, for every NSD on squirrel"
    smaller = sum(size < LARGE for size in winners)
    large = Finding(
        REFUTED if smaller else CONFIRMED,
        f"{len(winners)} NSDs beat two narrow layers of PolyNSD, {smaller} of them with fewer than 10⁶ "
        "parameters",
    )
    return combine(
        gaps.judge_always_better(title, total, is_decisive=True),
        large.require(len(gaps), total, "cells", has_counterexample=smaller > 0),
    )
