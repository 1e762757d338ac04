"""Models in continuous time: the closed form, the gain over NSD, and whether diagonal maps suffice. (C62)"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from polynsd.nn import SheafODE
from polynsd.nn.inputs import prepare_graph
from polynsd.testing.samples import random_edges
from polynsd_paper.claims.claim import Finding, check, combine, confirm_if
from polynsd_paper.claims.comparisons import by_dataset, compare_options, complete_cells, find_cell, select
from polynsd_paper.claims.gaps import Gaps
from polynsd_paper.experiments import get_experiment
from polynsd_paper.experiments.models import FAMILIES
from polynsd_paper.tables.leaderboards import best_on_validation, compare_cells

if TYPE_CHECKING:
    from pandas import DataFrame

CLOSE = 1e-6  # relative distance of the solver from the closed form


def measure_closed_form(horizon: float = 1.0, steps: int = 64) -> float:
    """The largest relative distance of x(T) from Σ_λ exp(−T q(λ)) v_λ v_λᵀ x(0), on a sheaf that stays."""
    torch.manual_seed(0)
    N = 20
    x, edge_index = torch.randn(N, 5, dtype=torch.float64), random_edges(N, 40)
    model = SheafODE(
        5, 3, 1, 2, maps="general", degree=4, mixing="none", activation="identity", maps_at="start",
        horizon=horizon, steps=steps,
    ).double().eval()  # fmt: skip
    with torch.no_grad():
        start, layer, ends = model.encode(x), model.layers[0], []
        L = layer.laplacian(start, *prepare_graph(x, edge_index)).to_dense()  # type: ignore[operator]
        lam, modes = torch.linalg.eigh(L)
        decay = (-horizon * layer.filter.response(lam)).exp()  # type: ignore[operator, union-attr]
        model.decoder.register_forward_pre_hook(lambda module, given: ends.append(given[0]))
        model(x, edge_index)
        expected = modes @ (decay[:, None] * (modes.T @ start.flatten(0, 1)))
        end = ends[0].reshape(expected.shape)
        return float((end - expected).abs().max() / expected.abs().max())


@check("C62")
def check_continuous_time(records: DataFrame) -> Finding:
    """The closed form on a random sheaf; PolyNSD − NSD of the same maps; diagonal − the better other maps."""
    error = measure_closed_form()
    cells, total = complete_cells(records, "continuous"), len(get_experiment("continuous").datasets)
    pairs = [({"model": f"polynsd-ode-{maps}"}, {"model": f"nsd-ode-{maps}"}) for maps in FAMILIES]
    gain = compare_options(cells, pairs)
    comparisons = []
    for table in by_dataset(cells):
        others = select(table, model=[f"polynsd-ode-{maps}" for maps in FAMILIES[1:]])
        rival = best_on_validation(others) if len(others) == 2 else None
        comparisons.append(compare_cells(find_cell(table, model="polynsd-ode-diagonal"), rival))
    title = "diagonal − the better other maps on validation"
    return combine(
        confirm_if(error < CLOSE, f"a frozen linear sheaf: RK4 is {error:.0e} from exp(−T q(λ)), relative"),
        gain.judge_mostly_better("PolyNSD − NSD", len(FAMILIES) * total, "cells", is_decisive=True),
        Gaps(comparisons).judge_as_good(title, total, "datasets", may_be_worse=0.5),
    )
