"""Fixed configurations in which the stalk, the basis or the degree varies. (C33 to C35, C46, C47)

What is "flat" or "best" is asked of paired differences: choices are made on validation, intervals are over
splits, and two settings are equal where the whole interval is within the margin of `tally`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from statistics import fmean, median

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
from polynsd_paper.claims.readers import Table, compared
from polynsd_paper.claims.tally import CHANCE, MARGIN, Gap, Tally, is_apart, is_equal
from polynsd_paper.experiments import get_experiment
from polynsd_paper.experiments.models import FAMILIES
from polynsd_paper.records import Record

HOMOPHILIC = ("cora", "citeseer", "pubmed")
FLAT = ("pubmed", "film")
BASES = (
    "chebyshev1", "chebyshev2", "chebyshev3", "chebyshev4", "legendre", "gegenbauer", "jacobi",
    "interpolation",
)  # fmt: skip

Row = list[Record]


def _rows(evidence: Evidence, experiment: str, option: str) -> list[Row]:
    """The cells of every dataset and family that have all values of the option."""
    table, values = Table.of(evidence, experiment), set(get_experiment(experiment).axes[option])
    rows = [table.having(d, option, maps=maps) for d in table.datasets for maps in FAMILIES]
    return [row for row in rows if {record.cell[option] for record in row} >= values]


def _whole(experiment: str, *datasets: str) -> int:
    """How many rows there are, of these datasets or of all."""
    return len(FAMILIES) * len(datasets or get_experiment(experiment).datasets)


def _between(row: Row, option: str, first: Callable[[int], bool]) -> Gap | None:
    """Values of one kind − the rest, either chosen on validation."""
    inside = [record for record in row if first(int(record.cell[option]))]
    rest = [record for record in row if record not in inside]
    return compared(best_on_validation(inside), best_on_validation(rest))


def _pairs(row: Row) -> list[Gap]:
    found = [compared(a, b) for a, b in combinations(row, 2)]
    return [gap for gap in found if gap is not None]


def stalk_sweep(evidence: Evidence) -> Finding:
    """Does d = 4 or 5 gain on d = 2 or 3; are pubmed and film flat?"""
    rows = _rows(evidence, "stalk", "stalk_dim")
    large = Tally.of(_between(row, "stalk_dim", lambda d: d >= 4) for row in rows)
    small = Tally.of(_between(row, "stalk_dim", lambda d: d < 4) for row in rows)
    flat = [row for row in rows if row[0].dataset in FLAT]
    pairs = Tally.of(gap for row in flat for gap in _pairs(row))
    gains = large.better > CHANCE * max(len(large), 1)
    best = Part(
        REFUTED if gains else CONFIRMED if small.mostly == CONFIRMED else PARTLY,
        f"d = 2, 3 − d = 4, 5: {small}",
        decisive=True,
    )
    even = Part(pairs.same, f"any two d on pubmed and film: {pairs.equality}")
    return combine(
        universal(best, len(large), _whole("stalk"), "rows", counterexample=gains, least=LEAST),
        covered(even, len(flat), _whole("stalk", *FLAT), "rows of pubmed and film"),
    )


def basis_spread(evidence: Evidence) -> Finding:
    """Every basis against Chebyshev I, row by row."""
    rows = [gaps for row in _rows(evidence, "bases", "basis") if (gaps := _to_default(row))]
    pairs = Tally.of(gap for gaps in rows for gap in gaps)
    moved = sum(any(map(is_apart, gaps)) for gaps in rows)
    steady = sum(all(map(is_equal, gaps)) for gaps in rows)
    spread = median([100 * max(abs(gap.difference) for gap in gaps) for gaps in rows] or [0.0])
    most = Part(pairs.same, f"other bases − Chebyshev I: {pairs.equality}", decisive=True)
    everywhere = Part(
        REFUTED if moved else CONFIRMED if 2 * steady > len(rows) else PARTLY,
        f"some basis differs by more than {100 * MARGIN:g} points in {moved} of {len(rows)} rows, none does "
        f"in {steady}; largest difference in a row {spread:.1f} points in the median",
    )
    parts = (most, everywhere)
    return combine(*(covered(part, len(rows), _whole("bases"), "rows") for part in parts))


def _to_default(row: Row) -> list[Gap]:
    default = next(record for record in row if record.cell["basis"] == BASES[0])
    found = [compared(record, default) for record in row if record is not default]
    return [gap for gap in found if gap is not None]


def default_basis(evidence: Evidence) -> Finding:
    """Mean ranks over graphs, whose families of maps are averaged: they are no graphs of their own."""
    from polynsd.stats.ranking import rank_models

    rows, whole = _rows(evidence, "bases", "basis"), len(get_experiment("bases").datasets)
    graphs = list(dict.fromkeys(row[0].dataset for row in rows))
    if len(graphs) < 2:
        return combine(covered(Part(NOT_TESTABLE, "one graph"), len(graphs), whole, "datasets"))
    ranking = rank_models({b: [_mean_of(rows, graph, b) for graph in graphs] for b in BASES})
    ranks = dict(zip(ranking.models, ranking.ranks, strict=True))
    limit, behind = ranking.critical_difference or 0.0, ranks[BASES[0]] - min(ranks.values())
    differ = ranking.friedman.p < CHANCE
    numbers = (
        f"mean rank over {len(graphs)} graphs: {', '.join(f'{b} {rank:.2f}' for b, rank in ranks.items())}; "
        f"ranks closer than {limit:.2f} cannot be told apart, p = {ranking.friedman.p:.2g} that all are alike"
    )
    verdict = CONFIRMED if behind == 0 and differ else REFUTED if behind >= limit else PARTLY
    return combine(covered(Part(verdict, numbers), len(graphs), whole, "datasets"))


def _mean_of(rows: list[Row], graph: str, basis: str) -> float:
    cells = [record for row in rows for record in row if record.dataset == graph]
    return fmean(record.mean for record in cells if record.cell["basis"] == basis)


def degree_above_one(evidence: Evidence) -> Finding:
    """The best K > 1 on validation against K = 1, in every cell."""
    tally = Tally.of(_between(row, "K", lambda K: K > 1) for row in _rows(evidence, "k-sweep", "K"))
    part = Part(tally.always, f"best K > 1 on validation − K = 1: {tally}")
    worse = tally.has_counterexample
    return combine(universal(part, len(tally), _whole("k-sweep"), "cells", counterexample=worse, least=LEAST))


def best_degree(evidence: Evidence) -> Finding:
    """The claimed range of K against all other K, either chosen on validation, by homophily."""
    rows = _rows(evidence, "k-sweep", "K")
    graphs = get_experiment("k-sweep").datasets
    heterophilic = tuple(graph for graph in graphs if graph not in HOMOPHILIC)
    return combine(
        _range(rows, HOMOPHILIC, "homophilic: K = 4 to 8 − other K", lambda K: 4 <= K <= 8),
        _range(rows, heterophilic, "heterophilic: K = 8 to 16 − smaller K", lambda K: K >= 8),
    )


def _range(rows: list[Row], graphs: tuple[str, ...], title: str, inside: Callable[[int], bool]) -> Part:
    tally = Tally.of(_between(row, "K", inside) for row in rows if row[0].dataset in graphs)
    part = Part(tally.mostly, f"{title}: {tally}")
    return covered(part, len(tally), _whole("k-sweep", *graphs), f"{title.partition(':')[0]} rows")


CLAIMS = (
    Claim(
        "C33",
        "Stalks: PubMed and Film are flat in d; d = 2 or 3 is best.",
        "accuracy",
        stalk_sweep,
        ("stalk",),
    ),
    Claim("C34", "Accuracy hardly depends on the basis.", "accuracy", basis_spread, ("bases",)),
    Claim("C35", "Chebyshev I is the most consistent basis.", "accuracy", default_basis, ("bases",)),
    Claim("C46", "The best K is always above 1 and beats K = 1.", "accuracy", degree_above_one, ("k-sweep",)),
    Claim(
        "C47",
        "The best K is 4 to 8 on homophilic graphs, 8 to 16 on heterophilic ones.",
        "accuracy",
        best_degree,
        ("k-sweep",),
    ),
)
