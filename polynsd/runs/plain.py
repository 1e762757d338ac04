"""Plain data: what JSON can hold, written the same way every time.

JSON has no word for NaN and infinity: null stands for them in every file. Files that have these words
all the same are read as if they had null.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polynsd.errors import ConfigError, DataError

ABSENT = "(absent)"


def plain(value: Any, what: str) -> Any:
    """The value as JSON will give it back: tuples are lists, keys are strings, NaN and infinity are None."""
    try:
        return decode(json.dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"the {what} of a run must be plain data (dict, list, str, int, float, bool or None): {error}. "
            "Convert arrays with .tolist(), paths with str()."
        ) from error


def decode(text: str | bytes) -> Any:
    """JSON as it was written; NaN and infinity are None."""
    return json.loads(text, parse_constant=lambda _: None)


def encode(value: Any) -> bytes:
    """JSON for files, of plain data: sorted keys, floats that read back to the same bits."""
    return (json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()


def compact(value: Any) -> str:
    """JSON on one line with sorted keys: equal text means equal data."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """SHA-256 of plain data."""
    return hashlib.sha256(compact(value).encode()).hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; everything else is an error that names the file."""
    try:
        value = decode(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged, it is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise DataError(f"{path} is damaged: expected a JSON object, found {type(value).__name__}.")
    return value


def flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} → {"a.b": 1}; lists stay whole."""
    flat: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            flat |= flatten(item, f"{prefix}{key}.")
        else:
            flat[prefix + key] = item
    return flat


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(key, there, here) wherever two pieces of plain data differ."""
    old, new = ({key: compact(item) for key, item in flatten(side).items()} for side in (there, here))
    keys = sorted(old.keys() | new.keys())
    pairs = ((key, old.get(key, ABSENT), new.get(key, ABSENT)) for key in keys)
    return [pair for pair in pairs if pair[1] != pair[2]]
