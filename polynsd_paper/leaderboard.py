"""The leaderboard: every model of the zoo on the nine standard graphs, each searched with the same budget."""

from __future__ import annotations

from typing import Any

from polynsd.training.problem import Source
from polynsd_paper.entrants import ENTRANTS, PUBLISHED_WEBKB, WITH_ADJACENCY, Entrant
from polynsd_paper.experiment import Budget, Cell, Experiment

DATASETS = ("texas", "wisconsin", "cornell", "film", "squirrel", "chameleon", "citeseer", "pubmed", "cora")
CORRECTED = ("cornell_fixed",)  # beside the nine: Cornell with its own features and labels
WIKIPEDIA = ("squirrel", "chameleon")
WEBKB = ("texas", "wisconsin", "cornell", "cornell_fixed")
SMALL = Budget(trials=24, seconds=600, splits=10, screen=3)  # so small that three splits are mostly noise
MIDDLE = Budget(trials=24, seconds=300, splits=2, finalists=3)
LARGE = Budget(trials=20, seconds=300, splits=1, finalists=3)
BUDGETS = {
    **dict.fromkeys(WEBKB, SMALL),
    **dict.fromkeys(("chameleon", "citeseer", "cora"), MIDDLE),
    **dict.fromkeys(("film", "pubmed", "squirrel"), LARGE),
}


# Validation accuracy on some fifty nodes is mostly noise, so the loss chooses the epoch; with much dropout it
# goes on falling for hundreds of epochs, with pauses.
FEW_NODES: dict[str, Any] = {
    "training.select": "loss",
    "training.patience": 200,
    "model.layer.fixed_channels": [[], ["laplacian"], ["laplacian", "signless"]],
}


def searched(dataset: str, model: str, entrant: Entrant, protocol: str = "geom-gcn") -> Cell:
    """A cell that is searched, by the rules of its entrant."""
    features = "raw" if dataset in WIKIPEDIA else None  # better on validation than the dataset's own rule
    source = Source(dataset, protocol=protocol, features=entrant.features or features)
    is_small = dataset in WEBKB
    is_common = entrant.is_sheaf and not entrant.own_starts
    starts = (PUBLISHED_WEBKB, *entrant.starts[1:]) if is_small and is_common else entrant.starts
    space = entrant.space(FEW_NODES if is_small else {})
    return Cell(dataset, {"model": model}, space, sources=(source,), starts=starts)


def _cell(dataset: str, model: str) -> Cell | None:
    if model in WITH_ADJACENCY and dataset not in WIKIPEDIA:
        return None
    return searched(dataset, model, {**ENTRANTS, **WITH_ADJACENCY}[model])


LEADERBOARD = Experiment(
    "leaderboard",
    "every model on the nine standard graphs",
    "geom-gcn",
    (*DATASETS, *CORRECTED),
    {"model": (*ENTRANTS, *WITH_ADJACENCY)},
    _cell,
    budgets=BUDGETS,
    minutes="13 s of an H200 per sheaf model and graph, 3 s per other",
)
