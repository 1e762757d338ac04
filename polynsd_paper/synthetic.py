"""The synthetic panels: heterophily, feature noise and amount of data, on graphs made anew for every cell.

Five graphs per cell, one split of each. All models have the settings of the published study of joint sheaf
diffusion: d = 3, L = 3, C = 5, learning rate 0.01, no weight decay, 500 epochs, patience 200.
"""

from __future__ import annotations

from typing import Any

from polynsd.config import LayerConfig, ModelConfig, TrainConfig
from polynsd.training.configuration import Configuration
from polynsd.training.problem import Source
from polynsd_paper.experiment import Cell, Experiment
from polynsd_paper.panels import PANELS, SEEDS

TRAINING = TrainConfig(epochs=500, patience=200, learning_rate=0.01, weight_decay=0.0)
MODELS = (
    "polynsd-diagonal", "polynsd-orthogonal", "polynsd-general", "nsd-diagonal", "identity-sheaf",
    "vanilla-sheaf", "risnn", "risnn-not", "jdsnn", "jdsnn-now", "gcn", "mlp",
)  # fmt: skip
SHORT = {"num_classes": "C", "num_nodes": "N", "num_features": "F", "feature_noise": "noise"}


def _plan(row: str) -> Configuration:
    kind, _, maps = row.partition("-")
    if kind in ("polynsd", "nsd"):
        model = ModelConfig(kind, 5, 3, layer=LayerConfig(stalk_dim=3, maps=maps))
    elif row == "identity-sheaf":
        model = ModelConfig(row, 5, 3, layer=LayerConfig(stalk_dim=3))
    elif row in ("gcn", "mlp"):
        model = ModelConfig(row, 15, 3)
    else:
        model = ModelConfig(row, 5, 3, options={"stalk_dim": 3})
    return Configuration(model, TRAINING)


def _settings(panel: str) -> dict[str, dict[str, Any]]:
    """The settings of every cell of a panel, by what varies in it."""
    axes = [name for axis in PANELS[panel].axes for name in axis[0]]
    return {
        " ".join(f"{SHORT.get(name, name)}={settings[name]}" for name in axes): settings
        for settings in PANELS[panel].cells()
    }


def _numbers(setting: str) -> list[tuple[str, float]]:
    pairs = [word.split("=") for word in setting.split()]
    return [(name, float(value)) for name, value in pairs]


def _cell(dataset: str, setting: str, model: str) -> Cell | None:
    settings = _settings(dataset).get(setting)
    if settings is None:
        return None
    sources = tuple(
        Source(
            generate="heterophily",
            data=tuple(f"{name}={value}" for name, value in {**settings, "seed": seed}.items()),
            protocol="stratified(0.6, 0.2, 0.2)",
            splits=1,
        )
        for seed in SEEDS
    )
    return Cell(dataset, {"setting": setting, "model": model}, _plan(model), sources=sources)


SYNTHETIC = Experiment(
    "synthetic",
    "three stress tests in two regimes, on generated graphs",
    "stratified(0.6, 0.2, 0.2)",
    tuple(PANELS),
    {
        "setting": tuple(sorted({s for panel in PANELS for s in _settings(panel)}, key=_numbers)),
        "model": MODELS,
    },
    _cell,
    seeds=1,
    minutes="about 3 hours of a CPU core, by the parts that were run",
)
