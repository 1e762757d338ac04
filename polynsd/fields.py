"""Values checked against the annotations of a dataclass, for data that comes from files and callers.

`float` admits whole numbers, and numbers may be NumPy's; `True` is no number. A list is admitted where a
tuple is annotated only by `fit_fields`, which makes it one.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from polynsd.errors import ConfigError, unknown_name

T = TypeVar("T")

NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a name",
    NoneType: "null",
    Any: "anything",
}
shorten = reprlib.Repr()
shorten.maxstring = shorten.maxother = 60


def check_fields(config: Any) -> None:
    """Lists become tuples; raises a `ConfigError` unless every field has the annotated type."""
    for name, hint in field_types(type(config)).items():  # type: ignore[arg-type]
        value = getattr(config, name)
        if isinstance(value, list) and _has_type(tuple(value), hint):
            object.__setattr__(config, name, value := tuple(value))
        require_type(name, value, hint)


def fit_fields(kind: type[T], values: Mapping[str, Any]) -> T:
    """A dataclass from plain data: lists become tuples, mappings dataclasses.

    Raises:
        ConfigError: a name is unknown or missing, or a value has another type than its field.
    """
    hints = field_types(kind)  # type: ignore[arg-type]
    if not isinstance(values, Mapping):
        raise ConfigError(f"{kind.__name__} needs a mapping of names to values; got {shorten.repr(values)}.")
    for name in values:
        if name not in hints:
            raise unknown_name("option", shorten.repr(name).strip("'"), hints)
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"{kind.__name__} needs {field.name}.")
    return kind(**{name: _fit(name, value, hints[name]) for name, value in values.items()})


def require_fields(values: Any, /, **hints: Any) -> None:
    """Raises a `ConfigError` unless a mapping has just these names, each with a value of its type."""
    require_type("what is stored", values, dict[str, Any])
    for name in values.keys() ^ hints.keys():
        raise ConfigError(f"{name} is {'missing' if name in hints else 'unknown'}.")
    for name, hint in hints.items():
        require_type(name, values[name], hint)


def require_type(name: str, value: Any, hint: Any) -> None:
    """Raises a `ConfigError` unless a value has the annotated type."""
    if not _has_type(value, hint):
        raise ConfigError(f"{name} must be {describe(hint)}; got {shorten.repr(value)}.")


@cache
def field_types(kind: Any) -> dict[str, Any]:
    """The annotations of a dataclass, by field."""
    hints = _hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def describe(hint: Any) -> str:
    """An annotation in words."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        *others, last = map(describe, inner)
        return f"{', '.join(others)} or {last}"
    if origin in (tuple, list, Sequence):
        items = "names" if inner[0] is str else f"items, each {describe(inner[0])}"
        return f"a list or tuple of {items}"
    if origin in (dict, Mapping):
        return f"a mapping of names, each to {describe(inner[1])}"
    if hasattr(hint, "_fields"):
        return f"a list of {', '.join(hint._fields)}"
    return "a mapping of options" if is_dataclass(hint) else NAMES.get(hint, getattr(hint, "__name__", "?"))


_hints = cache(get_type_hints)


def _fit(name: str, value: Any, hint: Any) -> Any:
    """The value as `require_type` admits it."""
    if type(value) is hint:
        return value
    origin, inner = _take_apart(hint)
    for kind in inner if origin in (Union, UnionType) else (hint,):
        if is_dataclass(kind) and isinstance(value, Mapping):
            return fit_fields(kind, value)  # type: ignore[arg-type]
        if get_origin(kind) is tuple and isinstance(value, list | tuple):
            return tuple(_fit(f"{name}.{i}", item, get_args(kind)[0]) for i, item in enumerate(value))
        if hasattr(kind, "_fields") and isinstance(value, list):  # a NamedTuple
            least, hints = len(kind._fields) - len(kind._field_defaults), _hints(kind)
            if least <= len(value) <= len(hints):
                pairs = zip(value, hints.values(), strict=False)
                return kind(*(_fit(name, item, each) for item, each in pairs))
    require_type(name, value, hint)
    return value


@cache
def _take_apart(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(hint), get_args(hint)


def _has_type(value: Any, hint: Any) -> bool:
    if hint is Any or type(value) is hint:
        return True
    origin, inner = _take_apart(hint)
    if origin in (Union, UnionType):
        return any(_has_type(value, each) for each in inner)
    if origin in (tuple, list, Sequence):
        is_text = isinstance(value, str)
        return isinstance(value, origin) and not is_text and all(_has_type(each, inner[0]) for each in value)
    if origin in (dict, Mapping):
        return isinstance(value, origin) and all(
            isinstance(key, str) and _has_type(each, inner[1]) for key, each in value.items()
        )
    if hint in (int, float):
        return isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
    return isinstance(value, origin or hint)
