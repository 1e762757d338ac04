"""What the built-in search tries: a few structures, each under a few regularisations.

The structures differ in what they assume of neighbours, from nothing to everything: no graph at all
(K = 0), one map for all edges, then diagonal, orthogonal and general maps over few or many hops. A
parameter that was given has that value in every candidate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polynsd.config import LayerConfig
from polynsd.errors import ConfigError
from polynsd.published import PUBLISHED_LAYER, published_model, published_training
from polynsd.sheaf.families import get_family
from polynsd.training.configuration import Configuration

AUTO = "auto"
PATIENCE = 100
DEFAULTS: dict[str, Any] = {
    "maps": "diagonal",
    "stalk_dim": 4,
    "degree": 4,
    "hidden_channels": 16,
    "num_layers": 2,
    "dropout": 0.2,
    "learning_rate": 0.01,
    "weight_decay": 5e-4,
    "epochs": 500,
}
STRUCTURES: tuple[dict[str, Any], ...] = (
    {"maps": "diagonal", "stalk_dim": 4, "degree": 4},
    {"maps": "diagonal", "stalk_dim": 4, "degree": 8},
    {"maps": "orthogonal", "stalk_dim": 3, "degree": 4},
    {"maps": "general", "stalk_dim": 3, "degree": 2},
    {"maps": "identity", "stalk_dim": 4, "degree": 6},
    {"maps": "identity", "stalk_dim": 4, "degree": 0},
)
REGULARISATIONS: tuple[dict[str, Any], ...] = (
    {"dropout": 0.2, "learning_rate": 0.01, "weight_decay": 5e-4},
    {"dropout": 0.5, "learning_rate": 0.01, "weight_decay": 5e-3},
    {"dropout": 0.0, "learning_rate": 0.02, "weight_decay": 5e-5},
)


def label_of(configuration: Configuration) -> str:
    """A short name for a progress bar."""
    layer = configuration.model.layer
    return f"{layer.maps}, d={layer.stalk_dim}, K={layer.degree}"


def parameters_of(configuration: Configuration) -> dict[str, Any]:
    """The parameters of the estimator that give this configuration."""
    model, training = configuration
    return {
        "maps": model.layer.maps,
        "stalk_dim": model.layer.stalk_dim,
        "degree": model.layer.degree,
        "hidden_channels": model.hidden_channels,
        "num_layers": model.num_layers,
        "dropout": model.layer.dropout,
        "learning_rate": training.learning_rate,
        "weight_decay": training.weight_decay,
        "epochs": training.epochs,
    }


def make_candidates(given: Mapping[str, Any], search: bool, edge_dim: int = 0) -> list[Configuration]:
    """The configurations that agree with the given parameters (`"auto"`: free), the usual one first.

    Args:
        given: the parameters in `DEFAULTS`, each a value or `"auto"`.
        search: whether to try several.
        edge_dim: the number of edge features, which learned maps use.
    """
    fixed = {name: given[name] for name in DEFAULTS if given[name] != AUTO}
    for name, value in fixed.items():
        if value is None or isinstance(value, str) != (name == "maps"):
            raise ConfigError(
                f"{name} must be '{AUTO}' or a value such as {DEFAULTS[name]!r}; got {value!r}."
            )
    if not search or fixed.keys() == DEFAULTS.keys():
        return [_configure({**DEFAULTS, **fixed}, edge_dim)]
    tries = [{**s, **r, **fixed} for s in _structures(fixed) for r in REGULARISATIONS]
    return list(dict.fromkeys(_configure({**DEFAULTS, **options}, edge_dim) for options in tries))


def _structures(fixed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The structures whose family admits what was given; those of the given family if there are any."""
    fitting = [structure for structure in STRUCTURES if _is_valid({**structure, **fixed})]
    same = [structure for structure in fitting if structure["maps"] == fixed.get("maps")]
    return same or fitting or [STRUCTURES[0]]  # whose error says what is wrong


def _is_valid(options: Mapping[str, Any]) -> bool:
    try:
        LayerConfig(**PUBLISHED_LAYER | {"maps": options["maps"], "stalk_dim": options["stalk_dim"]})
    except ConfigError:
        return False
    return True


def _configure(options: Mapping[str, Any], edge_dim: int) -> Configuration:
    maps, degree = options["maps"], options["degree"]
    layer = {
        "maps": maps,
        "stalk_dim": options["stalk_dim"],
        "degree": degree,
        # without hops there is nothing to correct: the model does not look at neighbours
        "correction": "linear" if degree else "none",
        "dropout": options["dropout"],
        "edge_dim": edge_dim if get_family(maps).is_learned and degree else 0,
    }
    model = published_model(
        hidden_channels=options["hidden_channels"], num_layers=options["num_layers"], layer=layer
    )
    training = published_training(
        epochs=options["epochs"],
        patience=PATIENCE,
        learning_rate=options["learning_rate"],
        weight_decay=options["weight_decay"],
        select="loss",  # of few nodes the metric has ties, and says nothing of probabilities
    )
    return Configuration(model, training)
