"""Searched tables: equal budgets, everything chosen on validation. (C01 to C04, C36, C37, C39, C40, C53, C54)

The street graphs (C53, C54) have one split each, so differences are taken over graphs. Those claims are
about four cities; the ranks on other street graphs are listed, but decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polynsd.stats import Difference
from polynsd_paper.claims.claim import (
    CONFIRMED,
    NOT_TESTABLE,
    PARTLY,
    REFUTED,
    UNDECIDED,
    Finding,
    check,
    combine,
    judge_counts,
)
from polynsd_paper.claims.comparisons import (
    best_polynsd,
    best_rival,
    best_variants,
    by_dataset,
    compare_graphs,
    compare_same_maps,
    complete_cells,
    counted_datasets,
    datasets_of,
    find_cell,
    format_percent,
    select,
)
from polynsd_paper.claims.gaps import CLAIM_MARGIN, Gaps, gap_evidence, judge_gain
from polynsd_paper.experiments import get_experiment
from polynsd_paper.experiments.models import FAMILIES
from polynsd_paper.experiments.searched import CITIES, STANDARD, SUBSTITUTE
from polynsd_paper.tables.leaderboards import OURS, best_on_validation, compare_cells, counted_once
from polynsd_paper.tables.printed_numbers import find_printed, read_printed

if TYPE_CHECKING:
    from pandas import DataFrame, Series

SUITES = ("leaderboard", "filtered", "platonov", "malignant")
LUAN, RANDOM = "luan-60-20-20", "random-60-20-20"  # two rules of splits that are called 60/20/20
FAR_BELOW = 0.05
MIN_MODELS = 10  # fewer architectures are no leaderboard
LACKING = ("roman_empire", "amazon_ratings", "questions")  # whose features or edges cannot be had
SEVERAL = 3  # graphs without a rank among the first three
GENERAL, BUNDLE = "polynsd-general", "polynsd-orthogonal"
FILTERED_GAINS = {"chameleon_filtered": 0.0322, "squirrel_filtered": 0.0511}  # as printed
FILM_GAIN = 0.029  # printed: 41.48 − 38.58
SAGE_GAIN = 0.0171  # printed: over the best baseline
CITY_GAIN = 0.2387  # printed: 61.64 − 37.77


def _suite_datasets(experiment: str) -> tuple[str, ...]:
    """The graphs of the paper's table that can be had; the leaderboard has others beside them."""
    if experiment == "leaderboard":
        return counted_once(STANDARD)
    return tuple(name for name in counted_datasets(experiment) if name not in (*LACKING, SUBSTITUTE))


def _suite_cells(records: DataFrame, experiment: str) -> DataFrame:
    cells = select(complete_cells(records, experiment), dataset=_suite_datasets(experiment))
    return select(cells, rule=LUAN) if experiment == "malignant" else cells


def rank_polynsd(cells: DataFrame) -> tuple[int, int] | None:
    """(rank of PolyNSD by test mean, number of architectures) on one dataset; None if they are few."""
    means = {name: cell["mean"] for name, cell in best_variants(cells).items()}
    ours = best_polynsd(cells)
    if ours is None or len(means) < MIN_MODELS:
        return None
    return 1 + sum(mean > ours["mean"] for name, mean in means.items() if name != "polynsd"), len(means)


def _rank_all(cells: DataFrame, datasets: Iterable[str]) -> dict[str, tuple[int, int]]:
    ranks = {dataset: rank_polynsd(select(cells, dataset=dataset)) for dataset in datasets}
    return {dataset: rank for dataset, rank in ranks.items() if rank is not None}


def _format_ranks(ranks: dict[str, tuple[int, int]]) -> str:
    return ", ".join(f"{dataset} {rank} of {count}" for dataset, (rank, count) in ranks.items())


def _compare_with_rival(cells: DataFrame, datasets: Iterable[str]) -> Gaps:
    """PolyNSD − the other architecture with the greatest test mean."""
    tables = [select(cells, dataset=dataset) for dataset in datasets]
    return Gaps(compare_cells(best_polynsd(table), best_rival(table)) for table in tables)


@check("C01")
def check_gain_over_nsd(records: DataFrame) -> Finding:
    """PolyNSD − NSD of the same maps: better in most cells, of all suites together and of each."""
    pooled: list[Difference] = []
    suites: list[Finding] = []
    for name in SUITES:
        gaps = compare_same_maps(_suite_cells(records, name))
        total = len(FAMILIES) * len(_suite_datasets(name))
        pooled += gaps.gaps
        suites.append(gaps.judge_mostly_better(name, total, f"cells of {name}", share=0.5))
    tested = sum(len(compare_same_maps(_suite_cells(records, name))) > 0 for name in SUITES)
    main = Gaps(pooled).judge_mostly_better("all suites", is_decisive=True)
    return combine(main.require(tested, len(SUITES), "suites", share=1.0), *suites)


@check("C02")
def check_top_three(records: DataFrame) -> Finding:
    """The rank of PolyNSD among all architectures, and whether it is within noise of the best."""
    cells, total = _suite_cells(records, "leaderboard"), len(_suite_datasets("leaderboard"))
    ranks = _rank_all(cells, datasets_of(cells))
    gaps = _compare_with_rival(cells, ranks)
    out, is_behind = sum(rank > 3 for rank, _ in ranks.values()), gaps.worse >= SEVERAL
    rank = Finding(
        CONFIRMED if out <= 1 else UNDECIDED,  # a rank alone may be noise
        f"rank of PolyNSD among at least {MIN_MODELS} architectures, each with the maps or variant that "
        f"is best on validation: {_format_ranks(ranks)}; among the first three on {len(ranks) - out}",
        number=f"among the first three on {len(ranks) - out} of {len(ranks)}",
    )
    noise = Finding(
        REFUTED if is_behind else CONFIRMED if gaps.worse + len(gaps) - gaps.not_worse <= 1 else UNDECIDED,
        f"PolyNSD − the best other architecture on validation: {gaps}, not worse by {100 * CLAIM_MARGIN:g} "
        f"points in {gaps.not_worse}",
        is_decisive=is_behind,
    )
    return combine(
        rank.require(len(ranks), total, "datasets", has_counterexample=is_behind),
        noise.require(len(gaps), total, "datasets", has_counterexample=is_behind),
    )


@check("C03")
def check_diagonal_maps(records: DataFrame) -> Finding:
    """Diagonal maps against the better of the other two on validation."""
    comparisons = []
    for name in SUITES[:3]:
        for table in by_dataset(_suite_cells(records, name)):
            others = select(table, model=[f"polynsd-{maps}" for maps in FAMILIES[1:]])
            rival = best_on_validation(others) if len(others) == 2 else None
            comparisons.append(compare_cells(find_cell(table, model="polynsd-diagonal"), rival))
    gaps, total = Gaps(comparisons), sum(len(_suite_datasets(name)) for name in SUITES[:3])
    title = "diagonal − the better other maps on validation"
    return gaps.judge_as_good(title, total, "datasets", may_be_worse=0.5)


@check("C04")
def check_sheaf_matters(records: DataFrame) -> Finding:
    """PolyNSD against its filter on the plain graph, as wide and searched alike; that against MLP and GCN."""
    tables, total = by_dataset(_suite_cells(records, "leaderboard")), len(_suite_datasets("leaderboard"))
    plain, constant = (
        Gaps(compare_cells(best_polynsd(table), find_cell(table, model=model)) for table in tables)
        for model in ("poly-spectral", "identity-sheaf")
    )
    tuned = Gaps(
        compare_cells(
            find_cell(table, model="poly-spectral"), best_on_validation(select(table, model=("mlp", "gcn")))
        )
        for table in tables
    )
    main = plain.judge_mostly_better("PolyNSD − the same filter with d = 1", is_decisive=True)
    near, far_off = (
        sum(gap.high < FAR_BELOW for gap in plain.gaps),
        sum(gap.low > FAR_BELOW for gap in plain.gaps),
    )
    far = Finding(
        judge_counts(far_off, near, len(plain)),
        f"far below means {100 * FAR_BELOW:g} points: so in {far_off}, less in {near} of {len(plain)}; "
        f"printed are {_printed_gaps()}",
    )
    fair = tuned.judge_as_good("it is tuned: filter alone − the better of MLP and GCN")
    finding = combine(
        *(part.require(len(plain), total, "datasets with poly-spectral") for part in (main, far)),
        fair,
    )
    note = f"; PolyNSD − constant sheaf, for comparison: {constant}"
    return replace(finding, evidence=finding.evidence + note)


def _printed_gaps() -> str:
    """By how much the paper prints the filter alone below its best PolyNSD, from graph to graph."""
    numbers = read_printed("leaderboard")
    means = numbers[numbers["source"] == "paper"].pivot(index="key", columns="dataset", values="mean")
    means.index = means.index.str.removeprefix("model=")
    gaps = (means.loc[list(OURS)].max() - means.loc["poly-spectral"])[list(STANDARD)]
    return f"{min(gaps):.1f} to {max(gaps):.1f}"


@check("C36")
def check_malignant_suite(records: DataFrame) -> Finding:
    """60/20/20: everywhere better than NSD of the same maps, and not behind the MLP."""
    cells, graphs = _suite_cells(records, "malignant"), len(_suite_datasets("malignant"))
    nsd = compare_same_maps(cells)
    mlp = Gaps(
        compare_cells(best_polynsd(table), find_cell(table, model="mlp")) for table in by_dataset(cells)
    )
    return combine(
        nsd.judge_always_better("PolyNSD − NSD", len(FAMILIES) * graphs, is_decisive=True),
        mlp.judge_as_good("PolyNSD − MLP", graphs, "datasets with an MLP"),
    )


@check("C37")
def check_film(records: DataFrame) -> Finding:
    """On Film alone: under the claim's rule of splits (decisive), and under the other 60/20/20."""
    parts = []
    for rule in (LUAN, RANDOM):
        cells = select(complete_cells(records, "malignant"), dataset="film", rule=rule)
        gap = compare_cells(best_polynsd(cells), find_cell(cells, model="mlp"))
        if gap is None:
            verdict, number = UNDECIDED, "not trained"
            evidence = f"needs PolyNSD of all maps and mlp on film under {rule}"
        else:
            verdict, number = judge_gain(gap, FILM_GAIN), f"{gap_evidence(gap)} points"
            evidence = f"PolyNSD − MLP on film, {rule}: {gap_evidence(gap)}; printed {100 * FILM_GAIN:+.1f}"
        parts.append(Finding(verdict, evidence, rule == LUAN, number))
    return combine(*parts)


@check("C39")
def check_filtered_gains(records: DataFrame) -> Finding:
    """General maps against NSD's, by how much, and the rank among all architectures."""
    cells = complete_cells(records, "filtered")
    verdicts, listed, number = set(), [], "not trained"
    for dataset, printed in FILTERED_GAINS.items():
        here = select(cells, dataset=dataset)
        gap = compare_cells(find_cell(here, model=GENERAL), find_cell(here, model="nsd-general"))
        if gap is None:
            verdicts.add(UNDECIDED)
            listed.append(f"needs general maps of both on {dataset}")
        else:
            verdicts.add(judge_gain(gap, printed))
            number = f"{gap_evidence(gap)} points on {dataset}"
            listed.append(f"{dataset} {gap_evidence(gap)} (printed {100 * printed:+.2f})")
    mixed = UNDECIDED if UNDECIDED in verdicts else PARTLY
    size = Finding(
        verdicts.pop() if len(verdicts) == 1 else mixed,
        f"PolyNSD − NSD, general maps: {'; '.join(listed)}",
        is_decisive=True,
        number=number,
    )
    ranks = _rank_all(cells, FILTERED_GAINS)
    first, total = sum(rank == 1 for rank, _ in ranks.values()), len(FILTERED_GAINS)
    is_behind = _compare_with_rival(cells, ranks).worse > 0
    best = Finding(  # a rank alone may be noise
        REFUTED if is_behind else CONFIRMED if first == total else UNDECIDED,
        f"rank, maps and variants of all architectures chosen on validation: {_format_ranks(ranks)}",
    )
    ranked = best.require(len(ranks), total, "ranked datasets", share=1.0, has_counterexample=is_behind)
    return combine(size, ranked)


@check("C40")
def check_new_suite(records: DataFrame) -> Finding:
    """General maps first on all five, at the printed values; bundles; gains over NSD."""
    printed = [name for name in get_experiment("platonov").datasets if name != SUBSTITUTE]
    cells, graphs = select(complete_cells(records, "platonov"), dataset=printed), len(printed)
    tables = [table for table in by_dataset(cells) if len(select(table, model=GENERAL))]
    gains = compare_same_maps(cells)
    return combine(
        _judge_general_first(tables, graphs),
        _judge_printed_values(tables, graphs),
        _judge_bundles(tables, graphs),
        gains.judge_always_better("PolyNSD − NSD of the same maps", len(FAMILIES) * graphs, is_lacking=True),
    )


def _cells_ahead(table: DataFrame, model: str) -> list[Series]:
    """PolyNSD's other maps and the other architectures that have a greater test mean than a model."""
    others = [cell for name, cell in best_variants(table).items() if name != "polynsd"]
    others += [cell for _, cell in select(table, model=OURS).iterrows()]
    mean = select(table, model=model)["mean"].iat[0]
    return [cell for cell in others if cell["mean"] > mean]


def _judge_general_first(tables: list[DataFrame], graphs: int) -> Finding:
    ahead = [_cells_ahead(table, GENERAL) for table in tables]
    first = sum(not cells for cells in ahead)
    gaps = Gaps(
        compare_cells(find_cell(table, model=GENERAL), cell)
        for table, cells in zip(tables, ahead, strict=True)
        for cell in cells
    )
    is_behind = gaps.worse > 0
    part = Finding(  # a rank alone may be noise
        REFUTED if is_behind else CONFIRMED if first == graphs else UNDECIDED,
        f"general maps are first on {first} of {len(tables)} datasets",
        is_decisive=True,
        number=f"first on {first} of {len(tables)}",
    )
    return _require_suite(part, len(tables), graphs, has_counterexample=is_behind)


def _require_suite(part: Finding, available: int, graphs: int, **options: Any) -> Finding:
    """Three of the five graphs cannot be had."""
    return part.require(available, graphs, "datasets", share=1.0, is_lacking=True, **options)


def _judge_printed_values(tables: list[DataFrame], graphs: int) -> Finding:
    """Not below the printed value by more than a standard deviation, the greater of theirs and ours."""
    listed, reached = [], []
    for cell in (find_cell(table, model=GENERAL) for table in tables):
        assert cell is not None
        number = find_printed(read_printed("platonov"), cell["dataset"], f"model={GENERAL}")
        if number is not None:
            floor = number["mean"] - max(number["std"], 100 * cell["std"])
            reached.append(bool(100 * cell["mean"] >= floor))
            listed.append(f"{cell['dataset']} {format_percent(cell)} (printed {number['mean']})")
    yes, total = sum(reached), len(reached)
    part = Finding(
        judge_counts(yes, total - yes, total),
        f"values within one deviation of the printed ones on {yes}: {', '.join(listed)}",
    )
    return _require_suite(part, total, graphs, has_counterexample=yes < total)


def _judge_bundles(tables: list[DataFrame], graphs: int) -> Finding:
    ranked = [table for table in tables if len(select(table, model=BUNDLE))]
    front = sum(len(_cells_ahead(table, BUNDLE)) < 3 for table in ranked)
    missed = len(ranked) - front
    verdict = CONFIRMED if missed <= 1 else REFUTED if 2 * missed >= len(ranked) else PARTLY
    evidence = f"bundles are among the first three on {front} of {len(ranked)}, claimed are all but one"
    return _require_suite(Finding(verdict, evidence), len(ranked), graphs)


# Street graphs: one split each


def _street_means(records: DataFrame, needed: Sequence[str]) -> tuple[DataFrame, str]:
    """Test means [architectures, cities] where the needed ones ran, and a text about other street graphs."""
    from pandas import DataFrame

    cells = complete_cells(records, "city")
    variants = {dataset: best_variants(select(cells, dataset=dataset)) for dataset in datasets_of(cells)}
    means = DataFrame(
        {
            dataset: {name: cell["mean"] for name, cell in models.items()}
            for dataset, models in variants.items()
            if set(needed) <= set(models)
        },
        dtype=float,
    )
    is_city = means.columns.isin(CITIES)
    others = means.loc[:, ~is_city].dropna()
    return means.loc[:, is_city].dropna(), "no other street graph" if others.empty else _describe_means(
        others
    )


def _find_rival(means: DataFrame) -> str:
    """The best other architecture by its mean over graphs; empty where there is none."""
    others = means.mean(axis="columns").drop("polynsd", errors="ignore").dropna()
    return "" if others.empty else str(others.idxmax())


def _compare_means(means: DataFrame, rival: str) -> Difference | None:
    return compare_graphs(means.loc["polynsd"], means.loc[rival]) if rival in means.index else None


def _describe_means(means: DataFrame) -> str:
    """PolyNSD, NSD and the best other architecture on some graphs."""
    overall = means.mean(axis="columns")
    names = dict.fromkeys(name for name in ("polynsd", "nsd", _find_rival(means)) if name in overall)
    listed = ", ".join(f"{name} {100 * overall[name]:.1f}" for name in names)
    rank = 1 + int((overall > overall["polynsd"]).sum())
    return f"mean over {', '.join(means.columns)}: {listed}; PolyNSD is {rank} of {len(means)}"


def _require_cities(part: Finding, means: DataFrame, note: str = "") -> Finding:
    part = part.require(means.shape[1], len(CITIES), "cities", share=1.0, is_lacking=True)
    return replace(part, evidence=part.evidence + note)


@check("C53")
def check_city_best(records: DataFrame) -> Finding:
    """PolyNSD against the best other architecture and against NSD with diagonal maps."""
    means, elsewhere = _street_means(records, ("polynsd", "nsd"))
    best, nsd = _compare_means(means, _find_rival(means)), _compare_means(means, "nsd")
    where = "" if means.empty else _describe_means(means)
    if best is None:
        verdict = NOT_TESTABLE
    else:
        verdict = CONFIRMED if best.low > 0 else REFUTED if best.high < 0 else UNDECIDED
    evidence = f"PolyNSD − best other over cities: {gap_evidence(best)}; {where}"
    first = Finding(verdict, evidence, is_decisive=True)
    gain = Finding(
        NOT_TESTABLE if nsd is None else judge_gain(nsd, CITY_GAIN),
        f"PolyNSD − NSD: {gap_evidence(nsd)}; printed 61.64 against 37.77",
    )
    note = f". Elsewhere, {elsewhere}"
    return combine(_require_cities(first, means, note), _require_cities(gain, means))


@check("C54")
def check_city_margin(records: DataFrame) -> Finding:
    """The margin over the best baseline, whichever that is, against the noise over cities."""
    means, elsewhere = _street_means(records, ("polynsd",))
    rival = _find_rival(means)
    gap = _compare_means(means, rival)
    verdict = NOT_TESTABLE if gap is None else judge_gain(gap, SAGE_GAIN)
    evidence = f"PolyNSD − {rival or 'none'}, the best baseline: {gap_evidence(gap)}; printed +1.71 over SAGE"
    return _require_cities(Finding(verdict, evidence), means, f". Elsewhere, {elsewhere}")
