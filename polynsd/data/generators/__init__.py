"""Synthetic graphs, by name and by function.

    graph = make_graph("minesweeper", rows=50)   # remembers its arguments
    graph = minesweeper(rows=50)                 # the function behind the name

All generators return a `Graph` and are deterministic in their arguments.
"""

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from polynsd.data.generators.chain import syntax_chain
from polynsd.data.generators.heterophily import heterophilous_graph
from polynsd.data.generators.minesweeper import minesweeper
from polynsd.data.generators.planted import planted_sheaf
from polynsd.data.generators.streets import eccentricity_labels, hop_eccentricity, street_graph
from polynsd.data.graph import Graph
from polynsd.errors import ConfigError, unknown_name

__all__ = [
    "GENERATORS",
    "GraphGenerator",
    "eccentricity_labels",
    "get_generator",
    "heterophilous_graph",
    "hop_eccentricity",
    "make_graph",
    "minesweeper",
    "parse_arguments",
    "planted_sheaf",
    "street_graph",
    "syntax_chain",
]

HASH_DIGITS = 8


@dataclass(frozen=True)
class GraphGenerator:
    """A function that makes graphs, and the metric models are scored by on them."""

    function: Callable[..., Graph]
    metric: str


GENERATORS: Mapping[str, GraphGenerator] = MappingProxyType(
    {
        "heterophily": GraphGenerator(heterophilous_graph, "accuracy"),
        "minesweeper": GraphGenerator(minesweeper, "roc_auc"),
        "streets": GraphGenerator(street_graph, "accuracy"),
        "chain": GraphGenerator(syntax_chain, "accuracy"),
        "planted": GraphGenerator(planted_sheaf, "accuracy"),
    }
)


def get_generator(name: str) -> GraphGenerator:
    """The generator of that name; an unknown name is a `ConfigError`."""
    if name not in GENERATORS:
        raise unknown_name("generator", name, GENERATORS)
    return GENERATORS[name]


def make_graph(name: str, **arguments: Any) -> Graph:
    """A graph from a generator; unknown arguments raise.

    All arguments, defaults included, are kept as JSON in `extras["arguments"]`. A short hash of them
    ends the name, such as `heterophilous-1a2b3c4d`, so that results of different graphs are not mixed up.
    """
    parameters = _parameters(name)
    for key in arguments:
        _require_argument(name, key, parameters)
    graph = get_generator(name).function(**arguments)
    complete = {key: arguments.get(key, parameter.default) for key, parameter in parameters.items()}
    record = json.dumps(complete, sort_keys=True, default=lambda value: value.item())  # of numpy numbers
    digest = hashlib.sha256(record.encode()).hexdigest()[:HASH_DIGITS]
    extras = {**graph.extras, "arguments": np.array(record)}
    return replace(graph, name=f"{graph.name}-{digest}", extras=extras)


def parse_arguments(name: str, pairs: tuple[str, ...]) -> dict[str, Any]:
    """`("degree=6", "heterophily=0.9")` as arguments of a generator, in the types of its defaults."""
    parameters = _parameters(name)
    arguments: dict[str, Any] = {}
    for pair in pairs:
        key, separator, text = pair.partition("=")
        if not separator:
            raise ConfigError(f"graph arguments are written key=value; got {pair!r}.")
        _require_argument(name, key, parameters)
        arguments[key] = _parse(key, text, type(parameters[key].default))
    return arguments


def _parameters(name: str) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(get_generator(name).function).parameters


def _require_argument(name: str, key: str, parameters: Mapping[str, inspect.Parameter]) -> None:
    if key not in parameters:
        raise unknown_name(f"{name} argument", key, parameters)


def _parse(key: str, text: str, kind: type) -> Any:
    if kind is bool:
        words = {"true": True, "false": False}
        if text.lower() not in words:
            raise ConfigError(f"{key} must be true or false; got {text!r}.")
        return words[text.lower()]
    try:
        return kind(text)
    except ValueError as error:
        raise ConfigError(f"{key} must be of type {kind.__name__}; got {text!r}.") from error
