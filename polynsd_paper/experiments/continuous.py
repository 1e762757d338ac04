"""Models in continuous time; the paper's table of them is missing from its source.

continuous         the nine standard graphs, everything searched with a quarter of the trials of the
                   leaderboard, time T and steps of RK4 included. NSD and PolyNSD in continuous time for
                   three families of maps, identity maps as control, GRAND and CGNN as rivals, and the
                   discrete PolyNSD with 16 layers, which is as many products as four steps of RK4
continuous-sweep   K × T × steps of PolyNSD in continuous time with diagonal maps, nothing searched. Records
                   also tell how many evaluations dopri5 needs on the trained model, and how far RK4 is off
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from polynsd.config import ODEConfig
from polynsd.nn import SheafODE, count_evaluations
from polynsd.nn.integration import failures_as_nan
from polynsd.published import published_model, published_training
from polynsd.training.configuration import Configuration
from polynsd.training.problem import Problem
from polynsd_paper.experiment import Cell, Experiment
from polynsd_paper.experiments.models import FAMILIES, WIKIPEDIA, ModelRow
from polynsd_paper.experiments.searched import BUDGETS, STANDARD, row_cell

TIMES: dict[str, Any] = {
    "model.num_layers": 1,
    "model.ode.horizon": [0.5, 1.0, 2.0, 4.0],
    "model.ode.steps": [1, 2, 4],
}
DIFFUSION: dict[str, Any] = {
    "model.layer.filter": "diffusion",
    "model.layer.degree": 1,
    "model.layer.basis": "chebyshev1",
    "model.layer.coefficients": "convex",
    "model.layer.correction": "none",
}
EVALUATIONS = 16  # four steps of RK4
TRIALS = 16  # a quarter of a leaderboard's, as a training is several times as long
START: dict[str, Any] = {"model.ode.horizon": 1.0, "model.ode.steps": 4, "model.layer.stalk_dim": 3}


def _ode_row(group: str, fixed: dict[str, Any]) -> ModelRow:
    """A row whose search begins with the defaults, once with W₁ and W₂ and once with a full matrix."""
    starts = tuple({**START, "model.layer.mixing": mixing} for mixing in ("both", "full"))
    return ModelRow("sheaf-ode", fixed, group=group, ranges=TIMES, own_starts=starts)


ROWS: dict[str, ModelRow] = {
    **{f"polynsd-ode-{maps}": _ode_row("polynsd", {"model.layer.maps": maps}) for maps in FAMILIES},
    **{f"nsd-ode-{maps}": _ode_row("nsd", {"model.layer.maps": maps, **DIFFUSION}) for maps in FAMILIES},
    "identity-ode": _ode_row("identity", {"model.layer.maps": "identity", "training.sheaf_decay": 5e-4}),
    **{name: ModelRow(name, group=name) for name in ("grand", "grand-nl", "cgnn")},
    "polynsd-discrete": ModelRow(
        "polynsd",
        {"model.layer.maps": "diagonal", "model.num_layers": EVALUATIONS},
        group="polynsd",
        own_starts=({"model.layer.mixing": "both", "model.layer.stalk_dim": 3},),
    ),
}


def _searched_cell(dataset: str, model: str) -> Cell:
    return row_cell(dataset, model, ROWS[model])


CONTINUOUS = Experiment(
    "continuous",
    "models in continuous time on the nine standard graphs",
    "geom-gcn",
    STANDARD,
    {"model": tuple(ROWS)},
    _searched_cell,
    budgets={graph: replace(budget, trials=TRIALS) for graph, budget in BUDGETS.items()},
    minutes="170 to 250 s per cell of texas; 24 trials, twelve processes on an H200",
    paper="continuous time (not in its source)",
)

DEGREES, HORIZONS, STEPS = (1, 2, 4, 8), (0.5, 1.0, 2.0, 4.0), (1, 2, 4, 8, 16)
SETTINGS = {f"K={K} T={T:g}": (K, T) for K in DEGREES for T in HORIZONS}
DOPRI5, RK4_ERROR = "dopri5_evaluations", "rk4_error"


def measure_evaluations(problem: Problem, models: Sequence[nn.Module]) -> dict[str, list[float]]:
    """How often dopri5 evaluates ẋ of every model, and the distance of its logits from those of RK4.

    The distance is the largest one, relative to the largest logit. NaN where dopri5 gives up.
    """
    counts, errors = [], []
    with torch.no_grad(), failures_as_nan():
        for model in models:
            assert isinstance(model, SheafODE)
            model.eval()
            ours = model(problem.data.x, problem.data.edge_index)
            trained, model.ode = model.ode, ODEConfig(model.ode.horizon, "dopri5")
            with count_evaluations() as evaluations:
                exact = model(problem.data.x, problem.data.edge_index)
            model.ode = trained
            error = float((ours - exact).abs().max() / exact.abs().max())
            counts.append(float(evaluations.count) if error == error else torch.nan)
            errors.append(error)
    return {DOPRI5: counts, RK4_ERROR: errors}


def _sweep_cell(dataset: str, steps: int, setting: str) -> Cell:
    K, T = SETTINGS[setting]
    model = published_model(
        "sheaf-ode",
        hidden_channels=32,
        num_layers=1,
        input_dropout=0.5,
        second_linear=dataset in WIKIPEDIA,
        layer={"stalk_dim": 3, "degree": K, "dropout": 0.5, "gate": "none"},
        ode={"horizon": T, "steps": steps},
    )
    plan = Configuration(model, published_training())
    return Cell(dataset, {"steps": steps, "setting": setting}, plan, measure=measure_evaluations)


CONTINUOUS_SWEEP = replace(
    CONTINUOUS,
    name="continuous-sweep",
    title="degree, horizon and steps of PolyNSD in continuous time",
    datasets=("texas", "chameleon", "cora"),
    axes={"steps": STEPS, "setting": tuple(SETTINGS)},
    configure=_sweep_cell,
    seeds=1,
    budgets={},
    minutes="not measured yet",
    paper="",
    report="polynsd_paper.reports.continuous:report_evaluations",
)
