"""The synthetic panels: heterophily, feature noise and amount of data, on generated graphs.

A panel is a grid of arguments for `heterophilous_graph`. Each varies one thing in two regimes, `diff` with
few features and `risnn` with 15. Classes and nodes grow together, as in the published results; the
published sweep files cross them. Features are those that the paper's table of settings names, Gaussian
classes of one covariance, on which an MLP is near chance; the noise that two of the panels vary is added to
them, which the published generator forgets. For a grid of your own call `heterophilous_graph` directly.

The experiment has five graphs per cell, one split of each. Training is as the paper prints it: learning rate
0.01, both decays 5e-4, at most 1,500 epochs, patience 200. Sizes are those of the study that the panels come
from: d = 3, L = 3, C = 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Any

from polynsd.published import published_model, published_training
from polynsd.training.configuration import Configuration
from polynsd.training.source import Source
from polynsd_paper.experiment import Cell, Experiment

SEEDS = range(5)  # the paper averages over five graphs per cell

Settings = dict[str, Any]
Axis = tuple[Settings, ...]


@dataclass(frozen=True)
class Panel:
    """A grid of settings.

    Args:
        fixed: Arguments of `heterophilous_graph` that all cells share.
        axes: The cells are all combinations of one entry from each axis.
    """

    fixed: Settings
    axes: tuple[Axis, ...]

    def __len__(self) -> int:
        return sum(1 for _ in product(*self.axes))

    def cells(self, seed: int = 0) -> Iterator[Settings]:
        """Complete arguments for `heterophilous_graph`, cell by cell."""
        for entries in product(*self.axes):
            settings: Settings = {**self.fixed, "features": "gaussian", "edge_noise": 0.0, "seed": seed}
            for entry in entries:
                settings |= entry
            yield settings


def _axis(argument: str, *values: float) -> Axis:
    return tuple({argument: value} for value in values)


def _heterophily(num_features: int) -> Panel:
    sizes: Axis = tuple({"num_classes": count, "num_nodes": 200 * count} for count in (2, 3, 4, 5))
    levels = _axis("heterophily", 0.0, 0.25, 0.5, 0.75, 1.0)
    return Panel({"num_features": num_features, "degree": 4, "feature_noise": 0.0}, (sizes, levels))


def _noise(sizes: Settings, levels: tuple[float, ...]) -> Panel:
    return Panel({"num_classes": 2, "heterophily": 1.0, **sizes}, (_axis("feature_noise", *levels),))


def _amount(num_features: int) -> Panel:
    fixed = {"num_classes": 3, "num_features": num_features, "heterophily": 0.9, "feature_noise": 0.0}
    return Panel(fixed, (_axis("num_nodes", 100, 500, 1000), _axis("degree", 2, 6, 10)))


PANELS: Mapping[str, Panel] = MappingProxyType(
    {
        "heterophily-diff": _heterophily(num_features=4),
        "heterophily-risnn": _heterophily(num_features=15),
        "noise-diff": _noise(
            {"num_nodes": 400, "num_features": 3, "degree": 2},
            levels=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        ),
        # degree 4: the paper names 5, from which the published generator makes 2·⌊5/2⌋
        "noise-risnn": _noise(
            {"num_nodes": 500, "num_features": 15, "degree": 4},
            levels=(0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3),
        ),
        "amount-diff": _amount(num_features=3),
        "amount-risnn": _amount(num_features=15),
    }
)

TRAINING = published_training(epochs=1500, patience=200, weight_decay=5e-4, sheaf_decay=5e-4)
MODELS = (
    "polynsd-diagonal", "polynsd-orthogonal", "polynsd-general", "nsd-diagonal", "identity-sheaf",
    "vanilla-sheaf", "risnn", "risnn-not", "jdsnn", "jdsnn-now", "gcn", "mlp",
)  # fmt: skip
SHORT = {"num_classes": "C", "num_nodes": "N", "num_features": "F", "feature_noise": "noise"}


def _plan(row: str) -> Configuration:
    kind, _, maps = row.partition("-")
    sizes: dict[str, Any] = {"hidden_channels": 5, "num_layers": 3}
    if kind in ("polynsd", "nsd"):
        model = published_model(kind, **sizes, layer={"stalk_dim": 3, "maps": maps})
    elif row == "identity-sheaf":
        model = published_model(row, **sizes, layer={"stalk_dim": 3})
    elif row in ("gcn", "mlp"):
        model = published_model(row, hidden_channels=15, num_layers=3)
    else:
        model = published_model(row, **sizes, options={"stalk_dim": 3})
    return Configuration(model, TRAINING)


def _settings(panel: str) -> dict[str, dict[str, Any]]:
    """The settings of every cell of a panel, by a text such as `N=100 degree=2`."""
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
    minutes="25 s of a CPU core per cell of the noise panels",
    paper="the synthetic panels",
)
