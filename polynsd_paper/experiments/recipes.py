"""Published settings of rivals on a graph: searches of their rows begin with them.

tuned-…      LUOyk1999/tunedGNN, `medium_graph/run_gnn.sh`: layers, width, dropout, norm, residual, learning
             rate and decay. On questions and roman-empire a linear layer comes first
gcnii        chennnM/GCNII, `full.sh`, full supervision on the ten splits: layers, α, λ, decay; width 64,
             dropout ½, learning rate 0.01 throughout
polynormer   cornell-zhang/Polynormer, `run.sh`: local and global layers, heads × width, dropout, β = 0.9

Where a decay of 0 is published the smallest of the space stands for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from polynsd.training.configuration import dotted

SMALLEST_DECAY = 1e-6


class Tuned(NamedTuple):
    """A line of tunedGNN."""

    layers: int
    width: int
    dropout: float
    norm: str
    residual: bool
    rate: float
    decay: float = SMALLEST_DECAY


B, L, N = "batch", "layer", "none"
TUNED: dict[str, dict[str, Tuned]] = {
    "tuned-gcn": {
        "minesweeper": Tuned(12, 64, 0.2, B, True, 0.01),
        "roman_empire": Tuned(9, 512, 0.5, B, True, 0.001),
        "amazon_ratings": Tuned(4, 512, 0.5, B, True, 0.001),
        "questions": Tuned(10, 512, 0.3, N, True, 3e-5),
        "squirrel_filtered": Tuned(4, 256, 0.7, B, True, 0.01, 5e-4),
        "chameleon_filtered": Tuned(5, 512, 0.2, N, False, 0.005, 1e-3),
        "cora": Tuned(3, 512, 0.7, N, False, 0.001, 5e-4),
        "citeseer": Tuned(2, 512, 0.5, N, False, 0.001, 0.01),
        "pubmed": Tuned(2, 256, 0.7, N, False, 0.005, 5e-4),
    },
    "tuned-sage": {
        "minesweeper": Tuned(15, 64, 0.2, B, True, 0.01),
        "roman_empire": Tuned(9, 256, 0.3, B, False, 0.001),
        "amazon_ratings": Tuned(9, 512, 0.5, B, True, 0.001),
        "questions": Tuned(6, 512, 0.2, L, False, 3e-5),
        "squirrel_filtered": Tuned(3, 256, 0.7, B, True, 0.01, 5e-4),
        "chameleon_filtered": Tuned(4, 256, 0.7, B, True, 0.01, 1e-3),
        "cora": Tuned(3, 256, 0.7, N, False, 0.001, 5e-4),
        "citeseer": Tuned(3, 512, 0.2, N, False, 0.001, 0.01),
        "pubmed": Tuned(4, 512, 0.7, N, False, 0.005, 5e-4),
    },
    "tuned-gat": {
        "minesweeper": Tuned(15, 64, 0.2, B, True, 0.01),
        "roman_empire": Tuned(10, 512, 0.3, B, True, 0.001),
        "amazon_ratings": Tuned(4, 512, 0.5, B, True, 0.001),
        "questions": Tuned(3, 512, 0.2, L, True, 3e-5),
        "squirrel_filtered": Tuned(7, 512, 0.5, B, True, 0.005, 5e-4),
        "chameleon_filtered": Tuned(2, 256, 0.7, B, True, 0.01, 1e-3),
        "cora": Tuned(3, 512, 0.2, N, True, 0.001, 5e-4),
        "citeseer": Tuned(3, 256, 0.5, N, True, 0.001, 0.01),
        "pubmed": Tuned(2, 512, 0.5, N, False, 0.01, 5e-4),
    },
}
GCNII: dict[str, tuple[int, float, float, float]] = {  # layers, α, λ, decay
    "cora": (64, 0.2, 0.5, 1e-4),
    "citeseer": (64, 0.5, 0.5, 5e-6),
    "pubmed": (64, 0.1, 0.5, 5e-6),
    "chameleon": (8, 0.2, 1.5, 5e-4),
    "cornell": (16, 0.5, 1.0, 1e-3),
    "texas": (32, 0.5, 1.5, 1e-4),
    "wisconsin": (16, 0.5, 1.0, 5e-4),
}
POLYNORMER: dict[str, tuple[int, int, int, int, float]] = {  # local and global layers, heads, width, dropout
    "roman_empire": (10, 2, 8, 512, 0.3),
    "amazon_ratings": (10, 1, 2, 512, 0.3),
    "minesweeper": (10, 3, 8, 512, 0.3),
    "tolokers": (7, 4, 16, 960, 0.5),
}
SAME_AS = {  # graphs that stand for others, or are close to them
    "roman_empire_glovesub": "roman_empire",
    "cornell_fixed": "cornell",
    "squirrel": "chameleon",
}
LINEAR_FIRST = ("roman_empire", "questions")
DEPTHS = {"model.num_layers": {"low": 2, "high": 8}}
RANGES: dict[str, dict[str, Any]] = {  # wide enough for them
    **dict.fromkeys(TUNED, DEPTHS),
    "gcnii": {"model.num_layers": [2, 8, 16, 32, 64]},
    "polynormer": {
        "model.num_layers": [2, 5, 7, 10],
        "model.hidden_channels": [64, 256, 512, 960],
        "model.options.global_layers": [1, 2, 3, 4],
        "model.options.heads": [1, 2, 4, 8, 16],
        "model.options.local_epochs": 100,
    },
}


def recipe(model: str, dataset: str) -> dict[str, Any] | None:
    """The published options of a model of the zoo on a graph, by their dotted names; None without any."""
    name = SAME_AS.get(dataset, dataset)
    if model == "gcnii" and name in GCNII:
        layers, alpha, theta, decay = GCNII[name]
        options: dict[str, Any] = {"alpha": alpha, "theta": theta}
        return _named(layers, 64, 0.5, options, 0.01, decay)
    if model == "polynormer" and name in POLYNORMER:
        local, global_, heads, width, dropout = POLYNORMER[name]
        options = {"global_layers": global_, "heads": heads, "local_attention": True}
        return _named(local, width, dropout, options, 0.001, SMALLEST_DECAY)
    if name not in TUNED.get(model, {}):
        return None
    line = TUNED[model][name]
    options = {"norm": line.norm, "residual": line.residual, "pre_linear": name in LINEAR_FIRST}
    return _named(line.layers, line.width, line.dropout, options, line.rate, line.decay)


def _named(
    layers: int, width: int, dropout: float, options: dict[str, Any], rate: float, decay: float
) -> dict[str, Any]:
    return {
        "model.num_layers": layers,
        "model.hidden_channels": width,
        "model.layer.dropout": dropout,
        **dotted("model.options", options),
        "training.learning_rate": rate,
        "training.weight_decay": decay,
    }
