"""Who takes part in a searched table, and what a search may vary of each.

All entrants have the same training rules, the same ranges for learning rate, decay and dropout, and spaces
of the same kind; only what belongs to a model differs. Basis and degree are searched like everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from polynsd.search.space import Space
from polynsd.search.spaces import published_options, zoo_space
from polynsd.zoo import SHEAF_MODELS, ZOO

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
_FREE = {"basis": "chebyshev1", "coefficients": "free", "correction": "none"}
_WIDE = {"mixing": "full", "fixed_channels": ["laplacian"], "stalk_dim": 3, "norm": "none"}
_PUBLISHED = {
    "basis": "chebyshev1", "coefficients": "convex", "correction": "linear", "mixing": "both",
    "norm": "none", "degree": 8, "activation": "elu",
}  # fmt: skip


def _start(layers: int, second_linear: bool, **layer: Any) -> dict[str, Any]:
    shape = {"model.num_layers": layers, "model.second_linear": second_linear}
    return {**shape, **{f"model.layer.{name}": value for name, value in layer.items()}}


# Four architectures that differ in all that matters, for all sheaf models alike. The last is the published
# one, the others had the best validation in a look at the standard graphs before any table was made.
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
PLAIN: dict[str, Any] = {"model.num_layers": [2, 3, 4], "model.hidden_channels": [32, 64, 128]}
NARROW = {  # d = 1, and as wide as d = 3
    "model.layer.stalk_dim": 1,
    "model.layer.fixed_channels": [[]],
    "model.hidden_channels": 96,
}


@dataclass(frozen=True)
class Entrant:
    """A row of a table.

    Args:
        model: by name.
        fixed: options that make the row.
        group: the architecture it belongs to; rows of one group are not rivals.
        features: a rule of its own for the features, instead of the dataset's.
        wider: ranges of its own, which an experiment may replace.
        own_starts: shapes that its search begins with, instead of those of its kind.
    """

    model: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""
    features: str | None = None
    wider: Mapping[str, Any] = field(default_factory=dict)
    own_starts: tuple[dict[str, Any], ...] = ()

    @property
    def is_sheaf(self) -> bool:
        """Whether it is one of this library's sheaf models, controls included."""
        return self.model in SHEAF_MODELS

    @property
    def starts(self) -> tuple[dict[str, Any], ...]:
        """Shapes that a search begins with: its own, four of sheaf models, the published one of others."""
        return self.own_starts or (STARTS if self.is_sheaf else (published_options(self.model),))

    def space(self, deeper: Mapping[str, Any] | None = None) -> Space:
        """What a search may vary; `deeper` replaces ranges of the experiment."""
        options = {**_space_of(self.model), **self.wider, **self.fixed}
        for name, rule in (deeper or {}).items():
            if name in options and name not in self.fixed:
                options[name] = rule
        return Space.from_dict({"model.model": self.model, **options})


@cache
def _space_of(model: str) -> dict[str, Any]:
    if model in ZOO:
        return {**TRAINING, **PLAIN, **zoo_space(model)}
    preset = SHEAF_MODELS[model].preset
    options = {**TRAINING, **SHEAF, **({} if "filter" in preset else FILTER)}
    if preset.get("maps") == "identity":
        del options["training.sheaf_decay"]
    return {name: rule for name, rule in options.items() if name.rpartition(".")[2] not in preset}


FAMILIES = ("diagonal", "orthogonal", "general")


def _sheaf(model: str, maps: str) -> Entrant:
    return Entrant(model, {"model.layer.maps": maps}, group=model)


ENTRANTS: dict[str, Entrant] = {
    **{f"polynsd-{maps}": _sheaf("polynsd", maps) for maps in FAMILIES},
    **{f"nsd-{maps}": _sheaf("nsd", maps) for maps in FAMILIES},
    "identity-sheaf": Entrant("identity-sheaf", group="identity-sheaf"),
    "identity-sheaf-1": Entrant("identity-sheaf", NARROW, group="identity-sheaf"),
    "poly-spectral": Entrant("poly-spectral", {"model.hidden_channels": 96}, group="poly-spectral"),
    **{name: Entrant(name, group=entry.class_name) for name, entry in ZOO.items()},
}
# Not in the paper: maps that start constant, of any family, with or without a shortcut, also very deep; and
# what shortcut and depth do without a sheaf.
_DEEPER = {
    "model.layer.gate": ["tanh", "shortcut"],
    "model.num_layers": [1, 2, 4, 8],
    "model.layer.degree": [1, 2, 4, 8],
}
CONSTANT = Entrant(
    "polynsd",
    {"model.layer.map_start": "constant"},
    group="polynsd",
    wider={"model.layer.maps": list(FAMILIES), **_DEEPER},
    own_starts=CONSTANT_STARTS,
)
ENTRANTS["polynsd-constant"] = CONSTANT
ENTRANTS["identity-sheaf-shortcut"] = Entrant(
    "identity-sheaf", group="identity-sheaf", wider=_DEEPER, own_starts=CONSTANT_STARTS
)
WITH_ADJACENCY: dict[str, Entrant] = {  # who the neighbours are, as features
    "polynsd+adjacency": Entrant("polynsd", group="polynsd", features="adjacency"),
    "mlp+adjacency": Entrant("mlp", group=ZOO["mlp"].class_name, features="adjacency"),
}
