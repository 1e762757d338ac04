"""Street graphs: one split each, so that graphs, not splits, are what differences are taken over. (C53, C54)

The claims are about four cities. On other street graphs the standing is told, but decides nothing about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from polynsd_paper.claims.claim import (
    CONFIRMED,
    NOT_TESTABLE,
    PARTLY,
    REFUTED,
    Claim,
    Evidence,
    Finding,
)
from polynsd_paper.claims.parts import Part, combine, covered
from polynsd_paper.claims.readers import Table, methods
from polynsd_paper.claims.tally import Gap, over_graphs
from polynsd_paper.experiments.searched import CITIES

PRINTED = 0.2387  # 61.64 − 37.77

Means = dict[str, list[float]]


def _means(table: Table, graphs: Sequence[str]) -> Means:
    """Test means on these graphs, of the architectures that are on all of them."""
    found = [methods(table.where(graph)) for graph in graphs]
    shared = [name for name in found[0] if all(name in rows for rows in found)] if found else []
    return {name: [rows[name].mean for rows in found] for name in shared}


def _graphs(table: Table, *models: str) -> list[str]:
    found = {graph: set(methods(table.where(graph))) for graph in table.datasets}
    return [graph for graph in found if found[graph] >= {"polynsd", *models}]


def _best_other(means: Means) -> str:
    """By the mean over graphs."""
    return max((name for name in means if name != "polynsd"), key=lambda name: fmean(means[name]), default="")


def _gap(means: Means, rival: str) -> Gap | None:
    return over_graphs(means["polynsd"], means[rival]) if {"polynsd", rival} <= set(means) else None


def _told(means: Means, graphs: Sequence[str]) -> str:
    """PolyNSD, NSD and the best other architecture on some graphs."""
    if not graphs:
        return "no other street graph"
    names = dict.fromkeys(name for name in ("polynsd", "nsd", _best_other(means)) if name in means)
    listed = ", ".join(f"{name} {100 * fmean(means[name]):.1f}" for name in names)
    place = 1 + sum(fmean(row) > fmean(means["polynsd"]) for row in means.values())
    return f"mean over {', '.join(graphs)}: {listed}; PolyNSD is {place} of {len(means)}"


def _judged(evidence: Evidence, *models: str) -> tuple[Table, list[str], str]:
    """The table, its cities, and what is told of the other graphs."""
    table = Table.of(evidence, "city")
    graphs = _graphs(table, *models)
    others = [graph for graph in graphs if graph not in CITIES]
    return table, [graph for graph in graphs if graph in CITIES], _told(_means(table, others), others)


def _in_cities(part: Part, cities: Sequence[str], others: str) -> Part:
    judged = covered(part, len(cities), len(CITIES), "cities", least=1.0)
    return replace(judged, numbers=f"{judged.numbers}. Elsewhere, {others}")


def city_best(evidence: Evidence) -> Finding:
    """PolyNSD against the best other architecture and against NSD with diagonal maps."""
    table, cities, others = _judged(evidence, "nsd")
    means = _means(table, cities)
    best, nsd = _gap(means, _best_other(means)), _gap(means, "nsd")
    first = Part(_ahead(best), f"PolyNSD − best other over cities: {best}; {_told(means, cities)}", True)
    gain = Part(
        NOT_TESTABLE if nsd is None else nsd.verdict(PRINTED),
        f"PolyNSD − NSD: {nsd}; printed 61.64 against 37.77",
    )
    return combine(
        _in_cities(first, cities, others), covered(gain, len(cities), len(CITIES), "cities", least=1.0)
    )


def _ahead(gap: Gap | None) -> str:
    if gap is None:
        return NOT_TESTABLE
    return CONFIRMED if gap.low > 0 else REFUTED if gap.difference <= 0 else PARTLY


def city_margin(evidence: Evidence) -> Finding:
    """The margin over the best baseline, whichever that is, against the noise over cities."""
    table, cities, others = _judged(evidence)
    means = _means(table, cities)
    rival = _best_other(means)
    gap = _gap(means, rival)
    verdict = NOT_TESTABLE if gap is None else CONFIRMED if gap.low > 0 else REFUTED
    part = Part(
        verdict, f"PolyNSD − {rival or 'none'}, the best baseline: {gap}; printed +1.71 over SAGE", True
    )
    return combine(_in_cities(part, cities, others))


CLAIMS = (
    Claim(
        "C53", "City networks: PolyNSD is best, 61.6 against 37.8 of NSD.", "accuracy", city_best, ("city",)
    ),
    Claim(
        "C54",
        "It beats SAGE, ChebNet and transformers there by a sizeable margin.",
        "accuracy",
        city_margin,
        ("city",),
    ),
)
