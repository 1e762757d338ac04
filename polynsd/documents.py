"""Files of plain data, YAML and JSON: one reader for configurations, search spaces and records, one writer.

    document = read_document("best.yaml", "a configuration {model: …, training: …}")
    configuration = document.build(make_configuration)  # errors name file, line and key

A file may be broken, mistyped or made to do harm, so it is read within limits: of its size, of how deep it is
nested and of integers; without aliases, a page of which can stand for gigabytes, and without tags; no key
twice. Numbers and words are those of YAML 1.2, of which JSON is a part: `1e-2` is a number, `on` and `12:30`
are words.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from polynsd.errors import ConfigError, DataError, PolyNSDError, require_choice
from polynsd.optional import load_yaml

T = TypeVar("T")
Keys = tuple[str | int, ...]

SUFFIXES = (".json", ".yaml", ".yml")
MOST_BYTES = 1_000_000  # of a document; what a run writes itself may be longer
MOST_DEPTH = 32
LARGEST = 2**63  # integers are smaller
MOST_BLAMED = 1_000  # keys that are tried to find the cause of an error

MAPPING, LIST, END, VALUE = "mapping", "list", "end", "value"
WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s{}\[\]:,"]+')  # of JSON that is known to be right


class _FormatError(ValueError):
    """What is wrong with a file, and in which line."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


class _Event(NamedTuple):
    """The beginning or the end of a mapping or a list, or a value."""

    kind: str
    value: Any
    line: int


@dataclass(frozen=True)
class Document:
    """What a file holds: a mapping, and the line in which each of its keys stands."""

    path: Path
    content: dict[str, Any]
    lines: Mapping[Keys, int]

    def build(self, make: Callable[[dict[str, Any]], T]) -> T:
        """What `make` makes of the content; its errors get the file, the line and the key that cause them."""
        try:
            return make(self.content)
        except PolyNSDError as error:
            keys = self._find_cause(make, str(error))
            place = f", line {self.lines[keys]}, {'.'.join(map(str, keys))}" if keys else ""
            raise ConfigError(f"{self.path}{place}: {error}") from error

    def _find_cause(self, make: Callable[[dict[str, Any]], Any], message: str) -> Keys:
        """The innermost key that gives the same message alone; none where only several do so together."""
        for keys in sorted(list(self.lines)[:MOST_BLAMED], key=len, reverse=True):
            part = self.content
            for key in keys:
                part = part[key]  # type: ignore[index]
            for key in reversed(keys):
                part = {key: part}  # type: ignore[dict-item]
            try:
                make(part)
            except PolyNSDError as error:
                if str(error) == message:
                    return keys
        return ()


def read_document(path: str | Path, what: str) -> Document:
    """The mapping in a `.json` or `.yaml` file.

    Args:
        path: the file.
        what: it must hold, for the message where it holds something else.

    Raises:
        ConfigError: the file is none, is not UTF-8, is broken, or exceeds a limit.
    """
    path = Path(path)
    require_choice("configuration file type", path.suffix, SUFFIXES)
    lines: dict[Keys, int] = {}
    try:
        text = read_bytes(path, MOST_BYTES).decode("utf-8-sig")
        events = _json_events(text) if path.suffix == ".json" else _yaml_events(text)
        content = _build(events, next(events), (), lines)
        for event in events:
            raise _FormatError("it holds more than one document", event.line)
    except StopIteration:
        content = None
    except DataError as error:
        raise ConfigError(str(error)) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: it is not UTF-8 text. Save it in that encoding.") from error
    except _FormatError as error:
        raise ConfigError(f"{path}, line {error.line}: {error}.") from error
    if not isinstance(content, dict):
        found = "nothing" if content is None else type(content).__name__
        raise ConfigError(f"{path} must hold {what}; got {found}.")
    return Document(path, content, lines)


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """The content of a regular file; anything else, or a longer one, raises a `DataError` that names it."""
    try:
        if not path.is_file():  # a pipe would block
            raise DataError(f"{path} is {'not a file' if path.exists() else 'missing'}.")
        with path.open("rb") as file:
            content = file.read(-1 if most is None else most + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    if most is not None and len(content) > most:
        raise DataError(f"{path} is too large: such a file has at most {most:,} bytes.")
    return content


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; NaN and infinity are None.

    Raises:
        ValueError: for anything but JSON, and for what could not be computed or written again: integers of
            more than 64 bits, nesting that exceeds the limit, half of a character.
    """
    try:
        value = json.loads(text, parse_constant=lambda _: None, parse_int=_read_integer)
    except RecursionError:
        raise ValueError(f"it is nested more than {MOST_DEPTH} deep") from None
    raw = text.encode() if isinstance(text, str) else text
    if raw.count(b"{") + raw.count(b"[") > MOST_DEPTH:
        _check_depth(value)
    if b"\\ud" in raw.lower():
        json.dumps(value, ensure_ascii=False).encode()  # lone surrogates could be neither shown nor written
    return value


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file that the library has written; a damaged one raises a `DataError`."""
    return decode_json(read_bytes(path), path)


def decode_json(content: bytes, path: Path) -> dict[str, Any]:
    """The object in the content of a JSON file; `path` is for messages."""
    try:
        value = parse_json(content.decode("utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is damaged, it is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise DataError(f"{path} is damaged: expected a JSON object, found {type(value).__name__}.")
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        containers = [each for each in level if isinstance(each, dict | list)]
        level = [item for c in containers for item in (c.values() if isinstance(c, dict) else c)]
        if not level:
            return
    raise ValueError(f"it is nested more than {MOST_DEPTH} deep")


def _read_integer(text: str) -> int:
    if (
        len(text) > 25
        or not -LARGEST <= (value := int(text, 0 if text[:2] in ("0o", "0x") else 10)) < LARGEST
    ):
        shown = text if len(text) <= 25 else text[:20] + "…"
        raise ValueError(f"{shown} is too large; integers have 64 bits")
    return value


def _read_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:25]} is too large for a number")
    return value


def _json_events(text: str) -> Iterator[_Event]:
    try:
        parse_json(text)
    except json.JSONDecodeError as error:
        raise _FormatError(f"it is not JSON: {error.msg}", error.lineno) from error
    except ValueError as error:
        raise _FormatError(str(error), 1) from error
    line, place = 1, 0
    for match in TOKEN.finditer(text):
        line, place, token = line + text.count("\n", place, match.start()), match.start(), match[0]
        if token in "{[":
            yield _Event(MAPPING if token == "{" else LIST, None, line)
        elif token in "}]":
            yield _Event(END, None, line)
        elif token in ("NaN", "Infinity", "-Infinity"):
            raise _FormatError(f"{token} is no number of JSON", line)
        else:
            yield _Event(VALUE, json.loads(token, parse_float=_read_float), line)


def _yaml_events(text: str) -> Iterator[_Event]:
    yaml = load_yaml()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # compiled: hundreds of records in a second
    kinds = {
        yaml.MappingStartEvent: MAPPING,
        yaml.SequenceStartEvent: LIST,
        yaml.MappingEndEvent: END,
        yaml.SequenceEndEvent: END,
        yaml.ScalarEvent: VALUE,
    }
    line = 1
    try:
        for event in yaml.parse(text, Loader=loader):
            line = event.start_mark.line + 1
            if isinstance(event, yaml.AliasEvent):
                raise _FormatError(f"the alias *{event.anchor} is not allowed; write the value again", line)
            if getattr(event, "tag", None) is not None:
                raise _FormatError(f"the tag {event.tag[:40]} is not allowed; leave it out", line)
            if kind := kinds.get(type(event)):
                is_plain = kind == VALUE and event.implicit[0]
                yield _Event(
                    kind, _read_word(event.value) if is_plain else getattr(event, "value", None), line
                )
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "unknown reason"
        raise _FormatError(f"it is not YAML: {reason}", line if mark is None else mark.line + 1) from error
    except ValueError as error:
        if isinstance(error, _FormatError):
            raise
        raise _FormatError(str(error), line) from error


def _read_word(text: str) -> Any:
    """A plain scalar by the core schema of YAML 1.2."""
    if text in WORDS:
        return WORDS[text]
    if INTEGER.fullmatch(text):
        return _read_integer(text)
    return _read_float(text) if FLOAT.fullmatch(text) else text


def _build(events: Iterator[_Event], event: _Event, keys: Keys, lines: dict[Keys, int]) -> Any:
    """The value that begins with an event; notes the lines of keys."""
    if event.kind == VALUE:
        return event.value
    if len(keys) >= MOST_DEPTH:
        raise _FormatError(f"it is nested more than {MOST_DEPTH} deep", event.line)
    if event.kind == LIST:
        return [_build(events, each, (*keys, i), lines) for i, each in enumerate(_until_end(events))]
    mapping: dict[str, Any] = {}
    for key in _until_end(events):
        name = key.value
        if not isinstance(name, str):
            found = "a list or a mapping" if key.kind != VALUE else repr(name)
            raise _FormatError(f"keys are text; got {found}", key.line)
        if name in mapping:
            raise _FormatError(f"the key '{name[:80]}' occurs twice", key.line)
        lines[(*keys, name)] = key.line
        mapping[name] = _build(events, next(events), (*keys, name), lines)
    return mapping


def _until_end(events: Iterator[_Event]) -> Iterator[_Event]:
    for event in events:
        if event.kind == END:
            return
        yield event


def write_document(path: str | Path, content: Mapping[str, Any]) -> None:
    """Writes a mapping to a `.json` or `.yaml` file, which `read_document` reads back."""
    path = Path(path)
    require_choice("configuration file type", path.suffix, SUFFIXES)
    text = json.dumps(content, indent=2) + "\n" if path.suffix == ".json" else to_yaml(content)
    path.write_text(text, encoding="utf-8")


def to_yaml(content: Mapping[str, Any], **style: Any) -> str:
    """YAML without aliases; words that YAML 1.1 or 1.2 takes for something else are quoted."""
    yaml = load_yaml()

    class Dumper(yaml.SafeDumper):  # type: ignore[misc,name-defined]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    for kind, pattern in (("int", INTEGER), ("float", FLOAT)):
        whole = re.compile(f"^(?:{pattern.pattern})$")
        Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", whole, list("-+.0123456789"))
    return yaml.dump(content, Dumper=Dumper, sort_keys=False, **style)
