"""The polynomial filter in other sheaf networks: each as published, and with p(L) in place of its step.

Both rows of a model have the same budget, the same training rules and the same ranges; with the filter, its
degree, basis and coefficients are searched as well. Records also tell how far trained filters are from lines:
a line in L is what the published step can do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import torch
from torch import nn

from polynsd.search.spaces import published_options
from polynsd.training.configuration import dotted
from polynsd.training.problem import Problem
from polynsd.zoo import ZOO
from polynsd_paper.experiment import Cell, Experiment
from polynsd_paper.experiments.models import FILTER, ModelRow
from polynsd_paper.experiments.searched import BUDGETS, row_cell

HOSTS = ("conn-nsd", "san", "ansd", "risnn", "jdsnn", "vanilla-sheaf")
GRAPHS = ("texas", "film", "chameleon", "squirrel", "cora", "citeseer")
WITH_FILTER = "+filter"  # behind the name of a host
BEND = "bend"
TRIALS = 32  # half of a leaderboard's: twelve rows per graph
RANGES = {
    "model.options.degree": [2, 4, 8],  # degree 1 is the host without it
    "model.options.basis": FILTER["model.layer.basis"],
    "model.options.coefficients": ["own", "convex"],
}
START = {"degree": 4, "basis": "chebyshev1", "coefficients": "own"}


def _filtered_row(host: str) -> ModelRow:
    starts = ({**published_options(host), **dotted("model.options", START)},)
    return ModelRow(host, group=ZOO[host].class_name, ranges=RANGES, own_starts=starts)


ROWS: dict[str, ModelRow] = {
    name: row
    for host in HOSTS
    for name, row in (
        (host, ModelRow(host, group=ZOO[host].class_name)),
        (host + WITH_FILTER, _filtered_row(host)),
    )
}


@torch.no_grad()
def measure_bend(problem: Problem, models: Sequence[nn.Module]) -> dict[str, list[float]]:
    """How far the filters of every model are from lines: ‖p − the nearest line‖ / ‖p‖, mean over layers.

    Over equal steps of λ in [0, 2], the spectrum of a normalised sheaf.
    """
    lam = torch.linspace(0, 2, 201, dtype=torch.float64, device=problem.data.x.device)
    line = torch.linalg.qr(torch.stack([torch.ones_like(lam), lam], -1)).Q
    bends = []
    for model in models:
        responses = [layer.filter.response(lam) for layer in model.layers]  # type: ignore[union-attr]
        bends.append(fmean(float((p - line @ (line.T @ p)).norm() / p.norm()) for p in responses))
    return {BEND: bends}


def _cell(dataset: str, model: str) -> Cell:
    cell = row_cell(dataset, model, ROWS[model])
    return replace(cell, measure=measure_bend) if model.endswith(WITH_FILTER) else cell


AGNOSTIC = Experiment(
    "agnostic",
    "other sheaf networks with and without the polynomial filter",
    "geom-gcn",
    GRAPHS,
    {"model": tuple(ROWS)},
    _cell,
    budgets={graph: replace(BUDGETS[graph], trials=TRIALS) for graph in GRAPHS},
    minutes="45–140 s per cell of texas, 30–48 s of cora (24 trials, twelve processes on an H200), "
    "170–350 s of film and chameleon (32 trials, beside large trainings)",
    report="polynsd_paper.reports.agnostic:report_gains",
)
