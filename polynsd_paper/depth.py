"""Depth: what happens to each model as layers are stacked, everything else fixed."""

from __future__ import annotations

from polynsd_paper.experiment import Cell, Experiment
from polynsd_paper.fixed import RULES, named

MODELS = (
    "polynsd-diagonal", "polynsd-orthogonal", "polynsd-general", "nsd-diagonal", "nsd-orthogonal",
    "nsd-general", "identity-sheaf", "ansd", "gcn", "gat", "pairnorm", "gcnii", "ggcn", "gprgnn", "h2gcn",
)  # fmt: skip
STEPS = {"gprgnn": "degree"}  # its depth is the number of propagation steps
DEEPEST = {"h2gcn": 4}  # its width doubles twice with every layer


def _cell(dataset: str, model: str, layers: int) -> Cell | None:
    if layers > DEEPEST.get(model, layers):
        return None
    changes = {STEPS[model]: layers} if model in STEPS else {"layers": layers}
    return Cell(dataset, {"model": model, "layers": layers}, named(dataset, model, **changes), RULES)


DEPTH = Experiment(
    "depth",
    "test metric against the number of layers",
    "geom-gcn",
    ("cora", "citeseer", "cornell", "chameleon"),
    {"model": MODELS, "layers": (2, 4, 8, 16, 32)},
    _cell,
    minutes="40 s of a CPU core per cell of cornell",
)
