"""The block of this library and its controls; not in the paper.

block       one block, one part changed at a time, on six graphs with ten splits and one seed. It is the
            evidence for the defaults: an option has a row here, and a default is what validation prefers
transport   learned maps against two controls: `same reach` has the same options, identity maps and the trunk
            added to the state, so equal reach and size; `identity maps` has no trunk either, and options of
            its own where validation preferred others. Options were picked by validation on the first two to
            five splits (all ten of chameleon_filtered, cora and citeseer), out of a few dozen tries per
            graph; test scores played no part. Where learned maps have no trunk and identity maps no options
            of their own, the two controls would be one model, and there is only the first

The row `polynsd` of searched tables is this block too. Its space (`own_space`) is the library's own, with
learned maps only, so that the control with identity maps is a row beside it. Its first start (`own_starts`)
is what validation chose for the graph in `transport`, if it is one of these and the space contains it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polynsd.published import PUBLISHED_MODEL, published_model, published_training
from polynsd.search.space import Space
from polynsd.search.spaces import DEFAULT, STARTS
from polynsd.training.configuration import Configuration, dotted
from polynsd.training.source import Source
from polynsd_paper.experiment import Cell, Experiment

POST_NORM: dict[str, Any] = {
    "gate": "shortcut", "activation": "relu", "norm": "layer", "norm_position": "after",
    "dropout_position": "last", "mixing": "full", "coefficients": "free", "correction": "none",
    "stalk_dim": 2,
}  # fmt: skip
ON_NODES: dict[str, Any] = {"maps": "orthogonal(euler)", "maps_on": "nodes", "map_start": "identity"}
TRUNK: dict[str, Any] = {
    "learner": "gnn", "learner_hops": 2, "learner_inputs": ("state", "features", "degree"), "trunk": "both",
}  # fmt: skip
BASE_LAYER: dict[str, Any] = {**POST_NORM, **ON_NODES, **TRUNK, "degree": 4, "dropout": 0.5}
BASE_MODEL: dict[str, Any] = {"hidden_channels": 64, "num_layers": 2, "input_dropout": 0.5}
BASE_TRAINING: dict[str, Any] = {
    "epochs": 500, "patience": 100, "learning_rate": 0.005, "weight_decay": 1e-4,
}  # fmt: skip
IDENTITY: dict[str, Any] = {"maps": "identity", "maps_on": "edges", "map_start": "random"}
NO_TRUNK: dict[str, Any] = {"learner": "concat", "learner_inputs": ("state",), "trunk": "maps"}
PLAIN_BEFORE: dict[str, Any] = {"norm": "none", "norm_position": "before"}

# Learned maps and their two controls, and what these are called among the changes of `block`.
LEARNED, SAME_REACH, IDENTITY_MAPS = "learned maps", "same reach", "identity maps"
VARIANTS: dict[str, dict[str, Any]] = {
    LEARNED: {},
    SAME_REACH: IDENTITY,
    IDENTITY_MAPS: {**IDENTITY, **NO_TRUNK},
}
AS_CHANGE = {
    LEARNED: "as it is",
    SAME_REACH: "identity maps, same reach",
    IDENTITY_MAPS: "identity maps, no trunk",
}
CHANGES: dict[str, dict[str, Any]] = {
    **{AS_CHANGE[name]: options for name, options in VARIANTS.items()},
    "trunk for maps only": {"trunk": "maps"},
    "learner mlp": {"learner": "mlp"},
    "learner of 4 hops": {"learner_hops": 4},
    "learner sees the state only": {"learner_inputs": ("state",)},
    "linear learner": NO_TRUNK,
    "maps on edges": {"maps_on": "edges"},
    "diagonal maps on edges": {"maps_on": "edges", "maps": "diagonal"},
    "conformal maps": {"maps": "conformal(euler)"},
    "d = 4": {"stalk_dim": 4, "hidden_channels": 32, "maps": "orthogonal"},
    "maps start random": {"map_start": "random"},
    "maps shared": {"shared_maps": True},
    "map rate × 0.1": {"sheaf_rate": 5e-4},
    "map decay 0.01": {"sheaf_decay": 0.01},
    "norm before": {"norm_position": "before"},
    "no norm": PLAIN_BEFORE,
    "norm batch": {"norm": "batch"},
    "dropout before": {"dropout_position": "before"},
    "gate tanh": {"gate": "tanh"},
    "gate rezero": {"gate": "rezero"},
    "layers 8, degree 1": {"num_layers": 8, "degree": 1},
    "layers 8, degree 1, gate rezero": {"num_layers": 8, "degree": 1, "gate": "rezero"},
    "random walk": {"normalization": "random-walk"},
    "signless channel": {"fixed_channels": ("signless",)},
    "linear encoder": {"linear_encoder": True},
    "powers of the adjacency": {"basis": "monomial"},
    "degree 1": {"degree": 1},
    "degree 8": {"degree": 8},
    "layers 4, degree 2": {"num_layers": 4, "degree": 2},
    "layers 1, degree 8": {"num_layers": 1, "degree": 8},
    "input dropout 0": {"input_dropout": 0.0},
    "input dropout 0.8": {"input_dropout": 0.8},
    "dropout 0.2": {"dropout": 0.2},
    "dropout 0.8": {"dropout": 0.8},
    "rate 0.001": {"learning_rate": 0.001},
    "rate 0.02": {"learning_rate": 0.02},
    "decay 0": {"weight_decay": 0.0},
    "decay 0.001": {"weight_decay": 1e-3},
    "convex coefficients": {"coefficients": "convex"},
}
TRAINING_OPTIONS = tuple(published_training().__dict__)
PLATONOV = ("minesweeper", "tolokers", "roman_empire_glovesub")
RAW = ("chameleon", "squirrel", "chameleon_filtered", "squirrel_filtered")  # features as they are


def changed_plan(changes: dict[str, Any]) -> Configuration:
    """The block with some options changed, wherever they belong."""
    parts = {"model": dict(BASE_MODEL), "model.layer": dict(BASE_LAYER), "training": dict(BASE_TRAINING)}
    for name, value in changes.items():
        parts[_owner(name)][name] = value
    model = published_model(**parts["model"], layer=parts["model.layer"])
    return Configuration(model, published_training(**parts["training"]))


def _owner(option: str) -> str:
    """The part of a configuration that an option belongs to."""
    if option in PUBLISHED_MODEL:
        return "model"
    return "training" if option in TRAINING_OPTIONS else "model.layer"


def _block_cell(dataset: str, change: str) -> Cell:
    source = Source(dataset, protocol="geom-gcn", features="raw" if dataset in RAW else None)
    return Cell(dataset, {"change": change}, changed_plan(CHANGES[change]), sources=(source,))


BLOCK = Experiment(
    "block",
    "the default block, one part changed at a time",
    "geom-gcn",
    ("cora", "citeseer", "film", "chameleon", "chameleon_filtered", "squirrel_filtered"),
    {"change": tuple(CHANGES)},
    _block_cell,
    seeds=1,
    minutes="3 s of an H200 per cell",
)


# What validation on the first splits chose per graph: width, depth, degree, rates, dropout, the learner.
FOUR: dict[str, Any] = {"stalk_dim": 4, "maps": "orthogonal"}
# A linear model: a filter of the encoded features, in powers of the adjacency, with much dropout before it.
LINEAR_FILTER: dict[str, Any] = {
    "hidden_channels": 32, "num_layers": 1, "degree": 10, **PLAIN_BEFORE, **NO_TRUNK, "linear_encoder": True,
    "gate": "none", "mixing": "none", "activation": "identity", "basis": "monomial",
    "dropout_position": "before", "input_dropout": 0.5, "learning_rate": 0.01, "weight_decay": 5e-4,
    "patience": 60,
}  # fmt: skip
DEEP_AND_WIDE: dict[str, Any] = {
    "hidden_channels": 256, "num_layers": 8, "degree": 1, **PLAIN_BEFORE, "linear_encoder": True,
    "input_dropout": 0.0, "epochs": 500, "patience": 60,
}  # fmt: skip
CHOSEN: dict[str, dict[str, Any]] = {
    "minesweeper": {
        "hidden_channels": 32, "num_layers": 8, "degree": 2, "norm": "batch", "learner_hops": 5,
        "dropout": 0.2, "input_dropout": 0.0, "learning_rate": 0.003, "weight_decay": 0.0,
        "epochs": 1600, "patience": 500,
    },
    "tolokers": {
        "hidden_channels": 128, "num_layers": 6, "degree": 1, "norm": "batch", "learner_width": 128,
        "dropout": 0.5, "input_dropout": 0.0, "learning_rate": 0.0053, "weight_decay": 1e-6,
        "epochs": 800, "patience": 120,
    },
    "roman_empire_glovesub": {
        "hidden_channels": 128, "num_layers": 5, "degree": 1, "norm": "batch",
        "dropout": 0.4, "input_dropout": 0.0, "learning_rate": 0.004, "weight_decay": 0.0,
        "epochs": 700, "patience": 100,
    },
    "chameleon_filtered": {
        **DEEP_AND_WIDE, **FOUR, "hidden_channels": 128, "dropout": 0.4, "learning_rate": 0.004,
        "weight_decay": 5e-5,
    },
    "squirrel_filtered": {
        **DEEP_AND_WIDE, **FOUR, "hidden_channels": 128, "dropout": 0.1, "learning_rate": 0.0058,
        "weight_decay": 1.7e-4,
    },
    "chameleon": {
        **FOUR, "dropout": 0.3, "input_dropout": 0.75, "learning_rate": 0.0079, "weight_decay": 2e-6,
        "epochs": 1000,
    },
    "squirrel": {
        "dropout": 0.3, "input_dropout": 0.5, "learning_rate": 0.0052, "weight_decay": 9e-5,
        "epochs": 1000,
    },
    "cora": {**LINEAR_FILTER, "dropout": 0.85},
    "citeseer": {**LINEAR_FILTER, "dropout": 0.8},
    "pubmed": {
        "num_layers": 1, "degree": 8, **PLAIN_BEFORE, **NO_TRUNK, "dropout": 0.6, "input_dropout": 0.2,
        "learning_rate": 0.0033, "weight_decay": 4.5e-4,
    },
    "film": {
        "num_layers": 1, "degree": 8, **PLAIN_BEFORE, **NO_TRUNK, "dropout": 0.7, "input_dropout": 0.0,
        "learning_rate": 0.0042, "weight_decay": 4e-4,
    },
}  # fmt: skip
# Identity maps without a trunk where validation preferred other options for them.
CHOSEN_FOR_IDENTITY: dict[str, dict[str, Any]] = {
    "tolokers": {
        "hidden_channels": 256, "num_layers": 4, "dropout": 0.8, "learning_rate": 0.0084,
    },
    "chameleon_filtered": {
        **DEEP_AND_WIDE, "stalk_dim": 2, "dropout": 0.3, "learning_rate": 0.0073, "weight_decay": 7e-5,
    },
    "squirrel_filtered": {
        **DEEP_AND_WIDE, "stalk_dim": 2, "dropout": 0.3, "learning_rate": 0.0073, "weight_decay": 7e-5,
    },
    "pubmed": {"hidden_channels": 128, "degree": 10, "learning_rate": 0.0034, "weight_decay": 2e-4},
    "film": {
        "num_layers": 2, "degree": 4, "norm": "layer", "norm_position": "after", "dropout": 0.8,
        "input_dropout": 0.2, "learning_rate": 0.0044, "weight_decay": 1.3e-4,
    },
}  # fmt: skip


def _transport_plan(dataset: str, variant: str) -> Configuration:
    own = CHOSEN_FOR_IDENTITY.get(dataset, {}) if variant == IDENTITY_MAPS else {}
    return changed_plan({**CHOSEN[dataset], **own, **VARIANTS[variant]})


def _transport_cell(dataset: str, variant: str) -> Cell | None:
    plan = _transport_plan(dataset, variant)
    if variant == IDENTITY_MAPS and plan == _transport_plan(dataset, SAME_REACH):
        return None
    protocol = "platonov" if dataset in PLATONOV else "geom-gcn"
    source = Source(dataset, protocol=protocol, features="raw" if dataset in RAW else None)
    return Cell(dataset, {"variant": variant}, plan, sources=(source,))


TRANSPORT = Experiment(
    "transport",
    "learned maps against controls of equal reach and of none",
    "platonov",
    tuple(CHOSEN),
    {"variant": tuple(VARIANTS)},
    _transport_cell,
    seeds=3,
    minutes="five minutes of an H200 per cell of minesweeper, half a minute per other",
)


# The row `polynsd` of searched tables

OWN_RANGES: dict[str, Any] = {
    **DEFAULT,
    "model.layer.maps": ["orthogonal", "diagonal"],
    "model.layer.learner": ["gnn", "concat"],
    "model.layer.learner_width": [64, 128],
    "model.num_layers": [1, 2, 4, 5, 6, 8],
}
LONGEST: dict[str, Any] = {"training.epochs": 2500, "training.patience": 300}  # on graphs that reward depth
HOUSEHOLDER = {"orthogonal(euler)": "orthogonal"}  # Euler's angles are for two dimensions only


def own_space(changes: Mapping[str, Any] | None = None) -> Space:
    """The library's block with its own space; `changes` replaces what the space has."""
    block = {name: _as_choice(value) for name, value in BASE_LAYER.items()}
    options = {"model.model": "polynsd", **dotted("model.layer", block), **OWN_RANGES}
    wanted = {name: rule for name, rule in (changes or {}).items() if name in options}
    return Space.from_dict({**options, **wanted})


def _as_choice(value: Any) -> Any:
    """A tuple is a value; in a space it stands in a list of choices."""
    return [list(value)] if isinstance(value, tuple) else value


def own_starts(dataset: str) -> tuple[dict[str, Any], ...]:
    """What was chosen for the graph, then what the library's own searches begin with."""
    if dataset not in CHOSEN:
        return STARTS
    chosen = {**BASE_MODEL, **BASE_LAYER, **BASE_TRAINING, **CHOSEN[dataset]}
    named = {f"{_owner(name)}.{name}": value for name, value in chosen.items()}
    named["model.layer.maps"] = HOUSEHOLDER.get(named["model.layer.maps"], named["model.layer.maps"])
    start = {name: value for name, value in named.items() if name in OWN_RANGES}
    if start["training.weight_decay"] == 0:
        start["training.weight_decay"] = OWN_RANGES["training.weight_decay"]["low"]
    if start["model.layer.gate"] not in OWN_RANGES["model.layer.gate"]:  # another block than the space has
        return STARTS
    return start, *STARTS[:3]
