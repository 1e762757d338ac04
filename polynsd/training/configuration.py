"""Dotted names of options, `model.layer.degree`, and configurations made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

from polynsd.config import ModelConfig, TrainConfig, from_options, read_options
from polynsd.errors import ConfigError, unknown_name
from polynsd.zoo import all_model_options

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
        "training.weight_decay",
    }
)


class Configuration(NamedTuple):
    """What is trained, and how."""

    model: ModelConfig
    training: TrainConfig


def configure(values: Mapping[str, Any]) -> Configuration:
    """The configuration with these options; all others keep their defaults."""
    tree: dict[str, Any] = {root: {} for root in ROOTS}
    for name, value in values.items():
        require_option(name)
        *path, leaf = name.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[leaf] = value
    model, training = from_options(ModelConfig, tree["model"]), from_options(TrainConfig, tree["training"])
    return Configuration(model, training)


def require_option(name: str) -> None:
    """Raises unless the library has an option of this dotted name."""
    if name not in option_types():
        raise unknown_name("option", name, option_types())


@cache
def option_types() -> dict[str, type]:
    """Every option by its dotted name, with its type; `float` also where None is allowed."""
    known = {name: kind for root, config in ROOTS.items() for name, kind in _leaves(root, config).items()}
    del known["model.options"]
    return known | {f"model.options.{name}": kind for name, kind in all_model_options().items()}


def _leaves(prefix: str, config: Any) -> dict[str, type]:
    leaves: dict[str, type] = {}
    hints = get_type_hints(config)
    for field in fields(config):
        name, kind = f"{prefix}.{field.name}", hints[field.name]
        leaves |= _leaves(name, kind) if is_dataclass(kind) else {name: _plain(kind)}
    return leaves


def _plain(kind: Any) -> type:
    """`float | None` → float, `tuple[str, ...]` → tuple."""
    arguments = [argument for argument in get_args(kind) if argument is not type(None)]
    return tuple if Ellipsis in arguments else (arguments[0] if arguments else kind)


def read_value(name: str, value: Any) -> Any:
    """A value from a file in the type of its option; `1e-4`, a word to YAML, is read as the number meant."""
    kind = option_types()[name]
    if value is None or (kind is not tuple and isinstance(value, kind) and not _is_flag(value, kind)):
        return value
    if kind is tuple and isinstance(value, list | tuple):
        return tuple(value)
    if kind is float and isinstance(value, int | str) and not isinstance(value, bool):
        try:
            return float(value)
        except ValueError:
            pass
    raise ConfigError(f"{name} takes values of type {kind.__name__}; got {value!r}.")


def _is_flag(value: Any, kind: type) -> bool:
    """True is an int to Python, but not to a person."""
    return isinstance(value, bool) and kind is not bool


def read_configuration(path: str | Path) -> Configuration:
    """What `best.yaml` of a search holds: {model: …, training: …}; what is left out has its default."""
    options = read_options(path, "a configuration {model: …, training: …}")
    for name in options:
        if name not in ROOTS:
            raise unknown_name("part of a configuration", name, ROOTS)
    model, training = options.get("model", {}), options.get("training", {})
    return Configuration(from_options(ModelConfig, model), from_options(TrainConfig, training))
