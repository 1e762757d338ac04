"""Graphs that ship with the package as generators, by name: `make_graph("minesweeper", rows=50)`."""

import hashlib
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from polynsd.data.generators.chain import syntax_chain
from polynsd.data.generators.heterophily import heterophilous_graph
from polynsd.data.generators.minesweeper import minesweeper
from polynsd.data.generators.streets import street_graph
from polynsd.data.graph import Graph
from polynsd.errors import ConfigError, unknown_name

if TYPE_CHECKING:
    from torch_geometric.data import Data

HASH_DIGITS = 8


@dataclass(frozen=True)
class Embedded:
    """A generator and the metric its graphs are scored by."""

    generate: Callable[..., "Data | Graph"]
    metric: str


EMBEDDED = {
    "heterophily": Embedded(heterophilous_graph, "accuracy"),
    "minesweeper": Embedded(minesweeper, "roc_auc"),
    "streets": Embedded(street_graph, "accuracy"),
    "chain": Embedded(syntax_chain, "accuracy"),
}


def get_embedded(name: str) -> Embedded:
    """The generator of that name."""
    if name not in EMBEDDED:
        raise unknown_name("generator", name, EMBEDDED)
    return EMBEDDED[name]


def make_graph(name: str, **arguments: Any) -> Graph:
    """A graph from an embedded generator; unknown arguments raise.

    All arguments, defaults included, are kept as JSON in `extras["arguments"]`, and a short hash of them
    ends the name, such as `heterophilous-1a2b3c4d`: results of different graphs are not mixed up.
    """
    generate = get_embedded(name).generate
    known = inspect.signature(generate).parameters
    for argument in arguments:
        if argument not in known:
            raise unknown_name(f"{name} argument", argument, known)
    made = generate(**arguments)
    graph = made if isinstance(made, Graph) else Graph.from_pyg(made)
    record = _record({key: arguments.get(key, parameter.default) for key, parameter in known.items()})
    digest = hashlib.sha256(record.encode()).hexdigest()[:HASH_DIGITS]
    extras = {**graph.extras, "arguments": np.array(record)}
    return replace(graph, name=f"{graph.name}-{digest}", extras=extras)


def _record(arguments: dict[str, Any]) -> str:
    """Sorted JSON; numbers of numpy as plain ones."""
    return json.dumps(arguments, sort_keys=True, default=lambda value: value.item())


def parse_arguments(name: str, pairs: tuple[str, ...]) -> dict[str, Any]:
    """`("degree=6", "heterophily=0.9")` as arguments of a generator, in the types of its defaults."""
    known = inspect.signature(get_embedded(name).generate).parameters
    parsed: dict[str, Any] = {}
    for pair in pairs:
        key, separator, text = pair.partition("=")
        if not separator:
            raise ConfigError(f"graph arguments are written key=value; got {pair!r}.")
        if key not in known:
            raise unknown_name(f"{name} argument", key, known)
        parsed[key] = _parse(key, text, type(known[key].default))
    return parsed


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
