"""How a mapping is written on a command line: names and values in turn, `--options heads 4 norm layer`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

WORDS = {"True": True, "False": False}


def pairs_registry() -> ConstructorRegistry:
    """The rules by which `tyro` reads a mapping."""
    registry = ConstructorRegistry()

    @registry.primitive_rule
    def rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[dict[str, Any]] | None:
        return _PAIRS if info.type_origin is dict else None

    return registry


def read_pairs(words: list[str]) -> dict[str, Any]:
    """Every second word is a value."""
    if len(words) % 2:
        raise ValueError(f"expected names and values in turn, such as heads 4; got {' '.join(words)!r}.")
    return {name: read_word(value) for name, value in zip(words[::2], words[1::2], strict=True)}


def read_word(word: str) -> int | float | bool | str:
    """True and False, whole numbers and numbers are what they look like."""
    if word in WORDS:
        return WORDS[word]
    with suppress(ValueError):
        return int(word)
    with suppress(ValueError):
        return float(word)
    return word


_PAIRS: PrimitiveConstructorSpec[dict[str, Any]] = PrimitiveConstructorSpec(
    nargs="*",
    metavar="[NAME VALUE ...]",
    instance_from_str=read_pairs,
    is_instance=lambda value: isinstance(value, dict),
    str_from_instance=lambda value: [str(word) for pair in value.items() for word in pair],
)
