"""What the metrics of a run did, in a few numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Curve = tuple[str, float, float, float, float]
NUMBERS = ("split", "seed", "replica", "trial")  # say which, not how much


def curve_rows(records: Sequence[Mapping[str, Any]]) -> Iterator[Curve]:
    """(name, first, least, most, last) of every number that was logged."""
    names = dict.fromkeys(name for record in records for name, value in record.items() if _is_number(value))
    for name in (name for name in names if name not in NUMBERS):
        values = [record[name] for record in records if _is_number(record.get(name))]
        yield name, values[0], min(values), max(values), values[-1]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
