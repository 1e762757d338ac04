"""Stalk dimension: d varies, everything else is fixed."""

from __future__ import annotations

from polynsd_paper.entrants import FAMILIES
from polynsd_paper.experiment import Cell, Experiment
from polynsd_paper.fixed import RULES, sheaf


def _cell(dataset: str, maps: str, stalk_dim: int) -> Cell:
    options = {"maps": maps, "stalk_dim": stalk_dim}
    return Cell(dataset, options, sheaf(dataset, maps=maps, stalk_dim=stalk_dim), RULES)


STALK = Experiment(
    "stalk",
    "test metric against the dimension of the stalks",
    "geom-gcn",
    ("pubmed", "cora", "texas", "film"),
    {"maps": FAMILIES, "stalk_dim": (2, 3, 4, 5)},
    _cell,
    minutes="35 s of a CPU core per cell of texas; others not measured yet",
)
