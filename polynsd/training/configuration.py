"""`Configuration`: a model and its training rules; options by dotted names; training rules by name.

    configure({"model.layer.degree": 8, "training.epochs": 200})
    read_configuration("best.yaml")
    get_rules("paper", "texas").training

| rules       | epochs | patience | chosen by | rate  | decay | std        | from                   |
|-------------|--------|----------|-----------|-------|-------|------------|------------------------|
| `default`   | 500    | 100      | metric    | 0.005 | 5e−4  | population | ours                   |
| `paper`     | 500    | 200      | loss      | 0.01* | 5e−4  | population | the sweeps of PolyNSD  |
| `paper-acc` | 500    | 200      | acc       | 0.01* | 5e−4  | population | the text of that paper |
| `platonov`  | 1000   | none     | metric    | 3e−5  | 0     | sample     | Platonov et al. 2023   |

*: 0.02 on texas, wisconsin and cornell. Dropout belongs to the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args

from polynsd.config import ModelConfig, TrainConfig, from_options, to_dict
from polynsd.documents import read_document
from polynsd.errors import unknown_name
from polynsd.fields import field_types, require_type
from polynsd.published import published_training
from polynsd.runs.files import flatten
from polynsd.zoo import all_model_options, layer_defaults

ROOTS = {"model": ModelConfig, "training": TrainConfig}

# What replicas of one training may differ in: neither shapes nor code depend on these.
FREE = frozenset(
    {
        "model.input_dropout",
        "model.layer.dropout",
        "model.layer.map_dropout",
        "model.options.drop_edge",
        "model.options.feature_dropout",
        "model.options.filter_dropout",
        "model.options.input_dropout",
        "training.epochs",
        "training.learning_rate",
        "training.patience",
        "training.sheaf_decay",
        "training.sheaf_rate",
        "training.weight_decay",
    }
)


class Configuration(NamedTuple):
    """A model, and the rules it is trained by."""

    model: ModelConfig = ModelConfig()
    training: TrainConfig = TrainConfig()


def configure(values: Mapping[str, Any]) -> Configuration:
    """The configuration with these options; all others keep the defaults of the model."""
    tree: dict[str, Any] = {root: {} for root in ROOTS}
    for name, value in values.items():
        require_option(name)
        *path, leaf = name.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[leaf] = value
    return _from_parts(tree["model"], tree["training"])


def dotted(prefix: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by their dotted names: `model.layer.degree` for `degree` below `model.layer`."""
    return {f"{prefix}.{name}": value for name, value in options.items()}


def _from_parts(model: Mapping[str, Any], training: Mapping[str, Any]) -> Configuration:
    name, layer = model.get("model", ModelConfig.model), model.get("layer", {})
    require_type("model", name, str)
    require_type("layer", layer, dict[str, Any])
    layer = {**layer_defaults(name), **layer}
    return Configuration(
        from_options(ModelConfig, {**model, "layer": layer}), from_options(TrainConfig, training)
    )


def plain_configuration(configuration: Configuration) -> dict[str, Any]:
    """{model: …, training: …} as plain data, as `best.yaml` of a search holds it."""
    parts = {"model": to_dict(configuration.model), "training": to_dict(configuration.training)}
    return json.loads(json.dumps(parts))


def shape_key(configuration: Configuration) -> str:
    """Equal for configurations that can train as replicas of each other: all options but those in `FREE`."""
    options = flatten(plain_configuration(configuration))
    return json.dumps({name: value for name, value in options.items() if name not in FREE}, sort_keys=True)


def require_option(name: str) -> None:
    """Raises unless the library has an option of this dotted name."""
    if name not in option_types():
        raise unknown_name("option", name, option_types())


@cache
def option_types() -> dict[str, type]:
    """Every option by its dotted name, with its type; `float` also where None is allowed."""
    return {name: _value_type(kind) for name, kind in option_hints().items()}


@cache
def option_hints() -> dict[str, Any]:
    """Every option by its dotted name, as it is annotated."""
    types = {name: kind for root, config in ROOTS.items() for name, kind in _leaves(root, config).items()}
    del types["model.options"]
    return types | dotted("model.options", all_model_options())


def _leaves(prefix: str, config: Any) -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for option, kind in field_types(config).items():
        name = f"{prefix}.{option}"
        leaves |= _leaves(name, kind) if is_dataclass(kind) else {name: kind}
    return leaves


def _value_type(kind: Any) -> type:
    """`float | None` → float, `tuple[str, ...]` → tuple."""
    arguments = [argument for argument in get_args(kind) if argument is not NoneType]
    return tuple if Ellipsis in arguments else (arguments[0] if arguments else kind)


def read_value(name: str, value: Any) -> Any:
    """A value from a file in the type of its option: whole numbers may stand for others, lists for tuples."""
    kind = option_hints()[name]
    if isinstance(value, list):
        value = tuple(value)
    require_type(name, value, kind)
    is_number = _value_type(kind) is float and value is not None
    return float(value) if is_number else value


def read_configuration(path: str | Path) -> Configuration:
    """What `best.yaml` of a search holds: {model: …, training: …}; what is left out has its default."""
    return read_document(path, "a configuration {model: …, training: …}").build(_from_tree)


def _from_tree(tree: Mapping[str, Any]) -> Configuration:
    for name, part in tree.items():
        if name not in ROOTS:
            raise unknown_name("part of a configuration", name, ROOTS)
        require_type(name, part, dict[str, Any])
    return _from_parts(tree.get("model", {}), tree.get("training", {}))


WEBKB = ("texas", "wisconsin", "cornell", "cornell_fixed")


@dataclass(frozen=True)
class Rules:
    """How to train, and how to report."""

    training: TrainConfig
    ddof: int = 0
    """0: the population's standard deviation; 1: the sample's."""
    by_dataset: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options that differ on some datasets."""


_WEBKB_RATE = {name: {"learning_rate": 0.02} for name in WEBKB}
RULES = {
    "default": Rules(TrainConfig()),
    "paper": Rules(published_training(epochs=500, patience=200, select="loss"), by_dataset=_WEBKB_RATE),
    "paper-acc": Rules(published_training(epochs=500, patience=200, select="acc"), by_dataset=_WEBKB_RATE),
    "platonov": Rules(
        published_training(epochs=1000, patience=1000, learning_rate=3e-5, weight_decay=0.0), ddof=1
    ),
}


def get_rules(name: str, dataset: str | None = None) -> Rules:
    """The rules of that name, as they are on a dataset."""
    if name not in RULES:
        raise unknown_name("training rules", name, RULES)
    rules = RULES[name]
    changes = rules.by_dataset.get(dataset or "", {})
    return replace(rules, training=replace(rules.training, **changes))
