"""How options are written that `tyro` does not know: mappings, lists, metrics and weights of classes.

--options heads 4 norm layer        a mapping: names and values in turn
--degrees 8,16 --degrees 8 16       a list: separated by commas or spaces
--metric ROC-AUC                    the estimator's `roc_auc`
--class-weight yes=5 no=1           a number for every class
--decision yes/no=10                costs, of saying no where yes is true
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args

from tyro.conf import arg
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from polynsd.errors import ConfigError, guess_name

DELIMITERS = {"tab": "\t", "\\t": "\t"}  # characters that are awkward to type
NUMBERS: dict[Any, tuple[Callable[[str], Any], str, str]] = {
    int: (int, "INT", "a whole number"),
    float: (float, "FLOAT", "a number"),
}
BOOLEANS = {"True": True, "False": False}
METRICS = ("auto", "accuracy", "balanced_accuracy", "f1", "roc_auc", "pr_auc")
METRIC_ALIASES = {"balanced": "balanced_accuracy", "auc": "roc_auc", "average_precision": "pr_auc"}


def mapping_registry() -> ConstructorRegistry:
    """The rules by which `tyro` reads mappings and numbers."""
    registry = ConstructorRegistry()
    spec: PrimitiveConstructorSpec[dict[str, Any]] = PrimitiveConstructorSpec(
        nargs="*",
        metavar="[NAME VALUE ...]",
        instance_from_str=parse_mapping,
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda value: [str(word) for pair in value.items() for word in pair],
    )

    @registry.primitive_rule
    def rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
        kinds = [kind for kind in get_args(info.type) or (info.type,) if kind is not type(None)]
        if len(kinds) == 1 and kinds[0] in NUMBERS and info.type_origin in (None, Union, UnionType):
            return _number_spec(*NUMBERS[kinds[0]], may_be_none=info.type not in NUMBERS)
        return spec if info.type_origin in (dict, Mapping) else None

    return registry


def _number_spec(
    kind: Callable[[str], Any], metavar: str, wanted: str, may_be_none: bool
) -> PrimitiveConstructorSpec[Any]:
    """How a number is read, and None where that is a value; a mistake is told without names of types."""

    def parse(words: list[str]) -> Any:
        if may_be_none and words[0] == "None":
            return None
        try:
            return kind(words[0])
        except ValueError as error:
            raise ValueError(f"expected {wanted}; got {words[0]!r}.") from error

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=parse,
        is_instance=lambda value: may_be_none if value is None else type(value) in (int, float),
        str_from_instance=lambda value: [str(value)],
    )


def parse_mapping(words: list[str]) -> dict[str, Any]:
    """Names and values in turn."""
    if len(words) % 2:
        raise ValueError(f"expected names and values in turn, such as heads 4; got {' '.join(words)!r}.")
    return {name: parse_word(value) for name, value in zip(words[::2], words[1::2], strict=True)}


def move_options(arguments: Sequence[str], names: Collection[str], begun: Mapping[str, Any]) -> list[str]:
    """`--degree 8` as `--options degree 8`, for options of these names.

    A mapping that is given replaces the one of a file. Where it is not given, those moved join the file's,
    `begun`.
    """
    moved, rest, words = list[str](), list[str](), list(arguments)
    while words:
        flag, is_joined, value = (word := words.pop(0)).partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        has_value = bool(is_joined) or (bool(words) and not words[0].startswith("--"))
        if flag.startswith("--") and name in names and has_value:
            moved += [name, value if is_joined else words.pop(0)]
        else:
            rest.append(word)
    if not moved:
        return rest
    if "--options" in rest:
        place = rest.index("--options") + 1
        return [*rest[:place], *moved, *rest[place:]]
    return [*rest, "--options", *(str(word) for pair in begun.items() for word in pair), *moved]


def parse_word(word: str) -> int | float | bool | str:
    """True, False, whole numbers and numbers are what they look like; anything else is text."""
    if word in BOOLEANS:
        return BOOLEANS[word]
    with suppress(ValueError):
        return int(word)
    with suppress(ValueError):
        return float(word)
    return word


def _list_spec(parse_item: Callable[[str], Any], metavar: str) -> PrimitiveConstructorSpec[tuple[Any, ...]]:
    def parse(words: list[str]) -> tuple[Any, ...]:
        return tuple(parse_item(part.strip()) for word in words for part in word.split(",") if part.strip())

    return PrimitiveConstructorSpec(
        nargs="*",
        metavar=metavar,
        instance_from_str=parse,
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda value: [",".join(map(str, value))] if value else [],
    )


def _parse_integer(text: str) -> int:
    if not text.lstrip("-").isdigit():
        raise ValueError(f"expected whole numbers such as 8,16; got {text!r}.")
    return int(text)


def _parse_number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"expected numbers such as 0.8,0.2; got {text!r}.") from error


@dataclass(frozen=True, kw_only=True)
class MemoryOption:
    """What commands that read files have in common."""

    memory: Annotated[str | None, arg(metavar="SIZE")] = None
    """The most memory that a file may take, e.g. 4GB or 50% of what is free; POLYNSD_MEMORY, or half of what
    is free, unless given."""


Integers = Annotated[tuple[int, ...], _list_spec(_parse_integer, "INT,INT,…")]
Names = Annotated[tuple[str, ...], _list_spec(str, "NAME,NAME,…")]
Numbers = Annotated[tuple[float, ...], _list_spec(_parse_number, "NUMBER,NUMBER,…")]


def parse_metric(name: str) -> str:
    """The estimator's name of a metric: `roc_auc` for `ROC-AUC`."""
    plain = name.lower().replace("-", "_")
    plain = METRIC_ALIASES.get(plain, plain)
    if plain not in METRICS:
        raise ConfigError(
            f"unknown --metric {name}; choose from: {', '.join(METRICS)}.{guess_name(plain, METRICS)}"
        )
    return plain


def parse_decision(words: Sequence[str], classes: Sequence[str]) -> str | list[list[float]]:
    """The estimator's name of a rule, `balanced_accuracy` for `balanced`, or its matrix of costs.

    Costs are given as TRUTH/ANSWER=COST; a pair that is not named costs 0 where it is right and 1 where not.
    """
    if not words:
        return "auto"
    if len(words) == 1 and "/" not in words[0]:
        plain = words[0].lower().replace("-", "_")
        return METRIC_ALIASES.get(plain, plain)
    names = sorted(classes)  # as `classes_` of the estimator
    pairs = {f"{truth}/{said}": (i, j) for i, truth in enumerate(names) for j, said in enumerate(names)}
    costs = [[float(i != j) for j in range(len(names))] for i in range(len(names))]
    for word in words:
        pair, _, number = word.rpartition("=")
        try:
            cost = float(number)
        except ValueError:
            cost = math.nan
        if pair not in pairs or not math.isfinite(cost):
            raise ConfigError(
                f"--decision is one rule, or costs as TRUTH/ANSWER=NUMBER with classes among "
                f"{', '.join(names)}, such as {names[-1]}/{names[0]}=10; got {word}."
            )
        i, j = pairs[pair]
        costs[i][j] = cost
    return costs


def parse_class_weight(words: Sequence[str], classes: Sequence[str]) -> Any:
    """None, `balanced`, or the weights by class."""
    if not words:
        return None
    if list(words) == ["balanced"]:
        return "balanced"
    weights = {}
    for word in words:
        name, _, number = word.rpartition("=")
        try:
            weights[name] = float(number)
        except ValueError:
            weights[name] = -1.0
        if name not in classes or not 0 < weights[name] < float("inf"):
            raise ConfigError(
                f"--class-weight is balanced, or a positive number for classes among {', '.join(classes)}, "
                f"such as {classes[0]}=2; got {word}."
            )
    return weights
