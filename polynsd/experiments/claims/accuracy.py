"""Searched tables: equal budgets, everything chosen on validation. (C01 to C04, C06, C36, C37, C39, C40)"""

from __future__ import annotations

from polynsd.experiments.claims.claim import (
    CONFIRMED,
    PARTLY,
    REFUTED,
    Claim,
    Evidence,
    Finding,
    NothingToReadError,
    because,
)
from polynsd.experiments.claims.readers import (
    FAMILIES,
    Table,
    Tally,
    best_polynsd,
    chosen,
    compared,
    percent,
    same_maps,
    share_finding,
)
from polynsd.experiments.entrants import ENTRANTS
from polynsd.experiments.published import find_published
from polynsd.experiments.record import Record

LUAN = {"rule": "luan-60-20-20"}
SUITES = ("leaderboard", "filtered", "platonov", "malignant")
SEARCHED = ("leaderboard", "filtered", "platonov")
FAR_BELOW = 5.0  # points
FEW_MODELS = 10  # fewer methods are no leaderboard


def improvement_on_nsd(evidence: Evidence) -> Finding:
    """PolyNSD − NSD of the same maps, suite by suite."""
    suites = {name: same_maps(Table.of(evidence, name), **_rule(name)) for name in SUITES}
    whole = Tally.of(one for comparisons in suites.values() for one in comparisons)
    parts = "; ".join(f"{name}: {Tally.of(found)}" for name, found in suites.items() if any(found))
    return Finding(whole.verdict, parts)


def _rule(experiment: str) -> dict[str, str]:
    return LUAN if experiment == "malignant" else {}


def methods(table: Table, dataset: str) -> dict[str, Record]:
    """One record per architecture: of its rows the best on validation."""
    groups: dict[str, list[Record]] = {}
    for record in table.where(dataset):
        entrant = ENTRANTS.get(str(record.cell.get("model")))
        if entrant is not None:
            groups.setdefault(entrant.group, []).append(record)
    return {group: best for group, records in groups.items() if (best := chosen(records)) is not None}


def rank(table: Table, dataset: str, group: str = "polynsd") -> tuple[int, int] | None:
    """(place by test mean, number of methods) of an architecture."""
    means = {name: record.mean for name, record in methods(table, dataset).items()}
    if group not in means:
        return None
    return 1 + sum(mean > means[group] for mean in means.values()), len(means)


def top_three(evidence: Evidence) -> Finding:
    """The place of PolyNSD among all architectures."""
    table = Table.of(evidence, "leaderboard")
    places = {dataset: place for dataset in table.datasets if (place := rank(table, dataset)) is not None}
    if not places or min(count for _, count in places.values()) < FEW_MODELS:
        raise NothingToReadError(f"needs at least {FEW_MODELS} methods per dataset of the leaderboard")
    hits = sum(place <= 3 for place, _ in places.values())
    listed = ", ".join(f"{dataset} {place} of {count}" for dataset, (place, count) in places.items())
    numbers = f"place of PolyNSD, maps chosen on validation: {listed}; among the first three on {hits}"
    return share_finding(hits, len(places), numbers)


def diagonal_is_enough(evidence: Evidence) -> Finding:
    """Diagonal maps against the better of the other two on validation."""
    found = []
    for name in SEARCHED:
        table = Table.of(evidence, name)
        for dataset in table.datasets:
            others = [table.find(dataset, model=f"polynsd-{maps}") for maps in FAMILIES[1:]]
            rival = chosen([record for record in others if record is not None])
            found.append(compared(table.find(dataset, model="polynsd-diagonal"), rival))
    tally = Tally.of(found)
    total = len(tally.comparisons)
    return share_finding(total - tally.worse, total, f"diagonal − best other maps: {tally}")


def sheaf_matters(evidence: Evidence) -> Finding:
    """PolyNSD against its filter on the plain graph, as wide, with the same search; and against F = I."""
    table = Table.of(evidence, "leaderboard")
    plain, constant = (
        [compared(best_polynsd(table, d), table.find(d, model=model)) for d in table.datasets]
        for model in ("poly-spectral", "identity-sheaf")
    )
    tally = Tally.of(plain)
    rest = f"; − constant sheaf: {Tally.of(constant)}" if any(constant) else ""
    numbers = f"PolyNSD − the same filter with d = 1: {tally}{rest}; printed gaps are 12.6 to 30.8 points"
    near = tally.verdict == CONFIRMED and tally.points < FAR_BELOW
    return Finding(PARTLY if near else tally.verdict, numbers)


def malignant_suite(evidence: Evidence) -> Finding:
    """60/20/20: against NSD of the same maps and against the MLP."""
    table = Table.of(evidence, "malignant")
    tally = Tally.of(same_maps(table, **LUAN))
    mlp = [
        compared(best_polynsd(table, d, **LUAN), table.find(d, **LUAN, model="mlp")) for d in table.datasets
    ]
    rest = f"; − MLP: {Tally.of(mlp)}" if any(mlp) else ""
    return Finding(tally.verdict, f"PolyNSD − NSD: {tally}{rest}")


def film_against_mlp(evidence: Evidence) -> Finding:
    """On Film alone, under both rules."""
    table = Table.of(evidence, "malignant")
    rules = ("luan-60-20-20", "random-60-20-20")
    pairs = [(best_polynsd(table, "film", rule=r), table.find("film", rule=r, model="mlp")) for r in rules]
    tally = Tally.of(compared(*pair) for pair in pairs)
    return Finding(tally.verdict, f"PolyNSD − MLP on film: {tally}; printed +2.9")


def filtered_gains(evidence: Evidence) -> Finding:
    """General maps against NSD's, and the place among all."""
    table, found, listed = Table.of(evidence, "filtered"), [], []
    for dataset, printed in (("chameleon_filtered", 3.22), ("squirrel_filtered", 5.11)):
        one = compared(table.find(dataset, model="polynsd-general"), table.find(dataset, model="nsd-general"))
        place = rank(table, dataset)
        if one is None:
            continue
        found.append(one)
        text = f"{dataset} {100 * one.difference:+.2f} [{100 * one.low:.2f}, {100 * one.high:.2f}]"
        listed.append(f"{text} (printed {printed:+.2f}), place {place[0]} of {place[1]}" if place else text)
    return Finding(Tally.of(found).verdict, f"PolyNSD − NSD, general maps: {'; '.join(listed)}")


def new_suite(evidence: Evidence) -> Finding:
    """Place of general maps, ours against printed, and gains over NSD."""
    table, printed = Table.of(evidence, "platonov"), evidence.published("platonov")
    listed, first = [], 0
    for dataset in table.datasets:
        record = table.find(dataset, model="polynsd-general")
        if record is None:
            continue
        number = find_published(printed, dataset, {"model": "polynsd-general"})
        means = [one.mean for one in methods(table, dataset).values()]
        first += record.mean >= max(means)
        listed.append(f"{dataset} {percent(record)} (printed {number.mean if number else 'none'})")
    gains = Tally.of(same_maps(table))
    numbers = f"general maps: {'; '.join(listed)}; first on {first} of {len(listed)}. PolyNSD − NSD: {gains}"
    whole = first == len(listed) and gains.verdict == CONFIRMED
    return Finding(CONFIRMED if whole else PARTLY if first or gains.verdict != REFUTED else REFUTED, numbers)


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
    Claim(
        "C36",
        "At 60/20/20 PolyNSD beats NSD of the same maps everywhere and keeps up with MLPs.",
        "accuracy",
        malignant_suite,
        ("malignant",),
    ),
    Claim("C37", "On Film PolyNSD clearly beats MLPs.", "accuracy", film_against_mlp, ("malignant",)),
    Claim(
        "C39",
        "On the filtered graphs PolyNSD is best, by 3.2 and 5.1 points over NSD.",
        "accuracy",
        filtered_gains,
        ("filtered",),
    ),
    Claim(
        "C40",
        "On the new suite general maps are best on all five and every family beats its NSD.",
        "accuracy",
        new_suite,
        ("platonov",),
    ),
)
