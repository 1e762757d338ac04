"""Names with arguments: `jacobi(0.5, -0.5)`, `orthogonal(cayley)`, `legendre`.

Configurations carry such strings, so they print, compare and round-trip through files as they are.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from polynsd.errors import ConfigError, unknown_name

R = TypeVar("R")

_pattern = re.compile(r"\s*([\w-]+)\s*(?:\(([^()]*)\))?\s*")


class Spec(NamedTuple):
    """A parsed name with its arguments."""

    name: str
    arguments: tuple[float | str, ...]


def parse_spec(text: str) -> Spec:
    """Splits `name(arg, arg)`; numbers become floats, anything else stays a string."""
    match = _pattern.fullmatch(text)
    if match is None:
        raise ConfigError(f"expected a name such as 'legendre' or 'jacobi(0.5, 0)'; got {text!r}.")
    name, inside = match.groups()
    arguments = [part.strip() for part in inside.split(",")] if inside and inside.strip() else []
    return Spec(name, tuple(_number_or_word(part) for part in arguments))


def resolve(kind: str, spec: Spec, choices: Mapping[str, Callable[..., R]]) -> R:
    """Calls the choice that the spec names with the spec's arguments."""
    if spec.name not in choices:
        raise unknown_name(kind, spec.name, choices)
    try:
        return choices[spec.name](*spec.arguments)
    except TypeError as error:
        raise ConfigError(
            f"{kind} '{spec.name}' does not take the arguments {spec.arguments}: {error}."
        ) from error


def _number_or_word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
