"""NSD against PolyNSD at what they cost: both swept, both chosen on validation. (C05, C49 to C52)"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from polynsd_paper.boards import best_on_validation
from polynsd_paper.claims.claim import (
    CONFIRMED,
    NOT_TESTABLE,
    PARTLY,
    REFUTED,
    Claim,
    Evidence,
    Finding,
)
from polynsd_paper.claims.parts import LEAST, Part, combine, covered, universal
from polynsd_paper.claims.readers import Table, compared, percent
from polynsd_paper.claims.tally import Gap, Tally
from polynsd_paper.experiments.models import FAMILIES
from polynsd_paper.experiments.sweeps import DEGREES, LAYERS, NSD_VS_POLY, WIDTHS
from polynsd_paper.records import Record

NEEDS = ("nsd-vs-poly",)
HETEROPHILIC = ("chameleon", "squirrel")
EVERYWHERE = len(FAMILIES) * len(NSD_VS_POLY.datasets)
LARGE = 10**6  # parameters with which NSD may win on squirrel
GAIN, NEAR_TWENTY = 0.06, 0.15

Rivals = Callable[[Table, str, str], Sequence[Record]]


class Pair(NamedTuple):
    """PolyNSD with two layers and the best K, and a rival, on one dataset with one family."""

    dataset: str
    maps: str
    poly: Record
    rival: Record

    @property
    def gap(self) -> Gap | None:
        """Over splits."""
        return compared(self.poly, self.rival)


def pairs(evidence: Evidence, rivals: Rivals, *datasets: str) -> list[Pair]:
    """With NSD of the same maps, best on validation among these rivals; those that can be compared."""
    table = Table.of(evidence, "nsd-vs-poly")
    return [
        pair
        for dataset in datasets or table.datasets
        for maps in FAMILIES
        if (poly := best_on_validation(table.having(dataset, "K", model=f"polynsd-{maps}"))) is not None
        and (rival := best_on_validation(rivals(table, dataset, f"nsd-{maps}"))) is not None
        and (pair := Pair(dataset, maps, poly, rival)).gap is not None
    ]


def _any(table: Table, dataset: str, model: str) -> Sequence[Record]:
    return table.where(dataset, model=model)


def _any_depth(table: Table, dataset: str, model: str) -> Sequence[Record]:
    return table.having(dataset, "layers", model=model)


def _two_layers(table: Table, dataset: str, model: str) -> Sequence[Record]:
    return table.where(dataset, model=model, layers=2)


def _widest(table: Table, dataset: str, model: str) -> Sequence[Record]:
    return table.where(dataset, model=model, hidden=WIDTHS[-1])


def _tally(found: Sequence[Pair]) -> Tally:
    return Tally.of(pair.gap for pair in found)


def _less(ratios: Sequence[float], what: str) -> Part:
    """Whether PolyNSD needs less in the median."""
    if not ratios:
        return Part(NOT_TESTABLE, f"{what}: needs pairs on one device")
    return Part(CONFIRMED if median(ratios) < 1 else REFUTED, f"median ratio of {what} {median(ratios):.2f}")


def pareto(evidence: Evidence) -> Finding:
    """Accuracy, parameters and seconds against the best NSD of any size; accuracy at equal products."""
    found = pairs(evidence, _any)
    tally, products = _tally(found), Tally.of(_equal_products(Table.of(evidence, "nsd-vs-poly")))
    same = [pair for pair in found if pair.poly.device == pair.rival.device and pair.rival.seconds]
    parts = (
        Part(
            tally.keeps_up(),
            f"two layers of PolyNSD − NSD of the best depth and width: {tally.not_worse}",
            True,
        ),
        _less([pair.poly.parameters / pair.rival.parameters for pair in found], "parameters"),
        _less(
            [pair.poly.seconds / pair.rival.seconds for pair in same],
            f"training time ({len(same)} pairs, each on one device)",
        ),
    )
    equal = Part(
        products.mostly, f"at equal numbers of products: PolyNSD − NSD {products}. Memory: C26", True
    )
    return combine(
        *(covered(part, len(found), EVERYWHERE, "cells") for part in parts),
        covered(
            equal,
            len(products),
            EVERYWHERE * sum(2 * K in LAYERS for K in DEGREES),
            "pairs of equal products",
        ),
    )


def _equal_products(table: Table) -> Iterator[Gap | None]:
    """Two layers of degree K against 2K layers of NSD, wherever there are so many."""
    for dataset in table.datasets:
        for maps in FAMILIES:
            for K in DEGREES:
                if 2 * K in LAYERS:
                    ours = table.find(dataset, model=f"polynsd-{maps}", K=K)
                    yield compared(ours, table.find(dataset, model=f"nsd-{maps}", layers=2 * K))


def best_depth(evidence: Evidence) -> Finding:
    """Against NSD of the best depth: equal on pubmed with fewer parameters, 6 to 13 points on the others."""
    same, other = pairs(evidence, _any_depth, "pubmed"), pairs(evidence, _any_depth, *HETEROPHILIC)
    equal, gains = _tally(same), _tally(other)
    enough = gains.always == CONFIRMED and min(pair.gap.difference for pair in other if pair.gap) >= GAIN
    main = Part(
        CONFIRMED if enough else REFUTED if gains.mostly == REFUTED else PARTLY,
        f"PolyNSD − NSD of the best depth, chameleon and squirrel: {gains}; {_gaps(other)}",
        decisive=True,
    )
    kept = Part(equal.keeps_up(), f"pubmed: {equal.not_worse}")
    size = _less([pair.poly.parameters / pair.rival.parameters for pair in same], "parameters on pubmed")
    return combine(
        covered(main, len(gains), 2 * len(FAMILIES), "cells of chameleon and squirrel"),
        *(covered(part, len(equal), len(FAMILIES), "cells of pubmed") for part in (kept, size)),
    )


def _gaps(found: Sequence[Pair]) -> str:
    return ", ".join(f"{pair.dataset} {pair.maps} {pair.gap}" for pair in found)


def equal_depth(evidence: Evidence) -> Finding:
    """Against NSD with two layers: is there a gain, and does the largest come near 20 points?"""
    found = pairs(evidence, _two_layers, *HETEROPHILIC)
    tally = _tally(found)
    main = Part(
        tally.mostly, f"PolyNSD − NSD, both with two layers (not equal reach): {tally}", decisive=True
    )
    return combine(
        *(covered(part, len(tally), 2 * len(FAMILIES), "cells") for part in (main, _largest(found)))
    )


def _largest(found: Sequence[Pair]) -> Part:
    best = max(found, key=lambda pair: pair.poly.mean - pair.rival.mean, default=None)
    if best is None or best.gap is None:
        return Part(NOT_TESTABLE, "none")
    near = best.gap.difference >= NEAR_TWENTY and best.gap.low > 0
    return Part(
        CONFIRMED if near else REFUTED,
        f"largest of {len(found)} gaps {best.gap} ({best.dataset}, {best.maps}: {percent(best.poly)} against "
        f"{percent(best.rival)}); near 20 means {100 * NEAR_TWENTY:g} or more",
    )


def widest(evidence: Evidence) -> Finding:
    """Accuracy and parameters against the widest NSD, and accuracy against NSD as narrow as PolyNSD."""
    found = pairs(evidence, _widest, "pubmed", "chameleon")
    tally, narrow = _tally(found), _tally(pairs(evidence, _two_layers, "pubmed", "chameleon"))
    shares = [100 * pair.poly.parameters / pair.rival.parameters for pair in found] or [0.0]
    parts = (
        Part(tally.keeps_up(), f"PolyNSD − NSD of width {WIDTHS[-1]}: {tally.not_worse}", decisive=True),
        Part(
            CONFIRMED if max(shares) <= 20 else REFUTED,
            f"PolyNSD has {min(shares):.1f} to {max(shares):.1f} % of its parameters",
        ),
    )
    own = Part(narrow.mostly, f"PolyNSD − NSD of its own width and depth: {narrow}", decisive=True)
    return combine(
        *(covered(part, len(tally), 2 * len(FAMILIES), "cells") for part in parts),
        covered(own, len(narrow), 2 * len(FAMILIES), "cells"),
    )


def equal_size(evidence: Evidence) -> Finding:
    """On squirrel: for every NSD the best PolyNSD of at most its size; how large the NSDs are that win."""
    table = Table.of(evidence, "nsd-vs-poly")
    gaps, winners = [], []
    for maps in FAMILIES:
        ours = table.where("squirrel", model=f"polynsd-{maps}")
        narrow = best_on_validation(table.having("squirrel", "K", model=f"polynsd-{maps}"))
        for rival in table.where("squirrel", model=f"nsd-{maps}"):
            small = [record for record in ours if record.parameters <= 1.001 * rival.parameters]
            gaps.append(compared(best_on_validation(small), rival))
            against = compared(narrow, rival)
            winners += [rival.parameters] if against is not None and against.high < 0 else []
    tally, whole = Tally.of(gaps), len(FAMILIES) * (len(LAYERS) + len(WIDTHS) - 1)
    main = Part(
        tally.always,
        f"best PolyNSD on validation of at most the size − NSD, for every NSD on squirrel: {tally}",
        decisive=True,
    )
    smaller = sum(size < LARGE for size in winners)
    large = Part(
        REFUTED if smaller else CONFIRMED,
        f"{len(winners)} NSDs beat two narrow layers of PolyNSD, {smaller} of them with fewer than 10⁶ "
        "parameters",
    )
    return combine(
        universal(main, len(tally), whole, "cells", counterexample=tally.has_counterexample, least=LEAST),
        universal(large, len(tally), whole, "cells", counterexample=smaller > 0, least=LEAST),
    )


CLAIMS = (
    Claim("C05", "PolyNSD has the better trade-off of accuracy, size and time.", "efficiency", pareto, NEEDS),
    Claim(
        "C49",
        "Two layers match the best NSD depth on PubMed, with fewer parameters, and gain 6 to 13 points "
        "elsewhere.",
        "efficiency",
        best_depth,
        NEEDS,
    ),
    Claim("C50", "At two layers each, up to 20 points are gained.", "efficiency", equal_depth, NEEDS),
    Claim(
        "C51",
        "PubMed and Chameleon: as good as the widest NSD with 1 to 20 % of its parameters.",
        "efficiency",
        widest,
        NEEDS,
    ),
    Claim(
        "C52",
        "Squirrel: NSD wins only with 10⁶ parameters or more; at equal or smaller size PolyNSD is always "
        "better.",
        "efficiency",
        equal_size,
        NEEDS,
    ),
)
