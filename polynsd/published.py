"""What the paper means by an option, written out.

A default that changes leaves experiments, records and `PolyNSD.reference` alone, because they name every
option. An option that is added later gets the value here with which models stay as they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polynsd.config import ModelConfig, TrainConfig, from_options
from polynsd.sheaf.families import Diagonal, Orthogonal, get_family

PUBLISHED_LAYER: dict[str, Any] = {
    "stalk_dim": 4,
    "maps": "diagonal",
    "maps_on": "edges",
    "fixed_channels": (),
    "normalization": "sheaf-augmented",
    "learner": "concat",
    "learner_hops": 3,
    "learner_width": 64,
    "learner_inputs": ("state",),
    "trunk": "maps",
    "map_activation": "tanh",
    "map_start": "random",
    "edge_weights": False,
    "edge_dim": 0,
    "filter": "polynomial",
    "degree": 4,
    "basis": "chebyshev1",
    "coefficients": "convex",
    "correction": "linear",
    "lambda_max": "analytic",
    "mixing": "both",
    "norm": "none",
    "norm_position": "before",
    "gate": "tanh",
    "activation": "elu",
    "dropout": 0.0,
    "map_dropout": None,
    "dropout_position": "before",
    "correction_state": "filtered",
}
PUBLISHED_MODEL: dict[str, Any] = {
    "hidden_channels": 16,
    "num_layers": 2,
    "input_dropout": 0.0,
    "linear_encoder": False,
    "second_linear": False,
    "shared_filter": False,
    "shared_maps": False,
    "checkpoint_layers": False,
}
PUBLISHED_ODE: dict[str, Any] = {
    "horizon": 1.0,
    "solver": "rk4",
    "steps": 4,
    "tolerance": 1e-4,
    "gradient": "auto",
    "maps_at": "state",
    "sign": "outside",
}
PUBLISHED_TRAINING: dict[str, Any] = {
    "epochs": 500,
    "patience": 100,
    "learning_rate": 0.01,
    "weight_decay": 5e-4,
    "sheaf_decay": None,
    "sheaf_rate": None,
    "select": "metric",
    "precision": "float32",
    "capture": "auto",
}


def published_model(
    model: str = "polynsd",
    *,
    layer: Mapping[str, Any] | None = None,
    ode: Mapping[str, Any] | None = None,
    **options: Any,
) -> ModelConfig:
    """A model with the published value of every option that is not given.

    `layer` has the options of layers, `ode` those of the integration in time.
    """
    parts = {"layer": {**PUBLISHED_LAYER, **(layer or {})}, "ode": {**PUBLISHED_ODE, **(ode or {})}}
    return from_options(ModelConfig, {**PUBLISHED_MODEL, "model": model, **options, **parts})


def published_training(**options: Any) -> TrainConfig:
    """A training with the published value of every option that is not given."""
    return from_options(TrainConfig, {**PUBLISHED_TRAINING, **options})


def published_layer(maps: str, filter: str = "polynomial") -> dict[str, Any]:  # noqa: A002
    """All options of a layer as the published implementation of each family has them.

    There the diagonal polynomial model never applies its W₁ and W₂ and drops out after the filter,
    while the other two mix the untouched state into the correction; orthogonal maps always carry
    edge weights.
    """
    options: dict[str, Any] = {**PUBLISHED_LAYER, "maps": maps, "filter": filter}
    family = get_family(maps)
    if isinstance(family, Orthogonal):
        options["edge_weights"] = True
    if filter == "polynomial":
        if isinstance(family, Diagonal):
            options |= {"mixing": "idle", "dropout_position": "after"}
        else:
            options["correction_state"] = "residual"
    return options
