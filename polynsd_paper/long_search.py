"""PolyNSD alone, searched longer: how far it goes where the equal budget of the tables was not enough.

The family of maps is searched too. It is compared with nobody: others had fewer trials, and the graphs and
first shapes were picked when the leaderboard had been seen, its test scores included.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from polynsd.training.problem import Source
from polynsd_paper.entrants import CONSTANT, CONSTANT_STARTS, FAMILIES, PUBLISHED_WEBKB, STARTS, Entrant
from polynsd_paper.experiment import Budget, Cell, Experiment
from polynsd_paper.leaderboard import FEW_NODES, WEBKB

WIKIPEDIA = ("squirrel", "chameleon", "squirrel_filtered", "chameleon_filtered")
OTHERS = ("film", "citeseer", "cora", "wisconsin", "cornell")
PATIENT: dict[str, Any] = {"training.patience": 100}
_DEEP, _SECOND, _, _PUBLISHED = STARTS
_NORMALISED = {**_DEEP, "model.layer.norm": "layer"}
_SHALLOW = {**_DEEP, "model.num_layers": 1}
LONG_STARTS = (_NORMALISED, _DEEP, _PUBLISHED, _SHALLOW, _SECOND)  # what searches of the leaderboard chose
# Two and four times as wide: eight layers with shortcuts, filters from one hop on.
_WIDE = {"model.hidden_channels": [64, 128]}
WIDE_STARTS = tuple({**CONSTANT_STARTS[1], "model.hidden_channels": width} for width in (128, 64))
_MAPS = {"model.layer.maps": list(FAMILIES)}
ROWS = {
    "polynsd": Entrant("polynsd", _MAPS),
    "polynsd+adjacency": Entrant("polynsd", _MAPS, features="adjacency"),
    "polynsd-constant": CONSTANT,
    "polynsd-constant+adjacency": replace(CONSTANT, features="adjacency"),
    "polynsd-wide": replace(CONSTANT, wider={**CONSTANT.wider, **_WIDE}, own_starts=WIDE_STARTS),
}


def _cell(dataset: str, model: str) -> Cell | None:
    entrant, is_wikipedia, is_small = ROWS[model], dataset in WIKIPEDIA, dataset in WEBKB
    if entrant.features and not is_wikipedia:
        return None
    source = Source(dataset, features=entrant.features or ("raw" if is_wikipedia else None))
    space = entrant.space({**PATIENT, **(FEW_NODES if is_small else {})})
    common = (PUBLISHED_WEBKB, *LONG_STARTS[1:]) if is_small else LONG_STARTS
    return Cell(dataset, {"model": model}, space, sources=(source,), starts=entrant.own_starts or common)


LONG_SEARCH = Experiment(
    "long-search",
    "PolyNSD alone, searched longer",
    "geom-gcn",
    (*WIKIPEDIA, *OTHERS),
    {"model": tuple(ROWS)},
    _cell,
    budgets={
        **dict.fromkeys((*WIKIPEDIA, *OTHERS), Budget(trials=48, seconds=900, splits=2, finalists=4)),
        **dict.fromkeys(
            ("wisconsin", "cornell"), Budget(trials=48, seconds=3600, splits=10, screen=3, finalists=5)
        ),
    },
    minutes="37 s of an H200 for chameleon, 90 s for filtered chameleon with wide models",
)
