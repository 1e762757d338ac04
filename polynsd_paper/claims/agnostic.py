"""Whether the polynomial filter may replace the step of any sheaf network, and whether that pays. (C06)"""

from __future__ import annotations

from collections import Counter
from statistics import fmean
from typing import TYPE_CHECKING

from polynsd.stats import Family, judge_family
from polynsd.stats.families import LOSS, TIE, WIN
from polynsd_paper.claims.claim import CONFIRMED, MIN_COVERAGE, PARTLY, REFUTED, UNDECIDED, Finding, check
from polynsd_paper.claims.comparisons import complete_cells, find_cell
from polynsd_paper.experiments.agnostic import GRAPHS, HOSTS, WITH_FILTER
from polynsd_paper.tables.leaderboards import compare_cells

if TYPE_CHECKING:
    from pandas import DataFrame

RULE = (
    "A network gains where the filter wins on more graphs than it loses on (paired over splits, "
    "Holm-adjusted over all networks and graphs). It does not where it loses on as many, or wins on none and "
    "ties or loses on half of them at least. Networks with five of the six graphs count. The claim is about "
    "any network: refuted where one does not gain, confirmed where all do, partly true where some do."
)


def compare_hosts(cells: DataFrame) -> Family:
    """With the filter − as published, for every network and graph that has both: `conn-nsd on texas`."""
    found = {}
    for host in HOSTS:
        for graph in GRAPHS:
            pair = [find_cell(cells, dataset=graph, model=f"{host}{end}") for end in (WITH_FILTER, "")]
            comparison = compare_cells(*pair)
            if comparison is not None:
                found[f"{host} on {graph}"] = comparison
    return judge_family(found)


@check("C06")
def check_other_networks(records: DataFrame) -> Finding:
    """Which networks gain, by `RULE`."""
    family = compare_hosts(complete_cells(records, "agnostic"))
    gains, fails, judged, texts = 0, 0, 0, []
    for host in HOSTS:
        outcomes = [one for name, one in family.outcomes.items() if name.startswith(f"{host} on ")]
        if not outcomes:
            continue
        counts = Counter(outcome.verdict for outcome in outcomes)
        wins, losses, ties = (counts[verdict] for verdict in (WIN, LOSS, TIE))
        points = 100 * fmean(outcome.comparison.difference for outcome in outcomes)
        of = "" if len(outcomes) == len(GRAPHS) else f" on {len(outcomes)} graphs"
        texts.append(f"{host} {points:+.2f} points{of} ({wins} wins, {losses} losses, {ties} ties)")
        if len(outcomes) >= MIN_COVERAGE * len(GRAPHS):
            judged += 1
            gains += wins > losses
            fails += 0 < losses >= wins or (wins == 0 and 2 * (ties + losses) >= len(outcomes))
    if fails or not gains:
        verdict = REFUTED if fails else UNDECIDED
    else:
        verdict = CONFIRMED if gains == judged else PARTLY
    evidence = f"with the filter − as published: {'; '.join(texts) or 'nothing to compare'}"
    found = Finding(verdict, evidence, number=f"{gains} of {judged} networks gain")
    return found.require(judged, len(HOSTS), "networks", has_counterexample=True)
