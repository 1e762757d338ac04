"""The filtered Wikipedia graphs: the same pages without the copies that leak labels into the test set."""

from __future__ import annotations

from polynsd_paper.entrants import ENTRANTS, WITH_ADJACENCY
from polynsd_paper.experiment import Budget, Cell, Experiment
from polynsd_paper.leaderboard import searched


def _cell(dataset: str, model: str) -> Cell:
    return searched(dataset, model, {**ENTRANTS, **WITH_ADJACENCY}[model])


FILTERED = Experiment(
    "filtered",
    "every model on the Wikipedia graphs without copies",
    "geom-gcn",
    ("chameleon_filtered", "squirrel_filtered"),
    {"model": (*ENTRANTS, *WITH_ADJACENCY)},
    _cell,
    budgets=dict.fromkeys(
        ("chameleon_filtered", "squirrel_filtered"), Budget(trials=24, seconds=300, splits=3, finalists=3)
    ),
    minutes="7 s of an H200 per sheaf model and graph, 5 s per other",
)
