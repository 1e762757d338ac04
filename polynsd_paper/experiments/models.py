"""The models of the tables: rows that are searched, and the fixed configuration of sweeps.

All searched rows have the same training rules and the same ranges for learning rate, decay and dropout; only
what belongs to a model differs. Residual networks, tuned ones and transformers may have smaller rates,
coefficients of the filters of rivals are not decayed. Basis and degree are searched like everything else.

Sweeps hold d = 3, C = 32, L = 2, K = 4, dropout ½ everywhere, learning rate 0.01 and decay 5e−4; the epoch is
chosen by the validation metric. The two Wikipedia graphs have a second linear layer in the encoder, as
published. It is nobody's best configuration: a sweep shows the effect of what it varies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from polynsd.published import published_model, published_training
from polynsd.search.space import Space
from polynsd.search.spaces import published_options, zoo_space
from polynsd.training.configuration import Configuration, dotted
from polynsd.zoo import SHEAF_MODELS, ZOO
from polynsd_paper.experiments.block import own_space, own_starts
from polynsd_paper.experiments.recipes import RANGES as RECIPE_RANGES
from polynsd_paper.experiments.recipes import recipe
from polynsd_paper.experiments.reference import FAMILIES as FAMILIES
from polynsd_paper.experiments.reference import REFERENCES, reference_space, reference_starts

WIKIPEDIA = ("squirrel", "chameleon")
RULES = "default"  # as they were called: the published values of all options of training

RATE, DECAY = {"low": 1e-4, "high": 3e-2, "log": True}, {"low": 1e-6, "high": 1e-2, "log": True}
LOWER_RATE = {**RATE, "low": 3e-5}
DROPOUT = {"low": 0.0, "high": 0.9, "step": 0.1}
TRAINING: dict[str, Any] = {
    "training.learning_rate": RATE,
    "training.weight_decay": DECAY,
    "training.epochs": 1000,
    "training.patience": 100,
    "training.select": "metric",
    "model.layer.dropout": DROPOUT,
}
SHEAF: dict[str, Any] = {
    "training.sheaf_rate": RATE,
    "training.sheaf_decay": DECAY,
    "model.input_dropout": DROPOUT,
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
    "model.layer.degree": [1, 2, 4, 8],
    "model.layer.basis": ["chebyshev1", "legendre", "jacobi(0.5, 0.5)"],
    "model.layer.coefficients": ["convex", "free"],
    "model.layer.correction": ["linear", "high-pass", "none"],
}
BASELINE: dict[str, Any] = {"model.num_layers": [2, 3, 4], "model.hidden_channels": [32, 64, 128, 256]}
SLOW = ("residual", "tuned", "transformers")  # files of the zoo whose models are published with small rates
FILTERS = ("gprgnn", "bernnet", "chebnetii", "jacobi", "fsgnn")  # their coefficients are not decayed
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
    return {**shape, **dotted("model.layer", layer)}


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
        of_dataset: makes its space and its starts for a dataset, where they are the row's own.
    """

    model: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""
    features: str | None = None
    ranges: Mapping[str, Any] = field(default_factory=dict)
    own_starts: tuple[dict[str, Any], ...] = ()
    of_dataset: Callable[[str], tuple[Space, tuple[dict[str, Any], ...]]] | None = None

    @property
    def is_sheaf(self) -> bool:
        """Whether it is one of this library's sheaf models, controls included."""
        return self.model in SHEAF_MODELS

    def starts(self, dataset: str) -> tuple[dict[str, Any], ...]:
        """What a search begins with: four architectures for a sheaf model, published ones for others."""
        if self.own_starts or self.is_sheaf:
            return self.own_starts or STARTS
        on_graph = recipe(self.model, dataset)
        return (*(() if on_graph is None else (on_graph,)), published_options(self.model))

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
        rate = LOWER_RATE if ZOO[model].file in SLOW else RATE
        decay = {"training.sheaf_decay": 0.0} if model in FILTERS else {}
        training = {**TRAINING, "training.learning_rate": rate, **decay}
        return {**training, **BASELINE, **zoo_space(model), **RECIPE_RANGES.get(model, {})}
    preset = SHEAF_MODELS[model].preset
    options = {**TRAINING, **SHEAF, **({} if "filter" in preset else FILTER)}
    if preset.get("maps") == "identity":
        del options["training.sheaf_decay"], options["training.sheaf_rate"]
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


def _reference_row(row: str) -> ModelRow:
    """A row of the published architecture, in the space of `reference.py`."""
    model = REFERENCES[row]
    return ModelRow(
        model, group=model, of_dataset=lambda name: (reference_space(row, name), reference_starts(name))
    )


MODEL_ROWS: dict[str, ModelRow] = {
    "polynsd": ModelRow("polynsd", group="polynsd", of_dataset=lambda name: (own_space(), own_starts(name))),
    **{row: _reference_row(row) for row in REFERENCES},
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
