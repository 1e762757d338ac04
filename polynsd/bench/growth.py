"""How time grows: a power law t = c·sᵖ and a line t = a + b·s, both by least squares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polynsd.bench.cases import Row

FEWEST = 3  # points: two lie on every law
SETTING = ("graph", "backend", "maps", "K", "d", "C")


@dataclass(frozen=True)
class Law:
    """Both laws for the same points."""

    exponent: float  # p
    exponent_r2: float  # in logarithms
    intercept_ms: float  # a
    slope_ms: float  # b
    r2: float  # of the line


def fit(sizes: Sequence[float], times: Sequence[float]) -> Law:
    """The laws that describe times at positive sizes best."""
    s, t = np.asarray(sizes, dtype=np.float64), np.asarray(times, dtype=np.float64)
    _, exponent, exponent_r2 = _line(np.log(s), np.log(t))
    return Law(exponent, exponent_r2, *_line(s, t))


def fits(rows: Iterable[Row]) -> list[Row]:
    """Growth with K on every graph, and with E over the generated sizes, wherever there are three points."""
    measured = [row for row in rows if row.get("step_ms") is not None]
    over_degree = _group([row for row in measured if row["K"] > 0], "K")
    over_edges = _group([row for row in measured if row["graph"].startswith("random-")], "graph")
    return [
        *(_described("K", setting, found) for setting, found in over_degree.items()),
        *(_described("edges", setting, found) for setting, found in over_edges.items()),
    ]


def _group(rows: Sequence[Row], varied: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows that differ in one part of their setting only, where there are enough of them."""
    groups = defaultdict(list)
    for row in rows:
        groups[tuple(None if key == varied else row[key] for key in SETTING)].append(row)
    return {
        setting: found for setting, found in groups.items() if len({row[varied] for row in found}) >= FEWEST
    }


def _described(over: str, setting: tuple[Any, ...], rows: Sequence[Row]) -> Row:
    law = fit([row[over] for row in rows], [row["step_ms"] for row in rows])
    named = {key: value for key, value in zip(SETTING, setting, strict=True) if value is not None}
    return {"over": over, **named, "points": len(rows), **vars(law)}


def _line(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float, float]:
    """(a, b, R²) of y ≈ a + b x."""
    slope, intercept = np.polyfit(x, y, 1)
    residual, total = np.sum((y - intercept - slope * x) ** 2), np.sum((y - y.mean()) ** 2)
    r2 = 1.0 if total == 0 else 1 - residual / total
    return float(intercept), float(slope), float(r2)
