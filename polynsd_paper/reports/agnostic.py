"""What the polynomial filter adds to other sheaf networks, as a table and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from polynsd.report.panels import BASELINE, COLOURS, OTHERS, Panels, handle
from polynsd.stats.families import LOSS, TIE, UNDECIDED, WIN, Outcome
from polynsd_paper.claims.agnostic import RULE, compare_hosts
from polynsd_paper.claims.comparisons import select
from polynsd_paper.experiments.agnostic import BEND, HOSTS, WITH_FILTER
from polynsd_paper.measured import pool
from polynsd_paper.reports.section import figure_path, link_figure, make_section
from polynsd_paper.tables.formatting import NOT_RUN, gap_text, markdown_table
from polynsd_paper.tables.leaderboards import complete

if TYPE_CHECKING:
    from pandas import DataFrame

LOOKS = {WIN: COLOURS[0], LOSS: COLOURS[1], TIE: BASELINE, UNDECIDED: OTHERS}


def report_gains(cells: DataFrame, results: Path) -> str:
    """With the filter − as published, by network and graph; and how far filters are from lines."""
    family = compare_hosts(complete(cells))
    graphs = list(dict.fromkeys(cells["dataset"]))
    outcomes = {
        graph: {h: one for h in HOSTS if (one := family.outcomes.get(f"{h} on {graph}"))} for graph in graphs
    }
    panels = Panels(graphs, (3.4, 2.4), share_y=True)
    for axis, graph in zip(panels.axes, graphs, strict=True):
        axis.axvline(0, color=BASELINE, linewidth=0.8)
        for height, host in enumerate(reversed(HOSTS)):
            if host in outcomes[graph]:
                one = outcomes[graph][host]
                found, colour = one.comparison, LOOKS[one.verdict]
                axis.plot(100 * found.difference, height, "o", color=colour, markersize=5)
                axis.plot([100 * found.low, 100 * found.high], [height] * 2, color=colour, linewidth=1.5)
        axis.set_yticks(range(len(HOSTS)), reversed(HOSTS))
        axis.set_xlabel("points gained by the filter")
    handles = [handle(verdict, color=colour, marker="o") for verdict, colour in LOOKS.items()]
    title = "With the polynomial filter − as published"
    path = panels.finish(figure_path(cells, results, "gains"), title, handles)
    lines = [
        (host, *(_text(outcomes[graph].get(host)) for graph in graphs), _bend(cells, host)) for host in HOSTS
    ]
    text = (
        "With the polynomial filter − as published, in points, with 95 % intervals (each for itself); bold "
        f"after Holm's adjustment over all pairs, ≈ where a tie is shown: {family}. {RULE} The last column "
        "is how far trained filters are from lines, ‖p − nearest line‖ / ‖p‖ on [0, 2], median over splits, "
        "seeds and graphs; a published step is a line. In `san` and `ansd` the filter acts on attention made "
        "symmetric, so a difference there has two causes."
    )
    head = ("network", *graphs, "bend")
    return make_section("## What the filter adds", text, link_figure(path), markdown_table(head, lines))


def _text(outcome: Outcome | None) -> str:
    """`1.2 (0.3 to 2.1)`, bold where the difference is more than noise."""
    if outcome is None:
        return NOT_RUN
    text = gap_text(outcome.comparison, is_bold=outcome.verdict in (WIN, LOSS))
    return text + " ≈" * (outcome.verdict == TIE)


def _bend(cells: DataFrame, host: str) -> str:
    values = pool(select(cells, model=f"{host}{WITH_FILTER}"), BEND)
    return f"{np.median(values):.2f}" if len(values) else NOT_RUN
