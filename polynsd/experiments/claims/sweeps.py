"""Fixed configurations in which one thing varies. (C33 to C35, C41 to C43, C46 to C48)"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

import numpy as np

from polynsd.experiments.claims.claim import (
    CONFIRMED,
    PARTLY,
    REFUTED,
    Claim,
    Evidence,
    Finding,
    NothingToReadError,
)
from polynsd.experiments.claims.readers import FAMILIES, Table, Tally, chosen, compared, share_finding
from polynsd.experiments.record import Record

HOMOPHILIC = ("cora", "citeseer", "pubmed")
BASES = (
    "chebyshev1", "chebyshev2", "chebyshev3", "chebyshev4", "legendre", "gegenbauer", "jacobi",
    "interpolation",
)  # fmt: skip


def _rows(table: Table, option: str) -> list[list[Record]]:
    """The cells of every dataset and family, in which the option varies; rows of one cell are left out."""
    rows = [table.having(d, option, maps=maps) for d in table.datasets for maps in FAMILIES]
    return [row for row in rows if len(row) > 1]


def _spread(row: Sequence[Record]) -> float:
    """Largest less smallest mean."""
    means = [record.mean for record in row]
    return max(means) - min(means)


def _noise(row: Sequence[Record]) -> float:
    return fmean(record.std for record in row)


def stalk_sweep(evidence: Evidence) -> Finding:
    """Spread over d against the deviation over splits; where the best d lies."""
    rows = _rows(Table.of(evidence, "stalk"), "stalk_dim")
    flat = [row for row in rows if row[0].dataset in ("pubmed", "film")]
    within = sum(_spread(row) <= _noise(row) for row in flat)
    best = [int(max(row, key=lambda record: record.mean).cell["stalk_dim"]) for row in rows]
    small = sum(d <= 3 for d in best)
    numbers = (
        f"on pubmed and film the spread over d is within the deviation over splits in {within} of "
        f"{len(flat)} rows; the best d is 2 or 3 in {small} of {len(rows)} (all: {', '.join(map(str, best))})"
    )
    return share_finding(within + small, len(flat) + len(rows), numbers)


def basis_spread(evidence: Evidence) -> Finding:
    """Spread over eight bases against the deviation over splits."""
    rows = _rows(Table.of(evidence, "bases"), "basis")
    within = sum(_spread(row) <= _noise(row) for row in rows)
    worst = max(rows, key=_spread, default=None)
    if worst is None:
        raise NothingToReadError("needs several bases of one dataset")
    numbers = (
        f"the spread over bases is within the deviation over splits in {within} of {len(rows)} rows; median "
        f"{100 * median(map(_spread, rows)):.1f} points, largest {100 * _spread(worst):.1f} on "
        f"{worst[0].dataset}"
    )
    return share_finding(within, len(rows), numbers)


def default_basis(evidence: Evidence) -> Finding:
    """Mean ranks over all rows that have all eight bases."""
    from polynsd.stats.ranking import rank_models

    rows = [
        {str(record.cell["basis"]): record.mean for record in row}
        for row in _rows(Table.of(evidence, "bases"), "basis")
    ]
    whole = [row for row in rows if set(row) >= set(BASES)]
    if len(whole) < 2:
        raise NothingToReadError("needs all eight bases on at least two rows")
    ranking = rank_models({basis: [row[basis] for row in whole] for basis in BASES})
    ranks = dict(zip(ranking.models, ranking.ranks, strict=True))
    listed = ", ".join(f"{basis} {place:.2f}" for basis, place in ranks.items())
    limit = ranking.critical_difference or 0.0
    behind = ranks["chebyshev1"] - min(ranks.values())
    numbers = (
        f"mean rank over {len(whole)} rows: {listed}; ranks closer than {limit:.2f} cannot be told apart"
    )
    return Finding(CONFIRMED if behind == 0 else PARTLY if behind < limit else REFUTED, numbers)


def _ends(table: Table, *models: str) -> dict[tuple[str, str], tuple[Record, Record]]:
    """The cells with 2 and with 32 layers, by dataset and what follows the model's name."""
    return {
        (dataset, model.partition("-")[2]): (first, last)
        for dataset in table.datasets
        for model in models
        if (first := table.find(dataset, model=model, layers=2)) is not None
        and (last := table.find(dataset, model=model, layers=32)) is not None
    }


def _losses(table: Table, kind: str) -> dict[tuple[str, str], float]:
    """From 2 to 32 layers, in points, by dataset and family."""
    ends = _ends(table, *(f"{kind}-{maps}" for maps in FAMILIES))
    return {row: 100 * (first.mean - last.mean) for row, (first, last) in ends.items()}


def depth_stability(evidence: Evidence) -> Finding:
    """What PolyNSD and others lose from 2 to 32 layers, against the deviation over splits."""
    table = Table.of(evidence, "depth")
    ends = _ends(table, *(f"polynsd-{maps}" for maps in FAMILIES)).values()
    losses = [100 * (first.mean - last.mean) for first, last in ends]
    steady = sum(first.mean - last.mean <= first.std for first, last in ends)
    others = {
        model: fmean(100 * (first.mean - last.mean) for first, last in found.values())
        for model in ("gcn", "pairnorm")
        if (found := _ends(table, model))
    }
    numbers = (
        f"from 2 to 32 layers PolyNSD loses {fmean(losses or [0]):.1f} points on average, at most "
        f"{max(losses, default=0):.1f}, and no more than a deviation in {steady} of {len(losses)} rows"
        f"{''.join(f'; {model} loses {loss:.1f}' for model, loss in others.items())}"
    )
    return share_finding(steady, len(losses), numbers)


def depth_against_nsd(evidence: Evidence) -> Finding:
    """The losses of PolyNSD and of NSD under the same settings."""
    table = Table.of(evidence, "depth")
    poly, first = _losses(table, "polynsd"), _losses(table, "nsd")
    shared = [row for row in poly if row in first]
    less = sum(poly[row] < first[row] for row in shared)
    numbers = (
        f"from 2 to 32 layers PolyNSD loses less than NSD in {less} of {len(shared)} rows: "
        f"{fmean([poly[row] for row in shared] or [0]):.1f} against "
        f"{fmean([first[row] for row in shared] or [0]):.1f} points on average"
    )
    return share_finding(less, len(shared), numbers)


def failures_at_depth(evidence: Evidence) -> Finding:
    """Whether GAT and H2GCN train with 16 and 32 layers on our device."""
    table = Table.of(evidence, "depth")
    ran = {
        model: [
            f"{dataset} L = {record.cell['layers']}: {100 * record.mean:.1f}"
            for dataset in table.datasets
            for record in table.where(dataset, model=model)
            if int(record.cell["layers"]) >= 16 and np.isfinite(record.mean)
        ]
        for model in ("gat", "h2gcn")
    }
    listed = "; ".join(f"{model}: {', '.join(cells)}" for model, cells in ran.items() if cells)
    if not listed:
        raise NothingToReadError(
            "needs gat and h2gcn with 16 and 32 layers; a cell that failed leaves no record"
        )
    return Finding(REFUTED if all(ran.values()) else PARTLY, f"these trained to finite scores: {listed}")


def degree_above_one(evidence: Evidence) -> Finding:
    """The best K > 1 on validation against K = 1."""
    table = Table.of(evidence, "k-sweep")
    pairs = []
    for row in _rows(table, "K"):
        first = next((record for record in row if record.cell["K"] == 1), None)
        pairs.append(compared(chosen([record for record in row if record.cell["K"] > 1]), first))
    tally = Tally.of(pairs)
    return Finding(tally.verdict, f"best K > 1 on validation − K = 1: {tally}")


def best_degree(evidence: Evidence) -> Finding:
    """The best K on test means, by homophily."""
    best: dict[bool, list[int]] = {True: [], False: []}
    for row in _rows(Table.of(evidence, "k-sweep"), "K"):
        best[row[0].dataset in HOMOPHILIC].append(int(max(row, key=lambda record: record.mean).cell["K"]))
    low = sum(4 <= K <= 8 for K in best[True])
    high = sum(K >= 8 for K in best[False])
    numbers = (
        f"best K is 4 to 8 in {low} of {len(best[True])} homophilic rows (median "
        f"{median(best[True] or [0]):g}) and at least 8 in {high} of {len(best[False])} heterophilic ones "
        f"(median {median(best[False] or [0]):g})"
    )
    return share_finding(low + high, len(best[True]) + len(best[False]), numbers, most=0.7)


def depth_by_degree(evidence: Evidence) -> Finding:
    """Two layers of degree 2K against more layers of degree 4 with the same reach."""
    table = Table.of(evidence, "nsd-vs-poly")
    gaps = []
    for dataset in table.datasets:
        for maps in FAMILIES:
            for K, layers in ((8, 4), (16, 8)):  # reach 16 and 32, where the depth sweep has K = 4
                model = f"polynsd-{maps}"
                deep, wide = (
                    table.find(dataset, model=model, layers=layers),
                    table.find(dataset, model=model, K=K),
                )
                if deep is not None and wide is not None:
                    gaps.append((100 * (wide.mean - deep.mean), 100 * max(wide.std, deep.std)))
    alike = sum(abs(gap) <= noise for gap, noise in gaps)
    numbers = (
        "at equal reach, L = 2 with K = 8 or 16 and L = 4 or 8 with K = 4 are within a deviation of each "
        f"other in {alike} of {len(gaps)} pairs; mean difference "
        f"{fmean([gap for gap, _ in gaps] or [0]):+.1f} points"
    )
    return share_finding(alike, len(gaps), numbers)


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
    Claim(
        "C41",
        "PolyNSD is stable up to 32 layers, unlike GCN and others.",
        "accuracy",
        depth_stability,
        ("depth",),
    ),
    Claim("C42", "PolyNSD stands depth better than NSD.", "accuracy", depth_against_nsd, ("depth",)),
    Claim(
        "C43",
        "With 16 layers or more GAT is unstable and H2GCN runs out of memory.",
        "accuracy",
        failures_at_depth,
        ("depth",),
    ),
    Claim("C46", "The best K is always above 1 and beats K = 1.", "accuracy", degree_above_one, ("k-sweep",)),
    Claim(
        "C47",
        "The best K is 4 to 8 on homophilic graphs, 8 to 16 on heterophilic ones.",
        "accuracy",
        best_degree,
        ("k-sweep",),
    ),
    Claim("C48", "A higher K does the work of more layers.", "accuracy", depth_by_degree, ("nsd-vs-poly",)),
)
