"""The suites besides the nine standard graphs: malignant, filtered and new. (C36, C37, C39, C40)"""

from __future__ import annotations

from polynsd_paper.boards import OURS
from polynsd_paper.claims.accuracy import LUAN, against_best, place
from polynsd_paper.claims.claim import (
    CONFIRMED,
    NOT_TESTABLE,
    PARTLY,
    REFUTED,
    Claim,
    Evidence,
    Finding,
)
from polynsd_paper.claims.parts import LEAST, Part, combine, counted, covered, universal
from polynsd_paper.claims.readers import (
    Table,
    best_polynsd,
    compared,
    methods,
    percent,
    same_maps,
)
from polynsd_paper.claims.tally import Tally
from polynsd_paper.experiments import get_experiment
from polynsd_paper.experiments.models import FAMILIES
from polynsd_paper.published import Published, find_published
from polynsd_paper.records import Record

FILTERED = {"chameleon_filtered": 0.0322, "squirrel_filtered": 0.0511}  # the printed gains
GENERAL, BUNDLE = "polynsd-general", "polynsd-orthogonal"


def malignant_suite(evidence: Evidence) -> Finding:
    """60/20/20: everywhere better than NSD of the same maps, and not behind the MLP."""
    table, graphs = Table.of(evidence, "malignant"), len(get_experiment("malignant").datasets)
    nsd = Tally.of(same_maps(table, **LUAN))
    mlp = Tally.of(
        compared(best_polynsd(table, d, **LUAN), table.find(d, **LUAN, model="mlp")) for d in table.datasets
    )
    main, worse = Part(nsd.always, f"PolyNSD − NSD: {nsd}", decisive=True), nsd.has_counterexample
    rest = Part(mlp.keeps_up(), f"PolyNSD − MLP: {mlp.not_worse}")
    return combine(
        universal(main, len(nsd), len(FAMILIES) * graphs, "cells", counterexample=worse, least=LEAST),
        covered(rest, len(mlp), graphs, "datasets with an MLP"),
    )


def film_against_mlp(evidence: Evidence) -> Finding:
    """On Film alone: under the rule of the claim, and under the other that is called 60/20/20."""
    table = Table.of(evidence, "malignant")
    return combine(_on_film(table, LUAN["rule"], True), _on_film(table, "random-60-20-20", False))


def _on_film(table: Table, rule: str, decisive: bool) -> Part:
    gap = compared(best_polynsd(table, "film", rule=rule), table.find("film", rule=rule, model="mlp"))
    if gap is None:
        return Part(NOT_TESTABLE, f"needs PolyNSD of all maps and mlp on film under {rule}", decisive)
    verdict = CONFIRMED if gap.low > 0 else REFUTED
    return Part(verdict, f"PolyNSD − MLP on film, {rule}: {gap}; printed +2.9", decisive)


def filtered_gains(evidence: Evidence) -> Finding:
    """General maps against NSD's, by how much, and the place among all architectures."""
    table = Table.of(evidence, "filtered")
    gains = [_gain(table, dataset, printed) for dataset, printed in FILTERED.items()]
    verdicts = {part.verdict for part in gains}
    size = Part(
        verdicts.pop() if len(verdicts) == 1 else NOT_TESTABLE if NOT_TESTABLE in verdicts else PARTLY,
        f"PolyNSD − NSD, general maps: {'; '.join(part.numbers for part in gains)}",
        decisive=True,
    )
    places = {dataset: found for dataset in FILTERED if (found := place(table, dataset)) is not None}
    first = sum(number == 1 for number, _ in places.values())
    listed = ", ".join(f"{dataset} {number} of {count}" for dataset, (number, count) in places.items())
    best = Part(
        counted(first, len(places) - first, len(FILTERED)),
        f"place, maps and variants of all architectures chosen on validation: {listed}",
    )
    behind = against_best(table, places).worse > 0  # a place alone may be noise
    return combine(
        size, universal(best, len(places), len(FILTERED), "ranked datasets", counterexample=behind)
    )


def _gain(table: Table, dataset: str, printed: float) -> Part:
    gap = compared(table.find(dataset, model=GENERAL), table.find(dataset, model="nsd-general"))
    if gap is None:
        return Part(NOT_TESTABLE, f"needs general maps of both on {dataset}")
    return Part(gap.verdict(printed), f"{dataset} {gap} (printed {100 * printed:+.2f})")


def new_suite(evidence: Evidence) -> Finding:
    """General maps first on all five, at the printed values; bundles; gains over NSD."""
    table, printed = Table.of(evidence, "platonov"), evidence.published("platonov")
    graphs = len(get_experiment("platonov").datasets)
    found = {d: record for d in table.datasets if (record := table.find(d, model=GENERAL)) is not None}
    gains = Tally.of(same_maps(table))
    worse = gains.has_counterexample
    rest = Part(gains.always, f"PolyNSD − NSD of the same maps: {gains}")
    return combine(
        _general_first(table, found, graphs),
        _as_printed(found, printed, graphs),
        _bundle_in_front(table, found, graphs),
        universal(rest, len(gains), len(FAMILIES) * graphs, "cells", counterexample=worse, least=LEAST),
    )


def _ahead(table: Table, dataset: str, model: str) -> list[Record]:
    """Those of PolyNSD's other maps and of the other architectures that have a greater test mean."""
    others = [one for name, one in methods(table.where(dataset)).items() if name != "polynsd"]
    others += [one for one in table.where(dataset) if one.cell["model"] in OURS]
    return [one for one in others if one.mean > table.where(dataset, model=model)[0].mean]


def _general_first(table: Table, found: dict[str, Record], graphs: int) -> Part:
    ahead = {dataset: _ahead(table, dataset, GENERAL) for dataset in found}
    first = sum(not others for others in ahead.values())
    verdict = counted(first, len(found) - first, len(found))
    part = Part(verdict, f"general maps are first on {first} of {len(found)} datasets", decisive=True)
    gaps = Tally.of(compared(found[dataset], other) for dataset in found for other in ahead[dataset])
    return universal(part, len(found), graphs, "datasets", counterexample=gaps.worse > 0)


def _as_printed(found: dict[str, Record], printed: list[Published], graphs: int) -> Part:
    """Not below the printed value by more than a standard deviation, the greater of theirs and ours."""
    listed, reached, missed = [], 0, 0
    for dataset, record in found.items():
        number = find_published(printed, dataset, {"model": GENERAL})
        if number is None or number.mean is None:
            continue
        floor = number.mean - max(number.std or 0.0, 100 * record.std)
        reached, missed = reached + (100 * record.mean >= floor), missed + (100 * record.mean < floor)
        listed.append(f"{dataset} {percent(record)} (printed {number.mean})")
    numbers = f"values within one deviation of the printed ones on {reached}: {', '.join(listed)}"
    part = Part(counted(reached, missed, reached + missed), numbers)
    return universal(part, reached + missed, graphs, "datasets", counterexample=missed > 0)


def _bundle_in_front(table: Table, found: dict[str, Record], graphs: int) -> Part:
    ranked = [dataset for dataset in found if table.where(dataset, model=BUNDLE)]
    front = sum(len(_ahead(table, dataset, BUNDLE)) < 3 for dataset in ranked)
    missed = len(ranked) - front
    verdict = CONFIRMED if missed <= 1 else REFUTED if 2 * missed >= len(ranked) else PARTLY
    numbers = f"bundles are among the first three on {front} of {len(ranked)}, claimed are all but one"
    return covered(Part(verdict, numbers), len(ranked), graphs, "datasets with bundles", least=1.0)


CLAIMS = (
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
        "On the new suite general maps are best on all five, bundles among the first three on four, and all "
        "families beat their NSD.",
        "accuracy",
        new_suite,
        ("platonov",),
    ),
)
