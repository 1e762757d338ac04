"""Many layers, and a higher degree in their stead. (C41 to C43, C48)"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from polynsd_paper.boards import OURS
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
from polynsd_paper.claims.readers import Table, compared, interval
from polynsd_paper.claims.tally import CHANCE, MARGIN, Gap, Tally, none_beyond
from polynsd_paper.experiments import get_experiment
from polynsd_paper.experiments.models import FAMILIES
from polynsd_paper.experiments.sweeps import DEEPEST

SHALLOW, DEEP = 2, 32
PLAIN = ("gcn", "pairnorm")
MANY = 16  # layers, from which on the claim is about
LARGEST_CLASS = {"cora": 0.302, "citeseer": 0.211, "cornell": 0.552, "chameleon": 0.229}
NODES = {"cora": 2708, "citeseer": 3327, "cornell": 183, "chameleon": 2277}
WIDTH, GPU = 64, 80  # hidden channels of H2GCN; GB of the device that the paper names


def _drops(table: Table, dataset: str, model: str) -> list[Gap]:
    """Every greater depth − 2 layers; empty unless there are 32."""
    first = table.find(dataset, model=model, layers=SHALLOW)
    deeper = [one for one in table.where(dataset, model=model) if int(one.cell["layers"]) > SHALLOW]
    if not any(one.cell["layers"] == DEEP for one in deeper):
        return []
    return [gap for one in deeper if (gap := compared(one, first)) is not None]


def _falls(table: Table, models: Sequence[str]) -> tuple[int, int, list[list[Gap]]]:
    """Rows that stay within the margin of two layers at all depths, rows that fall below it, and all."""
    rows = [gaps for d in table.datasets for model in models if (gaps := _drops(table, d, model))]
    verdicts = [none_beyond(gaps) for gaps in rows]
    return verdicts.count(CONFIRMED), verdicts.count(REFUTED), rows


def depth_stability(evidence: Evidence) -> Finding:
    """Whether PolyNSD falls at any depth up to 32, and whether plain models do."""
    table, graphs = Table.of(evidence, "depth"), len(get_experiment("depth").datasets)
    steady, fallen, rows = _falls(table, OURS)
    least = min((gap.difference for gaps in rows for gap in gaps), default=0.0)
    falls = fallen > CHANCE * len(rows)
    ours = Part(
        REFUTED if falls else CONFIRMED if steady == len(rows) else PARTLY,
        f"PolyNSD, all depths up to {DEEP} against {SHALLOW} layers: within {100 * MARGIN:g} points in "
        f"{steady}, lower by more in {fallen} of {len(rows)} rows (95 %, paired); lowest {100 * least:+.1f}",
        decisive=True,
    )
    _, sunk, plain = _falls(table, PLAIN)
    others = Part(
        CONFIRMED if 2 * sunk > len(plain) else REFUTED if not sunk else PARTLY,
        f"{' and '.join(PLAIN)} fall in {sunk} of {len(plain)}",
    )
    return combine(
        universal(ours, len(rows), len(FAMILIES) * graphs, "rows", counterexample=falls, least=LEAST),
        covered(others, len(plain), len(PLAIN) * graphs, f"rows of {' and '.join(PLAIN)}"),
    )


def depth_against_nsd(evidence: Evidence) -> Finding:
    """What NSD loses from 2 to 32 layers less what PolyNSD loses, split by split."""
    table, graphs = Table.of(evidence, "depth"), len(get_experiment("depth").datasets)
    tally = Tally.of(_less_lost(table, d, maps) for d in table.datasets for maps in FAMILIES)
    steady, fallen, rows = _falls(table, [f"nsd-{maps}" for maps in FAMILIES])
    part = Part(
        tally.mostly,
        f"loss of NSD − loss of PolyNSD from {SHALLOW} to {DEEP} layers: {tally}. NSD itself falls by more "
        f"than {100 * MARGIN:g} points in {fallen} of {len(rows)} rows and does not in {steady}",
    )
    return combine(covered(part, len(tally), len(FAMILIES) * graphs, "rows"))


def _less_lost(table: Table, dataset: str, maps: str) -> Gap | None:
    cells = [
        table.find(dataset, model=f"{kind}-{maps}", layers=layers)
        for kind in ("polynsd", "nsd")
        for layers in (DEEP, SHALLOW)
    ]
    found = [one for one in cells if one is not None]
    if len(found) < 4 or len({len(one.by_split()) for one in found}) > 1:
        return None
    deep, shallow, nsd_deep, nsd_shallow = (one.by_split().mean(1, keepdims=True) for one in found)
    return interval(deep - shallow, nsd_deep - nsd_shallow, found[0])


def failures_at_depth(evidence: Evidence) -> Finding:
    """Whether GAT learns with 16 and 32 layers; what H2GCN would need there."""
    table = Table.of(evidence, "depth")
    return combine(_unstable_gat(table), _memory_of_h2gcn(table))


def _unstable_gat(table: Table) -> Part:
    """Scores may be finite and still no better than the largest class; a training that fails has none."""
    cells = [one for one in table.where(model="gat") if int(one.cell["layers"]) >= MANY]
    learned = [
        one for one in cells if isfinite(one.mean) and one.mean > LARGEST_CLASS.get(one.dataset, 1.0) + MARGIN
    ]
    listed = ", ".join(f"{one.dataset} L = {one.cell['layers']}: {100 * one.mean:.1f}" for one in cells)
    part = Part(
        REFUTED if cells and len(learned) == len(cells) else PARTLY,
        f"GAT with {MANY} layers or more: {len(learned)} of {len(cells)} cells are above the share of the "
        f"largest class by {100 * MARGIN:g} points ({listed}). Others have finite scores but learned "
        "nothing, which is no instability of numbers; a training that diverges leaves no record, so a "
        "missing cell says neither",
    )
    depths = [n for n in get_experiment("depth").axes["layers"] if n >= MANY]
    return covered(part, len(cells), len(depths) * len(LARGEST_CLASS), "cells of GAT", least=0.5)


def _memory_of_h2gcn(table: Table) -> Part:
    """The last state has C (2^(L+1) − 1) columns; training holds it and the rounds that it is made of."""
    ran = [one for one in table.where(model="h2gcn") if int(one.cell["layers"]) >= MANY]
    if ran:
        return Part(REFUTED, f"H2GCN trained with {MANY} layers or more in {len(ran)} cells")
    need = {name: 2 * 4e-9 * nodes * WIDTH * (2 ** (MANY + 1) - 1) for name, nodes in NODES.items()}
    listed = ", ".join(f"{name} {size:.0f}" for name, size in need.items())
    over = sum(size > GPU for size in need.values())
    numbers = (
        f"H2GCN is not run beyond {DEEPEST['h2gcn']} layers here; its width doubles with every layer, so "
        f"that the states alone take at L = {MANY} (GB, C = {WIDTH}): {listed}, above {GPU} on {over} of "
        f"{len(need)}"
    )
    return Part(PARTLY if table.where(model="h2gcn") else NOT_TESTABLE, numbers)


def depth_by_degree(evidence: Evidence) -> Finding:
    """Two layers of degree 2K against more layers of degree 4 with the same reach."""
    table, graphs = Table.of(evidence, "nsd-vs-poly"), len(get_experiment("nsd-vs-poly").datasets)
    reaches = ((8, 4), (16, 8))  # K of two layers, and layers of degree 4: reach 16 and 32
    tally = Tally.of(
        compared(table.find(d, model=model, K=K), table.find(d, model=model, layers=layers))
        for d in table.datasets
        for model in OURS
        for K, layers in reaches
    )
    part = Part(
        tally.same,
        f"L = 2 with K = 8 or 16 − L = 4 or 8 with K = 4, at equal reach: {tally.points:+.2f} points on "
        f"average; {tally.equality}",
    )
    return combine(covered(part, len(tally), len(reaches) * len(OURS) * graphs, "pairs"))


CLAIMS = (
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
    Claim("C48", "A higher K does the work of more layers.", "accuracy", depth_by_degree, ("nsd-vs-poly",)),
)
