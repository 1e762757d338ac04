"""Searched tables: equal budgets, everything chosen on validation. (C01 to C04, C06)"""

from __future__ import annotations

from collections.abc import Iterable

from polynsd_paper.boards import OURS, best_on_validation
from polynsd_paper.claims.claim import (
    CONFIRMED,
    NOT_TESTABLE,
    PARTLY,
    REFUTED,
    Claim,
    Evidence,
    Finding,
    because,
)
from polynsd_paper.claims.parts import LEAST, Part, combine, covered, universal
from polynsd_paper.claims.readers import (
    Table,
    best_other,
    best_polynsd,
    compared,
    methods,
    same_maps,
)
from polynsd_paper.claims.tally import Gap, Tally
from polynsd_paper.experiments import get_experiment
from polynsd_paper.experiments.models import FAMILIES
from polynsd_paper.experiments.searched import STANDARD
from polynsd_paper.published import find_published, published

LUAN = {"rule": "luan-60-20-20"}
SUITES = ("leaderboard", "filtered", "platonov", "malignant")
SEARCHED = ("leaderboard", "filtered", "platonov")
HALF = 0.5
FAR_BELOW = 5.0  # points
FEW_MODELS = 10  # fewer methods are no leaderboard
SEVERAL = 3  # graphs without a place among the first three


def improvement_on_nsd(evidence: Evidence) -> Finding:
    """PolyNSD − NSD of the same maps: most cells, of all suites and of every suite."""
    found = {name: Tally.of(same_maps(_suite_table(evidence, name), **_rule(name))) for name in SUITES}
    suites = [_suite(name, tally) for name, tally in found.items()]
    pooled = Tally.of(gap for tally in found.values() for gap in tally.gaps)
    tested = sum(suite.verdict != NOT_TESTABLE for suite in suites)
    main = Part(pooled.mostly, f"all suites: {pooled}", decisive=True)
    return combine(covered(main, tested, len(SUITES), "suites", least=1.0), *suites)


def _graphs(experiment: str) -> tuple[str, ...]:
    """Those that the claims are about: the standard ones, without what we have put beside them."""
    return STANDARD if experiment == "leaderboard" else get_experiment(experiment).datasets


def _suite_table(evidence: Evidence, experiment: str) -> Table:
    graphs = _graphs(experiment)
    return Table(record for record in evidence.records(experiment) if record.dataset in graphs)


def _rule(experiment: str) -> dict[str, str]:
    return LUAN if experiment == "malignant" else {}


def _suite(name: str, tally: Tally) -> Part:
    cells = len(FAMILIES) * len(_graphs(name))
    return covered(Part(tally.mostly, f"{name}: {tally}"), len(tally), cells, f"cells of {name}", least=HALF)


def place(table: Table, dataset: str) -> tuple[int, int] | None:
    """(place of PolyNSD by test mean, number of architectures); None where it is no table to speak of."""
    means = {name: record.mean for name, record in methods(table.where(dataset)).items()}
    ours = best_polynsd(table, dataset)
    if ours is None or len(means) < FEW_MODELS:
        return None
    return 1 + sum(mean > ours.mean for name, mean in means.items() if name != "polynsd"), len(means)


def top_three(evidence: Evidence) -> Finding:
    """The place of PolyNSD among all architectures, and whether it is within noise of the best."""
    table, whole = _suite_table(evidence, "leaderboard"), len(STANDARD)
    places = {dataset: found for dataset in table.datasets if (found := place(table, dataset)) is not None}
    out = sum(number > 3 for number, _ in places.values())
    listed = ", ".join(f"{dataset} {number} of {count}" for dataset, (number, count) in places.items())
    first = Part(
        REFUTED if out >= SEVERAL else CONFIRMED if out <= 1 else PARTLY,
        f"place of PolyNSD among at least {FEW_MODELS} architectures, each with the maps or variant that "
        f"is best on validation: {listed}; among the first three on {len(places) - out}",
    )
    tally = against_best(table, places)
    behind = tally.worse >= SEVERAL  # a place alone may be noise
    noise = Part(
        CONFIRMED if tally.worse <= 1 else REFUTED if behind else PARTLY,
        f"PolyNSD − the best other architecture on test: {tally}",
    )
    return combine(
        universal(first, len(places), whole, "datasets", counterexample=behind, least=LEAST),
        universal(noise, len(tally), whole, "datasets", counterexample=behind, least=LEAST),
    )


def against_best(table: Table, datasets: Iterable[str]) -> Tally:
    """PolyNSD − the other architecture with the greatest test mean."""
    return Tally.of(compared(best_polynsd(table, d), best_other(table.where(d))) for d in datasets)


def diagonal_is_enough(evidence: Evidence) -> Finding:
    """Diagonal maps against the better of the other two on validation."""
    whole = sum(len(_graphs(name)) for name in SEARCHED)
    tables = [_suite_table(evidence, name) for name in SEARCHED]
    tally = Tally.of(_diagonal_gap(table, dataset) for table in tables for dataset in table.datasets)
    part = Part(
        tally.keeps_up(worse=HALF), f"diagonal − the better other maps on validation: {tally.not_worse}"
    )
    return combine(covered(part, len(tally), whole, "datasets"))


def _diagonal_gap(table: Table, dataset: str) -> Gap | None:
    others = [table.find(dataset, model=f"polynsd-{maps}") for maps in FAMILIES[1:]]
    found = [record for record in others if record is not None]
    rival = best_on_validation(found) if len(found) == 2 else None
    return compared(table.find(dataset, model="polynsd-diagonal"), rival)


def sheaf_matters(evidence: Evidence) -> Finding:
    """PolyNSD against its filter on the plain graph, as wide and searched alike; that against MLP and GCN."""
    table, whole = _suite_table(evidence, "leaderboard"), len(STANDARD)
    gaps = {
        model: Tally.of(compared(best_polynsd(table, d), table.find(d, model=model)) for d in table.datasets)
        for model in ("poly-spectral", "identity-sheaf")
    }
    plain = gaps["poly-spectral"]
    tuned = Tally.of(_alone_against_plain(table, dataset) for dataset in table.datasets)
    main = Part(plain.mostly, f"PolyNSD − the same filter with d = 1: {plain}", decisive=True)
    far = Part(
        CONFIRMED if plain.points >= FAR_BELOW else REFUTED,
        f"far below means {FAR_BELOW:g} points on average; printed are {_printed_span()}",
    )
    fair = Part(tuned.keeps_up(), f"it is tuned: filter alone − the better of MLP and GCN: {tuned.not_worse}")
    constant = f"; PolyNSD − constant sheaf, for comparison: {gaps['identity-sheaf']}"
    found = combine(
        *(covered(part, len(plain), whole, "datasets with poly-spectral") for part in (main, far)), fair
    )
    return Finding(found.verdict, found.numbers + constant)


def _printed_span() -> str:
    """How far the paper prints the filter alone below its best PolyNSD, from graph to graph."""
    numbers = published("leaderboard")
    gaps = []
    for dataset in STANDARD:
        means = [
            one.mean
            for model in (*OURS, "poly-spectral")
            if (one := find_published(numbers, dataset, {"model": model})) and one.mean is not None
        ]
        gaps.append(max(means) - means[-1])
    return f"{min(gaps):.1f} to {max(gaps):.1f}"


def _alone_against_plain(table: Table, dataset: str) -> Gap | None:
    plain = [one for model in ("mlp", "gcn") if (one := table.find(dataset, model=model)) is not None]
    return compared(table.find(dataset, model="poly-spectral"), best_on_validation(plain))


CLAIMS = (
    Claim("C01", "PolyNSD beats NSD of the same maps on all suites.", "accuracy", improvement_on_nsd, SUITES),
    Claim(
        "C02",
        "PolyNSD is among the first three on almost all of nine graphs.",
        "accuracy",
        top_three,
        ("leaderboard",),
    ),
    Claim("C03", "Diagonal maps are often enough.", "accuracy", diagonal_is_enough, SEARCHED),
    Claim(
        "C04",
        "The polynomial alone is far below: the sheaf matters.",
        "accuracy",
        sheaf_matters,
        ("leaderboard",),
    ),
    Claim(
        "C06",
        "The filter can replace diffusion in any sheaf network.",
        "design",
        because("the filter is built into one skeleton here; no other sheaf network has been given it"),
    ),
)
