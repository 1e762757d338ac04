"""NSD against PolyNSD at what they cost: both swept, both chosen on validation. (C05, C49 to C52)"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

from polynsd.experiments.claims.claim import (
    CONFIRMED,
    PARTLY,
    REFUTED,
    Claim,
    Evidence,
    Finding,
    NothingToReadError,
)
from polynsd.experiments.claims.readers import (
    FAMILIES,
    Table,
    Tally,
    chosen,
    compared,
    percent,
    share_finding,
)
from polynsd.experiments.record import Record

NEEDS = ("nsd-vs-poly",)


class Pair(NamedTuple):
    """PolyNSD with two layers and the best K, and a rival, on one dataset with one family."""

    dataset: str
    maps: str
    poly: Record
    rival: Record


def pairs(evidence: Evidence, *options: str) -> Iterator[Pair]:
    """The rival is NSD, best on validation among the cells in which one of the options varies."""
    table = Table.of(evidence, "nsd-vs-poly")
    for dataset in table.datasets:
        for maps in FAMILIES:
            rivals = [r for option in options for r in table.having(dataset, option, model=f"nsd-{maps}")]
            poly, rival = chosen(table.having(dataset, "K", model=f"polynsd-{maps}")), chosen(rivals)
            if poly is not None and rival is not None:
                yield Pair(dataset, maps, poly, rival)


def _tally(found: list[Pair]) -> Tally:
    return Tally.of(compared(pair.poly, pair.rival) for pair in found)


def pareto(evidence: Evidence) -> Finding:
    """Accuracy, parameters and training seconds against the best NSD of any depth and width."""
    found = list(pairs(evidence, "layers", "hidden"))
    tally = _tally(found)
    size = median(pair.poly.parameters / pair.rival.parameters for pair in found)
    time = median(pair.poly.seconds / pair.rival.seconds for pair in found if pair.rival.seconds)
    numbers = (
        f"two layers of PolyNSD − NSD of the best depth and width: {tally}; median ratio of parameters "
        f"{size:.2f}, of training time {time:.2f}. Memory: C26"
    )
    cheaper, kept = size < 1 and time < 1, tally.worse <= tally.better
    return Finding(CONFIRMED if cheaper and kept else PARTLY if kept or size < 1 else REFUTED, numbers)


def best_depth(evidence: Evidence) -> Finding:
    """Against NSD of the best depth: equal on pubmed, 6 to 13 points on the others."""
    found = list(pairs(evidence, "layers"))
    equal = [pair for pair in found if pair.dataset == "pubmed"]
    other = [pair for pair in found if pair.dataset != "pubmed"]
    if not equal or not other:
        raise NothingToReadError("needs pubmed and chameleon or squirrel")
    same, gains = _tally(equal), _tally(other)
    numbers = (
        f"PolyNSD − NSD of the best depth: pubmed {same}; chameleon and squirrel {gains}; {_gaps(other)}"
    )
    hits = sum(_gap(pair) >= 6 for pair in other) + sum(_gap(pair) >= -0.5 for pair in equal)
    return share_finding(hits, len(found), numbers)


def _gap(pair: Pair) -> float:
    return 100 * (pair.poly.mean - pair.rival.mean)


def _gaps(found: list[Pair]) -> str:
    return ", ".join(f"{pair.dataset} {pair.maps} {_gap(pair):+.1f}" for pair in found)


def equal_depth(evidence: Evidence) -> Finding:
    """Against NSD with two layers: how near any gap comes to 20 points."""
    table = Table.of(evidence, "nsd-vs-poly")
    found = [
        Pair(dataset, maps, poly, rival)
        for dataset in table.datasets
        if dataset != "pubmed"
        for maps in FAMILIES
        if (poly := chosen(table.having(dataset, "K", model=f"polynsd-{maps}"))) is not None
        and (rival := table.find(dataset, model=f"nsd-{maps}", layers=2)) is not None
    ]
    tally, largest = _tally(found), max(found, key=_gap)
    numbers = (
        f"PolyNSD − NSD, both with two layers: {tally}; largest {_gap(largest):+.1f} ({largest.dataset}, "
        f"{largest.maps}: {percent(largest.poly)} against {percent(largest.rival)})"
    )
    near = _gap(largest) >= 15
    return Finding(CONFIRMED if near else PARTLY if tally.verdict != REFUTED else REFUTED, numbers)


def widest(evidence: Evidence) -> Finding:
    """Accuracy and parameters against the widest NSD that was trained."""
    table = Table.of(evidence, "nsd-vs-poly")
    found = []
    for dataset in ("pubmed", "chameleon"):
        for maps in FAMILIES:
            rivals = table.having(dataset, "hidden", model=f"nsd-{maps}")
            poly = chosen(table.having(dataset, "K", model=f"polynsd-{maps}"))
            if rivals and poly is not None:
                found.append(Pair(dataset, maps, poly, max(rivals, key=lambda r: int(r.cell["hidden"]))))
    tally = _tally(found)
    shares = [100 * pair.poly.parameters / pair.rival.parameters for pair in found]
    sizes = f"PolyNSD has {min(shares):.1f} to {max(shares):.1f} % of its parameters"
    numbers = f"PolyNSD − the widest NSD: {tally}; {sizes}"
    total = len(tally.comparisons)
    return share_finding(total - tally.worse if max(shares) <= 25 else 0, total, numbers)


def equal_size(evidence: Evidence) -> Finding:
    """On squirrel: for every NSD, the largest PolyNSD that is no larger."""
    table = Table.of(evidence, "nsd-vs-poly")
    comparisons = []
    for maps in FAMILIES:
        ours = table.where("squirrel", model=f"polynsd-{maps}")
        for rival in table.where("squirrel", model=f"nsd-{maps}"):
            small = [record for record in ours if record.parameters <= 1.001 * rival.parameters]
            comparisons.append(compared(chosen(small), rival))
    tally = Tally.of(comparisons)
    numbers = f"best PolyNSD on validation of at most the size − NSD, for every NSD on squirrel: {tally}"
    return share_finding(len(tally.comparisons) - tally.worse, len(tally.comparisons), numbers, most=1.0)


CLAIMS = (
    Claim("C05", "PolyNSD has the better trade-off of accuracy and cost.", "efficiency", pareto, NEEDS),
    Claim(
        "C49",
        "Two layers match the best NSD depth on PubMed and gain 6 to 13 points elsewhere.",
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
        "C52", "Squirrel: at equal or smaller size PolyNSD is always better.", "efficiency", equal_size, NEEDS
    ),
)
