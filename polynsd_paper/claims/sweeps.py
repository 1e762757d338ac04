"""Sweeps over stalk dimension, basis, degree and depth. (C33 to C35, C41 to C43, C46 to C48)

"Flat" and "best" are statements about paired differences: settings are chosen on validation, intervals are
over splits, and two settings are equal where the whole interval is within `gaps.CLAIM_MARGIN`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from math import isfinite
from statistics import median
from typing import TYPE_CHECKING

from polynsd.stats import Comparison, rank_models
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
from polynsd_paper.claims.comparisons import (
    compare_options,
    complete_cells,
    counted_datasets,
    datasets_of,
    find_cell,
    having,
    select,
)
from polynsd_paper.claims.gaps import ADJUSTED, CHANCE, CLAIM_MARGIN, Gaps
from polynsd_paper.experiments import get_experiment
from polynsd_paper.experiments.models import FAMILIES
from polynsd_paper.experiments.sweeps import DEEPEST
from polynsd_paper.tables.leaderboards import OURS, best_on_validation, compare_cells, compare_scores

if TYPE_CHECKING:
    from pandas import DataFrame

HOMOPHILIC = ("cora", "citeseer", "pubmed")
FLAT = ("pubmed", "film")
BASES = (
    "chebyshev1", "chebyshev2", "chebyshev3", "chebyshev4", "legendre", "gegenbauer", "jacobi",
    "interpolation",
)  # fmt: skip
SHALLOW, DEEP, MANY = 2, 32, 16  # layers; the paper speaks of 16 or more
PLAIN_MODELS = ("gcn", "pairnorm")
LARGEST_CLASS = {"cora": 0.302, "citeseer": 0.211, "cornell": 0.552, "chameleon": 0.229}
NODES = {"cora": 2708, "citeseer": 3327, "cornell": 183, "chameleon": 2277}
H2GCN_WIDTH, GPU_GB = 64, 80  # hidden channels; memory of the device that the paper names


# One option varied


def sweep_rows(records: DataFrame, experiment: str, option: str) -> list[DataFrame]:
    """The cells of every dataset and family of maps that have all values of the option."""
    cells = having(complete_cells(records, experiment), option)
    values = set(get_experiment(experiment).axes[option])
    groups = cells.groupby(["dataset", "maps"], sort=False)
    return [row for _, row in groups if set(row[option]) >= values]


def count_rows(experiment: str, *datasets: str) -> int:
    """How many rows the sweep has on these datasets, or on all of its own."""
    return len(FAMILIES) * len(datasets or counted_datasets(experiment))


def compare_ranges(row: DataFrame, option: str, is_inside: Callable[[int], bool]) -> Comparison | None:
    """Values inside a range − the others, each chosen on validation."""
    inside = row[option].map(is_inside).astype(bool)
    return compare_cells(best_on_validation(row[inside]), best_on_validation(row[~inside]))


def _dataset(row: DataFrame) -> str:
    return str(row["dataset"].iat[0])


@check("C33")
def check_stalks(records: DataFrame) -> Finding:
    """Whether d = 4 or 5 gains on d = 2 or 3; whether any two d are equal on pubmed and film."""
    rows = sweep_rows(records, "stalk", "stalk_dim")
    small = Gaps(compare_ranges(row, "stalk_dim", lambda d: d < 4) for row in rows)
    flat = [row for row in rows if _dataset(row) in FLAT]
    pairs = Gaps(
        compare_cells(first, second)
        for row in flat
        for (_, first), (_, second) in combinations(row.iterrows(), 2)
    )
    best = small.judge_mostly_better("d = 2, 3 − d = 4, 5", is_decisive=True)
    if small.has_counterexample or best.verdict == REFUTED:  # without a gain of larger d: only as good
        best = replace(best, verdict=REFUTED if small.has_counterexample else PARTLY)
    equal = pairs.judge_equal("any two d on pubmed and film")
    return combine(
        best.require(len(small), count_rows("stalk"), "rows", has_counterexample=small.has_counterexample),
        equal.require(len(flat), count_rows("stalk", *FLAT), "rows of pubmed and film"),
    )


@check("C34")
def check_basis_spread(records: DataFrame) -> Finding:
    """Every basis against Chebyshev I, row by row."""
    rows = []
    for row in sweep_rows(records, "bases", "basis"):
        default, others = find_cell(row, basis=BASES[0]), row[row["basis"] != BASES[0]]
        gaps = Gaps(compare_cells(other, default) for _, other in others.iterrows())
        rows += [gaps] if gaps else []
    pairs = Gaps(gap for gaps in rows for gap in gaps.gaps)
    moved, steady = sum(gaps.apart > 0 for gaps in rows), sum(gaps.equal == len(gaps) for gaps in rows)
    spread = median([100 * max(abs(gap.difference) for gap in gaps.gaps) for gaps in rows] or [0.0])
    parts = (
        pairs.judge_equal("other bases − Chebyshev I", is_decisive=True),
        Finding(
            REFUTED if moved else CONFIRMED if 2 * steady > len(rows) else UNDECIDED,
            f"some basis differs by more than {100 * CLAIM_MARGIN:g} points in {moved} of {len(rows)} rows, "
            f"none does in {steady}; largest difference in a row {spread:.1f} points in the median",
        ),
    )
    return combine(*(part.require(len(rows), count_rows("bases"), "rows") for part in parts))


@check("C35")
def check_default_basis(records: DataFrame) -> Finding:
    """Mean ranks over graphs; families of maps are averaged, because they are no independent graphs."""
    import pandas

    rows, total = sweep_rows(records, "bases", "basis"), len(counted_datasets("bases"))
    graphs = len({_dataset(row) for row in rows})
    if graphs < 2:
        return Finding(UNDECIDED, "one graph").require(graphs, total, "datasets")
    means = pandas.concat(rows).astype({"mean": float})
    means = means.pivot_table(index="dataset", columns="basis", values="mean", sort=False)
    ranking = rank_models({basis: means[basis].to_list() for basis in BASES})
    ranks = dict(zip(ranking.models, ranking.ranks, strict=True))
    limit, behind = ranking.critical_difference or 0.0, ranks[BASES[0]] - min(ranks.values())
    evidence = (
        f"mean rank over {graphs} graphs: {', '.join(f'{b} {rank:.2f}' for b, rank in ranks.items())}; "
        f"ranks closer than {limit:.2f} cannot be distinguished, p = {ranking.friedman.p:.2g} that all "
        "are alike"
    )
    is_first = behind == 0 and ranking.friedman.p < CHANCE
    verdict = CONFIRMED if is_first else REFUTED if behind >= limit else UNDECIDED
    number = f"rank {ranks[BASES[0]]:.1f}, the best {min(ranks.values()):.1f}"
    return Finding(verdict, evidence, number=number).require(graphs, total, "datasets")


@check("C46")
def check_degree_above_one(records: DataFrame) -> Finding:
    """The best K > 1 on validation against K = 1, in every cell."""
    rows = sweep_rows(records, "k-sweep", "K")
    gaps = Gaps(compare_ranges(row, "K", lambda K: K > 1) for row in rows)
    return gaps.judge_always_better("best K > 1 on validation − K = 1", count_rows("k-sweep"))


@check("C47")
def check_best_degree(records: DataFrame) -> Finding:
    """The claimed range of K against all other K, each chosen on validation, by homophily."""
    rows = sweep_rows(records, "k-sweep", "K")
    heterophilic = tuple(d for d in counted_datasets("k-sweep") if d not in HOMOPHILIC)
    parts = []
    for kind, title, datasets, low, high in (
        ("homophilic", "K = 4 to 8 − other K", HOMOPHILIC, 4, 8),
        ("heterophilic", "K = 8 to 16 − smaller K", heterophilic, 8, 16),
    ):
        chosen = [row for row in rows if _dataset(row) in datasets]
        gaps = Gaps(compare_ranges(row, "K", range(low, high + 1).__contains__) for row in chosen)
        total = count_rows("k-sweep", *datasets)
        parts.append(gaps.judge_mostly_better(f"{kind}: {title}", total, f"{kind} rows"))
    return combine(*parts)


# Depth


def compare_depths(cells: DataFrame, models: Sequence[str]) -> list[Gaps]:
    """Every greater depth − 2 layers, for each dataset and model that was trained with 32 layers."""
    rows = []
    for dataset in datasets_of(cells):
        for model in models:
            row = select(cells, dataset=dataset, model=model)
            deeper = row[row["layers"] > SHALLOW]
            if DEEP in set(deeper["layers"]):
                shallow = find_cell(row, layers=SHALLOW)
                rows.append(Gaps(compare_cells(deep, shallow) for _, deep in deeper.iterrows()))
    return [gaps for gaps in rows if gaps]


def _count_stable(rows: Sequence[Gaps]) -> tuple[int, int]:
    """(rows that stay within the margin of two layers at all depths, rows that fall below it)."""
    verdicts = [gaps.is_never_lower() for gaps in rows]
    return verdicts.count(True), verdicts.count(False)


@check("C41")
def check_depth_stability(records: DataFrame) -> Finding:
    """Whether PolyNSD falls at any depth up to 32, and whether plain models do."""
    cells, graphs = complete_cells(records, "depth"), len(get_experiment("depth").datasets)
    rows, plain = compare_depths(cells, OURS), compare_depths(cells, PLAIN_MODELS)
    (steady, fallen), (plain_steady, plain_fallen) = _count_stable(rows), _count_stable(plain)
    lowest = min((gap.difference for gaps in rows for gap in gaps.gaps), default=0.0)
    falls = fallen > 0
    names = " and ".join(PLAIN_MODELS)
    ours = Finding(
        REFUTED if falls else CONFIRMED if steady == len(rows) else UNDECIDED,
        f"PolyNSD, all depths up to {DEEP} against {SHALLOW} layers: within {100 * CLAIM_MARGIN:g} points in "
        f"{steady}, lower by more in {fallen} of {len(rows)} rows ({ADJUSTED} in each); "
        f"lowest {100 * lowest:+.1f}",
        is_decisive=True,
        number=f"lower in {fallen} of {len(rows)} rows, at most {100 * lowest:+.1f}",
    )
    others = Finding(
        judge_counts(plain_fallen, plain_steady, len(plain)),
        f"{names} fall in {plain_fallen} of {len(plain)}",
    )
    return combine(
        ours.require(len(rows), len(FAMILIES) * graphs, "rows", has_counterexample=falls),
        others.require(len(plain), len(PLAIN_MODELS) * graphs, f"rows of {names}"),
    )


@check("C42")
def check_depth_against_nsd(records: DataFrame) -> Finding:
    """What NSD loses from 2 to 32 layers less what PolyNSD loses, split by split."""
    cells, graphs = complete_cells(records, "depth"), len(get_experiment("depth").datasets)
    gaps = Gaps(_compare_losses(cells, d, maps) for d in datasets_of(cells) for maps in FAMILIES)
    rows = compare_depths(cells, [f"nsd-{maps}" for maps in FAMILIES])
    steady, fallen = _count_stable(rows)
    part = gaps.judge_mostly_better(f"loss of NSD − loss of PolyNSD from {SHALLOW} to {DEEP} layers")
    evidence = (
        f"{part.evidence}. NSD itself falls by more than {100 * CLAIM_MARGIN:g} points in {fallen} of "
        f"{len(rows)} rows and does not in {steady}"
    )
    return replace(part, evidence=evidence).require(len(gaps), len(FAMILIES) * graphs, "rows")


def _compare_losses(cells: DataFrame, dataset: str, maps: str) -> Comparison | None:
    four = [
        find_cell(cells, dataset=dataset, model=f"{kind}-{maps}", layers=layers)
        for kind in ("polynsd", "nsd")
        for layers in (DEEP, SHALLOW)
    ]
    present = [cell for cell in four if cell is not None]
    if len(present) < 4 or len({len(cell["scores"]) for cell in present}) > 1:
        return None
    deep, shallow, nsd_deep, nsd_shallow = (cell["scores"].mean(1, keepdims=True) for cell in present)
    return compare_scores(deep - shallow, nsd_deep - nsd_shallow, present[0])


@check("C43")
def check_failures_at_depth(records: DataFrame) -> Finding:
    """Whether GAT learns with 16 and 32 layers; what H2GCN would need there."""
    cells = complete_cells(records, "depth")
    return combine(_judge_deep_gat(cells), _judge_deep_h2gcn(select(cells, model="h2gcn")))


def _judge_deep_gat(cells: DataFrame) -> Finding:
    """Scores may be finite and no better than the largest class; a training that fails has none."""
    cells = select(cells, model="gat")
    cells = cells[cells["layers"] >= MANY] if len(cells) else cells
    learned = sum(
        isfinite(mean) and mean > LARGEST_CLASS.get(dataset, 1.0) + CLAIM_MARGIN
        for dataset, mean in zip(cells["dataset"], cells["mean"], strict=True)
    )
    listed = ", ".join(
        f"{cell['dataset']} L = {cell['layers']}: {100 * cell['mean']:.1f}" for _, cell in cells.iterrows()
    )
    part = Finding(
        REFUTED if len(cells) and learned == len(cells) else PARTLY,
        f"GAT with {MANY} layers or more: {learned} of {len(cells)} cells are above the share of the "
        f"largest class by {100 * CLAIM_MARGIN:g} points ({listed}). The others have finite scores but "
        "learned nothing, which is no numerical instability; a training that diverges leaves no record, so a "
        "missing cell decides nothing",
        number=f"GAT learns in {learned} of {len(cells)} deep cells",
    )
    depths = [layers for layers in get_experiment("depth").axes["layers"] if layers >= MANY]
    return part.require(len(cells), len(depths) * len(LARGEST_CLASS), "cells of GAT", share=0.5)


def _judge_deep_h2gcn(cells: DataFrame) -> Finding:
    """The last state has C (2^(L+1) − 1) columns; training keeps it and the rounds that it is made of."""
    deep = sum(cells["layers"] >= MANY) if len(cells) else 0
    if deep:
        return Finding(REFUTED, f"H2GCN trained with {MANY} layers or more in {deep} cells")
    need = {name: 2 * 4e-9 * nodes * H2GCN_WIDTH * (2 ** (MANY + 1) - 1) for name, nodes in NODES.items()}
    listed = ", ".join(f"{name} {size:.0f}" for name, size in need.items())
    evidence = (
        f"H2GCN is not run beyond {DEEPEST['h2gcn']} layers here; its width doubles with every layer, so "
        f"that the states alone take at L = {MANY} (GB, C = {H2GCN_WIDTH}): {listed}, above {GPU_GB} on "
        f"{sum(size > GPU_GB for size in need.values())} of {len(need)}"
    )
    return Finding(PARTLY if len(cells) else UNDECIDED, evidence)


@check("C48")
def check_depth_by_degree(records: DataFrame) -> Finding:
    """Two layers of degree 8 or 16 against 4 or 8 layers of degree 4, which have the same reach."""
    cells, graphs = complete_cells(records, "nsd-vs-poly"), len(get_experiment("nsd-vs-poly").datasets)
    reaches = ((8, 4), (16, 8))  # K of two layers, and layers of degree 4: reach 16 and 32
    pairs = [
        ({"model": model, "K": K}, {"model": model, "layers": layers})
        for model in OURS
        for K, layers in reaches
    ]
    gaps = compare_options(cells, pairs)
    title = "L = 2 with K = 8 or 16 − L = 4 or 8 with K = 4, at equal reach: "
    title += f"{gaps.points:+.2f} points on average"
    return gaps.judge_equal(title, len(reaches) * len(OURS) * graphs, "pairs")
