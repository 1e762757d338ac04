"""Small graphs and quick estimators for the tests of this folder."""

from typing import Any

import numpy as np

from polynsd.data import Graph
from polynsd.estimator import SheafClassifier, SheafRegressor

QUICK: dict[str, Any] = {
    "maps": "diagonal",
    "stalk_dim": 2,
    "degree": 2,
    "hidden_channels": 4,
    "num_layers": 1,
    "dropout": 0.1,
    "learning_rate": 0.05,
    "weight_decay": 0.0,
    "epochs": 6,
    "validation_fraction": 0.5,
    "device": "cpu",
}


def classifier(**options: Any) -> SheafClassifier:
    """A classifier without a search."""
    return SheafClassifier(**{**QUICK, **options})


def regressor(**options: Any) -> SheafRegressor:
    """A regressor without a search."""
    return SheafRegressor(**{**QUICK, **options})


def toy_graph(num_nodes: int = 40, seed: int = 0, names: bool = False, regression: bool = False) -> Graph:
    """A ring with chords; the label is the sign of the first feature, every fifth node has none."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num_nodes, 3)).astype(np.float32)
    near = np.stack([np.arange(num_nodes), (np.arange(num_nodes) + 1) % num_nodes])
    far = np.stack([np.arange(num_nodes), (np.arange(num_nodes) + 7) % num_nodes])
    edges = np.unique(np.sort(np.concatenate([near, far], 1), axis=0), axis=1)
    y: Any = (x[:, 0] > 0).astype(np.int64)
    hidden = np.arange(num_nodes) % 5 == 0
    y = (
        np.where(hidden, np.nan, 10 + 3 * x[:, 0]).astype(np.float32)
        if regression
        else np.where(hidden, -1, y)
    )
    return Graph("toy", edges, num_nodes, x=x, y=y, class_names=("low", "high") if names else None)
