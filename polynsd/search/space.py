"""Search spaces as data: option names and what each may be.

    model.layer.degree: [2, 4, 8]                                   one of these
    model.layer.dropout: {low: 0.0, high: 0.9, step: 0.1}           on a grid
    training.weight_decay: {low: 1.0e-5, high: 1.0e-2, log: true}   uniform in the logarithm
    training.epochs: 500                                            always this

A list is always a choice; where a value itself is a list, the choice is a list of lists.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from polynsd.documents import read_document, write_document
from polynsd.errors import ConfigError, PolyNSDError, unknown_name
from polynsd.fields import require_type
from polynsd.optional import load_optuna
from polynsd.search.trials import FREE_IN_TRIALS
from polynsd.training.configuration import (
    Configuration,
    configure,
    option_types,
    read_value,
    require_option,
)
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
MOST_STEPS = 10**9
DIGITS = 12  # 3 steps of 0.1 are 0.3, not 0.30000000000000004


@dataclass(frozen=True)
class Fixed:
    """An option that always has the same value."""

    value: Any

    @property
    def examples(self) -> tuple[Any, ...]:
        """Values that decide whether all others are valid."""
        return (self.value,)

    def plain(self) -> Any:
        return [_plain(self.value)] if isinstance(self.value, tuple) else _plain(self.value)


@dataclass(frozen=True)
class Choice:
    """One of several values, all equally likely. A storage holds lists as JSON."""

    values: tuple[Any, ...]

    @property
    def examples(self) -> tuple[Any, ...]:
        return self.values

    def plain(self) -> list[Any]:
        return [_plain(value) for value in self.values]

    def distribution(self, kind: type) -> Any:
        return load_optuna().distributions.CategoricalDistribution([_label(value) for value in self.values])

    def decode(self, stored: Any) -> Any:
        """The value that a storage holds as `stored`."""
        return {_label(value): value for value in self.values}[stored]


@dataclass(frozen=True)
class Range:
    """low ≤ value ≤ high, uniform in the value or its logarithm, or on a grid."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    @property
    def examples(self) -> tuple[Any, ...]:
        return (self.low, self.high)

    def plain(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"low": self.low, "high": self.high}
        if self.log:
            plain["log"] = True
        return plain if self.step is None else {**plain, "step": self.step}

    def distribution(self, kind: type) -> Any:
        distributions = load_optuna().distributions
        if kind is int:
            return distributions.IntDistribution(self.low, self.high, log=self.log, step=self.step or 1)
        return distributions.FloatDistribution(self.low, self.high, log=self.log, step=self.step)

    def decode(self, stored: Any) -> Any:
        """The value that a storage holds as `stored`."""
        return stored if self.step is None or isinstance(stored, int) else round(stored, DIGITS)


Rule = Fixed | Choice | Range


@dataclass(frozen=True)
class Space:
    """What a search may try: a rule for each option that it names; the others keep their defaults."""

    rules: Mapping[str, Rule]

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Space:
        """A space from plain data, as in the head of this file; unknown names and bad ranges raise."""
        for name in plain:
            require_option(name)
        return cls({name: _read_rule(name, value) for name, value in plain.items()})

    @classmethod
    def load(cls, path: str | Path) -> Space:
        """A space from a `.yaml` file."""
        return read_document(path, "option names and what each may be").build(cls.from_dict)

    def save(self, path: str | Path) -> None:
        """Writes the space to a `.yaml` file."""
        write_document(path, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Plain data that `from_dict` turns back into the same space."""
        return {name: rule.plain() for name, rule in self.rules.items()}

    def fixed(self, name: str, value: Any) -> Space:
        """The space with one more option fixed; it is an error if the space says otherwise."""
        require_option(name)
        rule = Fixed(read_value(name, value))
        if self.rules.get(name, rule) != rule:
            raise ConfigError(f"the space has {name}: {self.rules[name].plain()}; {value!r} contradicts it.")
        return Space({**self.rules, name: rule})

    def distributions(self) -> dict[str, Any]:
        """Optuna's distributions of all that varies."""
        kinds = option_types()
        return {
            name: rule.distribution(kinds[name])
            for name, rule in self.rules.items()
            if not isinstance(rule, Fixed)
        }

    def contains(self, values: Mapping[str, Any]) -> bool:
        """Whether the space can draw these values of some of its options."""
        for name, value in values.items():
            rule, value = self.rules[name], read_value(name, value)
            inside = rule.low <= value <= rule.high if isinstance(rule, Range) else value in rule.examples
            if not inside:
                return False
        return True

    def shape(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the sampled parameters that replicas of one training must have in common."""
        return {name: value for name, value in params.items() if name not in FREE_IN_TRIALS}

    def stored(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """These values as a storage holds them; options that the space does not vary are left out."""
        varying = self.distributions()
        return {name: _label(read_value(name, value)) for name, value in values.items() if name in varying}

    def configuration(self, params: Mapping[str, Any]) -> Configuration:
        """The configuration that sampled parameters stand for."""
        values = {
            name: rule.value if isinstance(rule, Fixed) else rule.decode(params[name])
            for name, rule in self.rules.items()
        }
        return configure(values)


def _read_rule(name: str, plain: Any) -> Rule:
    if isinstance(plain, dict):
        return _read_range(name, plain)
    if not isinstance(plain, list):
        return Fixed(read_value(name, plain))
    values = tuple(read_value(name, value) for value in plain)
    if len({_label(value) for value in values}) != len(values) or not values:
        raise ConfigError(f"{name} needs one or more different choices; got {plain}.")
    return Choice(values) if len(values) > 1 else Fixed(values[0])


def _read_range(name: str, plain: dict[str, Any]) -> Range:
    keys = ("low", "high", "log", "step")
    for key in plain:
        if key not in keys:
            raise unknown_name(f"key of {name}", key, keys)
    if option_types()[name] not in (int, float):
        raise ConfigError(f"{name} is not a number and has no range; list its choices.")
    low, high, step = (
        read_value(name, plain[key]) if plain.get(key) is not None else None
        for key in ("low", "high", "step")
    )
    require_type(f"log of {name}", plain.get("log", False), bool)
    if low is None or high is None or not -math.inf < low < high < math.inf:
        raise ConfigError(f"{name} needs low < high; got {plain}.")
    rule = Range(low, high, plain.get("log", False), step)
    if rule.log and (low <= 0 or step is not None):
        raise ConfigError(f"{name}: log needs low > 0 and no step; got {rule.plain()}.")
    if step is not None:
        count = (high - low) / step if step > 0 else 0.5
        if not abs(count) < MOST_STEPS or abs(count - round(count)) > 1e-9:
            raise ConfigError(f"{name}: whole steps must lead from low to high; got {rule.plain()}.")
    return rule


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _label(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, tuple) else value


def check_space(space: Space) -> None:
    """Raises where a value, or a combination of coupled values, makes a model that cannot be built.

    A space with very many combinations is checked value by value only; a trial that cannot be built
    is then marked as failed, with the reason.
    """
    if not space.distributions():
        raise ConfigError("the space leaves nothing to search: every option is fixed.")
    built = set()
    try:
        for values in _combinations(space):
            model = configure(values).model
            # one layer shows whether it can be built; so does one channel, except in the zoo (heads)
            width = model.hidden_channels if model.model in ZOO else 1
            small = replace(model, num_layers=1, hidden_channels=width)
            if repr(small) not in built:
                with torch.device("meta"):  # takes no memory, whatever the sizes
                    build_model(small, 8, 2)
                built.add(repr(small))
    except (PolyNSDError, RuntimeError, OverflowError) as error:  # of sizes that no tensor can have
        raise ConfigError(f"the space holds a model that cannot be built: {error}") from error


def _combinations(space: Space) -> Iterator[dict[str, Any]]:
    """Coupled options in all combinations, unless there are too many; then every option by itself."""
    first = {name: rule.examples[0] for name, rule in space.rules.items()}
    examples = {}
    for name in COUPLED:
        rule = space.rules.get(name)
        if isinstance(rule, Range) and isinstance(rule.low, int):
            steps = range(rule.low, int(rule.high) + 1, int(rule.step or 1))
            examples[name] = tuple(steps[: MOST_COMBINATIONS + 1])  # as many are too many in any case
        elif rule is not None:
            examples[name] = rule.examples
    if math.prod(map(len, examples.values())) <= MOST_COMBINATIONS:
        for values in itertools.product(*examples.values()):
            yield {**first, **dict(zip(examples, values, strict=True))}
    for name, rule in space.rules.items():
        yield from ({**first, name: value} for value in rule.examples)
