"""Where the numbers of a sweep stand: in which panel, on which line, and at which value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from polynsd.report.panels import COLOURS, style
from polynsd_paper.records import Record
from polynsd_paper.result_marks import is_ours
from polynsd_paper.result_numbers import Number, cell_label, natural_order, unique

SETTING = re.compile(r"(?:(.+) )?(\w+)=(\S+)")  # "N=100 degree=2": degree is varied, N is held

One = TypeVar("One", Record, Number)


class Frame(NamedTuple):
    """A panel: what all of its numbers have in common."""

    dataset: str
    held: str
    axis: str
    options: tuple[str, ...]

    @property
    def title(self) -> str:
        """The dataset, and what is held there."""
        return ", ".join(filter(None, (self.dataset, self.held)))


@dataclass(frozen=True)
class Spot(Generic[One]):
    """A record, or a number that somebody else has printed, and where it stands."""

    one: One
    frame: Frame
    series: str
    value: str


def spots(numbers: Iterable[One]) -> list[Spot[One]]:
    """Each number once; the last option of its cell is the axis, the others name the line."""
    return [_spot(one) for one in numbers]


def _spot(one: One) -> Spot[One]:
    name, last = list(one.cell.items())[-1]
    found = SETTING.fullmatch(str(last))
    held, axis, value = found.groups("") if found else ("", name, str(last))
    return Spot(one, Frame(one.dataset, held, axis, tuple(one.cell)), cell_label(one.cell, but=1), value)


def frames(found: Sequence[Spot[Record]]) -> list[Frame]:
    """The panels: datasets as they come, what is held there by size."""
    every = unique(spot.frame for spot in found)
    held = {name: natural_order(one.held for one in every if one.dataset == name) for name, *_ in every}
    datasets = list(held)
    return sorted(every, key=lambda one: (datasets.index(one.dataset), held[one.dataset].index(one.held)))


def in_a_row(found: Sequence[Frame]) -> int | None:
    """How many panels each dataset has, where that is the same for all and more than one."""
    counts = {sum(other.dataset == one.dataset for other in found) for one in found}
    return counts.pop() if len(counts) == 1 and counts != {1} else None


def all_series(found: Sequence[Spot[Record]]) -> list[str]:
    """The lines, PolyNSD first: the first colours are its own."""
    return unique(spot.series for spot in sorted(found, key=lambda spot: not is_ours(spot.one.cell)))


def looks(found: Sequence[Spot[Record]]) -> dict[str, dict[str, Any]]:
    """Colour and shape by series; where there are more series than colours, PolyNSD's do not come back."""
    own = len({spot.series for spot in found if is_ours(spot.one.cell)}) % len(COLOURS)
    return {label: _look(number, own) for number, label in enumerate(all_series(found))}


def _look(number: int, own: int) -> dict[str, Any]:
    free = COLOURS[own:]
    color = {"color": free[(number - own) % len(free)]} if number >= len(COLOURS) else {}
    return {**style(number), **color}


def is_number(text: str) -> bool:
    """Whether it has a place on a line of numbers."""
    try:
        float(text)
    except ValueError:
        return False
    return True
