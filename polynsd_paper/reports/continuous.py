"""How many evaluations an adaptive solver needs on trained models, over the horizon."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from polynsd.report.panels import Panels, handle, style
from polynsd_paper.claims.comparisons import select
from polynsd_paper.experiments.continuous import DEGREES, DOPRI5, HORIZONS, RK4_ERROR, STEPS
from polynsd_paper.measured import pool
from polynsd_paper.reports.section import figure_path, link_figure, make_section
from polynsd_paper.tables.formatting import NOT_RUN, markdown_table

if TYPE_CHECKING:
    from pandas import DataFrame


def report_evaluations(cells: DataFrame, results: Path) -> str:
    """Evaluations of dopri5 over T by degree, and how far RK4 is from it by its steps."""
    graphs = list(dict.fromkeys(cells["dataset"]))
    panels = Panels(graphs, (3.6, 2.6))
    for axis, dataset in zip(panels.axes, graphs, strict=True):
        for number, K in enumerate(DEGREES):
            chosen = [select(cells, dataset=dataset, setting=f"K={K} T={T:g}") for T in HORIZONS]
            counts = [_median(table, DOPRI5) for table in chosen]
            axis.plot(HORIZONS, counts, **style(number), markersize=4)
        axis.set(xlabel="horizon T", ylabel="evaluations of dopri5")
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter("{x:g}")
    handles = [handle(f"K={K}", **style(number)) for number, K in enumerate(DEGREES)]
    path = panels.finish(figure_path(cells, results, "evaluations"), "Evaluations of dopri5", handles)
    lines = []
    for dataset in graphs:
        for steps in STEPS:
            settings = [[f"K={K} T={T:g}" for K in DEGREES] for T in HORIZONS]
            chosen = [select(cells, dataset=dataset, steps=steps, setting=names) for names in settings]
            errors = [_median(table, RK4_ERROR) for table in chosen]
            texts = [NOT_RUN if np.isnan(error) else f"{error:.1e}" for error in errors]
            lines += [(dataset, str(steps), *texts)] if set(texts) != {NOT_RUN} else []
    head = ("dataset", "steps of RK4", *(f"T = {T:g}" for T in HORIZONS))
    text = (
        "Evaluations of ẋ by dopri5 (relative tolerance 1e−4) on the trained models, medians over splits and "
        "steps; below, the largest distance of the logits of RK4 from those of dopri5, relative to the "
        "largest logit, medians over splits and degrees."
    )
    table = markdown_table(head, lines, left=2)
    return make_section("## What was measured", text, link_figure(path), table)


def _median(cells: DataFrame, name: str) -> float:
    values = pool(cells, name)
    values = values[np.isfinite(values)]
    return float(np.median(values)) if len(values) else np.nan
