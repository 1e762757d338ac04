"""What records have measured of trained models, as arrays: the base of claims, tables and figures about it.

A record's `measured` has a list per name, with a number per trained model. Names that end in `_0`, `_1`, …
belong to layers or distances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polynsd.stats import student_interval
from polynsd.stats.scores import LEAST_SPLITS

if TYPE_CHECKING:
    from pandas import DataFrame

Numbers = NDArray[np.float64]


class Mean(NamedTuple):
    """A mean over trainings, with its deviation and its interval; NaN where there are too few for one."""

    mean: float
    std: float
    half: float  # of the 95 % interval
    runs: int

    @classmethod
    def of(cls, values: Numbers) -> Mean:
        n = len(values)
        if not n:
            return cls(np.nan, np.nan, np.nan, 0)
        mean, std = float(values.mean()), float(values.std(ddof=1)) if n > 1 else 0.0
        half = student_interval(values)[1] - mean if n >= LEAST_SPLITS else np.nan
        return cls(mean, std, half, n)

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    def __str__(self) -> str:
        return f"{self.mean:.3g} ± {self.std:.2g}"


def pool(cells: DataFrame, name: str) -> Numbers:
    """The numbers of that name in all cells that have it, one after the other."""
    found = [measured[name] for measured in cells["measured"] if name in measured]
    return np.concatenate(found) if found else np.zeros(0)


def series(cells: DataFrame, name: str, first: int = 0, last: int | None = None) -> list[Numbers]:
    """The numbers of `name_first`, `name_(first + 1)`, …, each over all cells that have it.

    Without `last` it ends with the last one that any cell has.
    """
    found: list[Numbers] = []
    while last is None or first + len(found) <= last:
        values = pool(cells, f"{name}_{first + len(found)}")
        if last is None and not len(values):
            break
        found.append(values)
    return found


def curves(cells: DataFrame, name: str, first: int = 0, without: int = 0) -> list[Numbers]:
    """A curve over layers or distances for every model of the cells; `without` the last so many points."""
    found = []
    for measured in cells["measured"]:
        values: list[list[float]] = []
        while f"{name}_{first + len(values)}" in measured:
            values.append(measured[f"{name}_{first + len(values)}"])
        found += [np.array(curve)[: len(curve) - without] for curve in zip(*values, strict=True)]
    return found


def slopes(many: list[Numbers]) -> Numbers:
    """The slope of every curve over its points; curves of one point have none."""
    return np.array([np.polyfit(np.arange(len(curve)), curve, 1)[0] for curve in many if len(curve) > 1])
