"""The small WebKB graphs by five times ten folds, beside their ten published splits.

A published split of texas tests 37 nodes, one node is 2.7 points, and some nodes are never tested. Here every
node is tested five times, 60/30/10. Of the two Cornells it is the one with its own labels; the usual file
carries those of Texas.
"""

from __future__ import annotations

from polynsd.data.protocols import REPEATED
from polynsd_paper.experiment import Budget, Cell, Experiment
from polynsd_paper.experiments.models import FAMILIES
from polynsd_paper.experiments.searched import searched_cell, with_controls

GRAPHS = ("texas", "wisconsin", "cornell_fixed")
ROWS = (
    *(f"{model}-{maps}" for model in ("polynsd", "nsd") for maps in FAMILIES), "polynsd-reference",
    "nsd-reference", "identity-sheaf", "poly-spectral", "mlp", "gcn", "sage", "gcnii", "gprgnn",
)  # fmt: skip


def _cell(dataset: str, model: str) -> Cell:
    return searched_cell(dataset, model, protocol=REPEATED)


WEBKB_FOLDS = Experiment(
    "webkb",
    "the WebKB graphs by repeated ten-fold splits",
    REPEATED,
    GRAPHS,
    {"model": with_controls(ROWS)},
    _cell,
    seeds=2,
    budgets=dict.fromkeys(GRAPHS, Budget(trials=24, seconds=600, splits=10, screen=3, run_off=10)),
    minutes="not measured yet",
)
