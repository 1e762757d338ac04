"""The models of the tables: rows that are searched, and the fixed configuration of sweeps.

All searched rows have the same training rules and the same ranges for learning rate, decay and dropout; only
what belongs to a model differs. Basis and degree are searched like everything else.

Sweeps hold d = 3, C = 32, L = 2, K = 4, dropout ½ everywhere, learning rate 0.01 and decay 5e−4; the epoch is
chosen by the validation metric. The two Wikipedia graphs have a second linear layer in the encoder, as
published. It is nobody's best configuration: a sweep shows the effect of what it varies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from polynsd.published import published_model, published_training
from polynsd.search.space import Space
from polynsd.search.spaces import published_options, zoo_space
from polynsd.training.configuration import Configuration
from polynsd.zoo import SHEAF_MODELS, ZOO

FAMILIES = ("diagonal", "orthogonal", "general")
WIKIPEDIA = ("squirrel", "chameleon")
RULES = "default"  # as they were called: the published values of all options of training

TRAINING: dict[str, Any] = {
    "training.learning_rate": {"low": 2e-3, "high": 3e-2, "log": True},
    "training.weight_decay": {"low": 1e-5, "high": 5e-3, "log": True},
    "training.epochs": 500,
    "training.patience": 60,
    "training.select": "metric",
    "model.layer.dropout": {"low": 0.0, "high": 0.8, "step": 0.1},
}
SHEAF: dict[str, Any] = {
    "training.sheaf_decay": {"low": 1e-5, "high": 5e-3, "log": True},
    "model.input_dropout": {"low": 0.0, "high": 0.8, "step": 0.1},
    "model.second_linear": [False, True],
    "model.num_layers": [1, 2, 4],
    "model.hidden_channels": 32,
    "model.layer.stalk_dim": [2, 3, 4],
    "model.layer.fixed_channels": [[], ["laplacian"]],
    "model.layer.mixing": ["both", "full"],
    "model.layer.norm": ["none", "layer"],
    "model.layer.activation": ["elu", "relu"],
}
FILTER: dict[str, Any] = {
    "model.layer.degree": [2, 4, 8],
    "model.layer.basis": ["chebyshev1", "legendre", "jacobi(0.5, 0.5)"],
    "model.layer.coefficients": ["convex", "free"],
    "model.layer.correction": ["linear", "high-pass", "none"],
}
BASELINE: dict[str, Any] = {"model.num_layers": [2, 3, 4], "model.hidden_channels": [32, 64, 128]}
NARROW = {  # d = 1, and as wide as d = 3
    "model.layer.stalk_dim": 1,
    "model.layer.fixed_channels": [[]],
    "model.hidden_channels": 96,
}

_FREE = {"basis": "chebyshev1", "coefficients": "free", "correction": "none"}
_WIDE = {"mixing": "full", "fixed_channels": ["laplacian"], "stalk_dim": 3, "norm": "none"}
_PUBLISHED = {
    "basis": "chebyshev1", "coefficients": "convex", "correction": "linear", "mixing": "both",
    "norm": "none", "degree": 8, "activation": "elu",
}  # fmt: skip


def _start(layers: int, second_linear: bool, **layer: Any) -> dict[str, Any]:
    shape = {"model.num_layers": layers, "model.second_linear": second_linear}
    return {**shape, **{f"model.layer.{name}": value for name, value in layer.items()}}


# Searches of all sheaf models begin with these four. The last is the published architecture, the others had
# the best validation in a look at the standard graphs before any table was made.
STARTS = (
    _start(4, False, **_FREE, **_WIDE, degree=4, activation="relu"),
    _start(2, True, **_FREE, **_WIDE, degree=4, activation="relu"),
    _start(
        2, False, basis="legendre", coefficients="convex", correction="high-pass", mixing="both",
        fixed_channels=["laplacian"], stalk_dim=3, norm="layer", degree=8, activation="elu",
    ),
    _start(2, False, **_PUBLISHED, fixed_channels=[], stalk_dim=4),
)  # fmt: skip
# The published script of the three small graphs: both fixed channels, no dropout of inputs, much in layers.
PUBLISHED_WEBKB = {
    **_start(2, False, **_PUBLISHED, fixed_channels=["laplacian", "signless"], stalk_dim=3),
    "model.input_dropout": 0.0,
    "model.layer.dropout": 0.7,
}
# Maps that start constant, as residual networks and as ones with shortcuts; shallow, deep and very deep.
_CONSTANT = {**_FREE, **_WIDE, "maps": "diagonal", "activation": "relu"}
CONSTANT_STARTS = (
    _start(4, False, **_CONSTANT, degree=4, gate="tanh"),
    _start(8, False, **{**_CONSTANT, "stalk_dim": 2}, degree=1, gate="shortcut"),
    _start(2, False, **_CONSTANT, degree=4, gate="shortcut"),
    _start(2, False, **_PUBLISHED, maps="diagonal", gate="tanh", fixed_channels=["laplacian"], stalk_dim=4),
)


@dataclass(frozen=True)
class ModelRow:
    """A row of a searched table: a model, and what a search may vary of it.

    Args:
        model: its name in the library.
        fixed: options that make the row and are not searched.
        group: the architecture it belongs to; rows of one group are not compared with each other.
        features: the rule for the features; None: that of the dataset.
        ranges: ranges of this row only, which an experiment may replace.
        own_starts: configurations that its search begins with; empty: those of its kind.
    """

    model: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""
    features: str | None = None
    ranges: Mapping[str, Any] = field(default_factory=dict)
    own_starts: tuple[dict[str, Any], ...] = ()

    @property
    def is_sheaf(self) -> bool:
        """Whether it is one of this library's sheaf models, controls included."""
        return self.model in SHEAF_MODELS

    @property
    def starts(self) -> tuple[dict[str, Any], ...]:
        """What a search begins with: four architectures for a sheaf model, the published one for others."""
        return self.own_starts or (STARTS if self.is_sheaf else (published_options(self.model),))

    def space(self, changes: Mapping[str, Any] | None = None) -> Space:
        """What a search may vary; `changes` replaces ranges, but adds none and leaves `fixed` alone."""
        options = {**_space_of(self.model), **self.ranges, **self.fixed}
        for name, rule in (changes or {}).items():
            if name in options and name not in self.fixed:
                options[name] = rule
        return Space.from_dict({"model.model": self.model, **options})


@cache
def _space_of(model: str) -> dict[str, Any]:
    if model in ZOO:
        return {**TRAINING, **BASELINE, **zoo_space(model)}
    preset = SHEAF_MODELS[model].preset
    options = {**TRAINING, **SHEAF, **({} if "filter" in preset else FILTER)}
    if preset.get("maps") == "identity":
        del options["training.sheaf_decay"]
    return {name: rule for name, rule in options.items() if name.rpartition(".")[2] not in preset}


# Not in the paper: maps that start constant, of any family, with or without a shortcut, also very deep; and
# what shortcut and depth do without a sheaf.
_DEEPER = {
    "model.layer.gate": ["tanh", "shortcut"],
    "model.num_layers": [1, 2, 4, 8],
    "model.layer.degree": [1, 2, 4, 8],
}
CONSTANT = ModelRow(
    "polynsd",
    {"model.layer.map_start": "constant"},
    group="polynsd",
    ranges={"model.layer.maps": list(FAMILIES), **_DEEPER},
    own_starts=CONSTANT_STARTS,
)
MODEL_ROWS: dict[str, ModelRow] = {
    **{
        f"{model}-{maps}": ModelRow(model, {"model.layer.maps": maps}, group=model)
        for model in ("polynsd", "nsd")
        for maps in FAMILIES
    },
    "identity-sheaf": ModelRow("identity-sheaf", group="identity-sheaf"),
    "identity-sheaf-1": ModelRow("identity-sheaf", NARROW, group="identity-sheaf"),
    "poly-spectral": ModelRow("poly-spectral", {"model.hidden_channels": 96}, group="poly-spectral"),
    **{
        name: ModelRow(name, group=entry.class_name)
        for name, entry in ZOO.items()
        if entry.file != "continuous"  # they have a table of their own
    },
    "polynsd-constant": CONSTANT,
    "identity-sheaf-shortcut": ModelRow(
        "identity-sheaf", group="identity-sheaf", ranges=_DEEPER, own_starts=CONSTANT_STARTS
    ),
}
WITH_ADJACENCY: dict[str, ModelRow] = {  # who the neighbours are, as features
    "polynsd+adjacency": ModelRow("polynsd", group="polynsd", features="adjacency"),
    "mlp+adjacency": ModelRow("mlp", group=ZOO["mlp"].class_name, features="adjacency"),
}


def fixed_sheaf(
    dataset: str, model: str = "polynsd", *, hidden: int = 32, layers: int = 2, **layer: Any
) -> Configuration:
    """The sheaf model of sweeps with some options changed; `layer` are those of `LayerConfig`."""
    options = {"stalk_dim": 3, "degree": 4, "dropout": 0.5, **layer}
    if model == "nsd":
        options.pop("degree")
    config = published_model(
        model,
        hidden_channels=hidden,
        num_layers=layers,
        input_dropout=0.5,
        second_linear=dataset in WIKIPEDIA,
        layer=options,
    )
    return Configuration(config, published_training())


def fixed_model(dataset: str, row: str, **changes: Any) -> Configuration:
    """The configuration of sweeps for `polynsd-general`, `nsd-diagonal`, `identity-sheaf` or a zoo model."""
    model, _, maps = row.rpartition("-")
    if model in ("polynsd", "nsd"):
        return fixed_sheaf(dataset, model, maps=maps, **changes)
    if row in ("identity-sheaf", "poly-spectral"):
        return fixed_sheaf(dataset, row, **changes)
    options = {"hidden": 64, "layers": 2, **changes}
    config = published_model(
        row,
        hidden_channels=options.pop("hidden"),
        num_layers=options.pop("layers"),
        layer={"dropout": 0.5},
        options=options,
    )
    return Configuration(config, published_training())
