"""The heterophilous graphs of Platonov et al., 50/25/25, with their own metrics.

These graphs reward depth: the spaces hold deeper and normalised models than those of the leaderboard, for all
models alike, and trainings are longer.
"""

from __future__ import annotations

from typing import Any

from polynsd.experiments.entrants import ENTRANTS, Entrant
from polynsd.experiments.experiment import Budget, Cell, Experiment
from polynsd.experiments.source import Source

DATASETS = ("roman_empire", "amazon_ratings", "minesweeper", "tolokers", "questions")
DEEPER: dict[str, Any] = {
    "model.num_layers": [4, 8],
    "model.hidden_channels": [32, 64],
    "model.layer.stalk_dim": [2, 4],
    "model.layer.degree": [1, 2, 4],
    "model.layer.norm": ["layer", "batch"],
    "model.layer.dropout": {"low": 0.0, "high": 0.5, "step": 0.1},
    "model.input_dropout": {"low": 0.0, "high": 0.2, "step": 0.1},
    "training.epochs": 1000,
    "training.patience": 200,
    "training.weight_decay": {"low": 1e-6, "high": 1e-3, "log": True},
    "training.sheaf_decay": {"low": 1e-6, "high": 1e-3, "log": True},
}
PLAIN_WIDTHS = [64, 128, 256]  # in total; those of sheaf models are per stalk coordinate


def _cell(dataset: str, model: str) -> Cell:
    entrant = ENTRANTS[model]
    is_sheaf = "model.layer.stalk_dim" in entrant.space().rules
    deeper = DEEPER if is_sheaf else {**DEEPER, "model.hidden_channels": PLAIN_WIDTHS}
    source = Source(dataset, protocol="platonov")
    return Cell(dataset, {"model": model}, entrant.space(deeper), sources=(source,), starts=_starts(entrant))


def _starts(entrant: Entrant) -> tuple[dict[str, Any], ...]:
    """Eight normalised layers, narrow and wide, for all sheaf models."""
    deep = {"model.num_layers": 8, "model.layer.norm": "layer", "model.layer.activation": "relu"}
    free = {"model.layer.coefficients": "free", "model.layer.degree": 2, "model.layer.mixing": "full"}
    return (
        ({**deep, **free, "model.hidden_channels": 64, "model.layer.stalk_dim": 2},) if entrant.starts else ()
    )


PLATONOV = Experiment(
    "platonov",
    "every model on the heterophilous graphs of Platonov et al.",
    "platonov",
    DATASETS,
    {"model": tuple(ENTRANTS)},
    _cell,
    ddof=1,
    budgets=dict.fromkeys(DATASETS, Budget(trials=8, seconds=300, splits=1)),
    minutes="about 5 GPU-minutes per model and graph",
)
