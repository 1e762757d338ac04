"""Can everything that a space holds be built? Asked before the first trial, where it can be decided."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from polynsd.config import ModelConfig
from polynsd.errors import ConfigError, PolyNSDError
from polynsd.search.space import Range, Space
from polynsd.training.configuration import configure
from polynsd.zoo import ZOO, build_model

# Options whose values may exclude each other; all others are valid or not by themselves.
COUPLED = (
    "model.model",
    "model.layer.maps",
    "model.layer.stalk_dim",
    "model.layer.fixed_channels",
    "model.layer.edge_weights",
    "model.layer.edge_dim",
    "model.layer.normalization",
    "model.layer.filter",
    "model.layer.correction",
    "model.layer.correction_state",
)
MOST_COMBINATIONS = 5_000


def check_space(space: Space) -> None:
    """Raises where a value, or a combination of coupled values, makes a model that cannot be built.

    A space with very many combinations is checked value by value only; a trial that cannot be built
    is then marked as failed, with the reason.
    """
    if not space.distributions():
        raise ConfigError("the space leaves nothing to search: every option is fixed.")
    try:
        for values in _combinations(space):
            build_model(_small(configure(values).model), 8, 2)
    except PolyNSDError as error:
        raise ConfigError(f"the space holds a model that cannot be built: {error}") from error


def _small(model: ModelConfig) -> ModelConfig:
    """One layer is enough to see; the width too, where it need not be a multiple of something."""
    return replace(model, num_layers=1, hidden_channels=model.hidden_channels if model.model in ZOO else 1)


def _combinations(space: Space) -> Iterator[dict[str, Any]]:
    first = {name: rule.examples[0] for name, rule in space.rules.items()}
    examples = {name: _all_values(space, name) for name in COUPLED if name in space.rules}
    if math.prod(map(len, examples.values())) <= MOST_COMBINATIONS:
        for values in itertools.product(*examples.values()):
            yield {**first, **dict(zip(examples, values, strict=True))}
    for name, rule in space.rules.items():
        yield from ({**first, name: value} for value in rule.examples)


def _all_values(space: Space, name: str) -> tuple[Any, ...]:
    """All integers of a range, or what the rule gives as examples."""
    rule = space.rules[name]
    if isinstance(rule, Range) and isinstance(rule.low, int):
        return tuple(range(rule.low, int(rule.high) + 1, int(rule.step or 1)))
    return rule.examples
