"""What was measured: `{"environment": …, "rows": […], "fits": […]}`, and the same as a table.

`fits` say how time grows with K and with the number of edges: a power law t = c·sᵖ and a line t = a + b·s,
both by least squares.
"""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polynsd import kernels
from polynsd.bench.samples import Case, Row, Sample
from polynsd.errors import PolyNSDError
from polynsd.report import print_table

Measure = Callable[[Sample, Case], Row]
Columns = dict[str, Callable[[Row], str]]

BASELINE = "assembled"
SETTING = ("graph", "backend", "maps", "K", "d", "C")  # columns that name a case
MIN_POINTS = 3  # of a fit: two lie on every law
UNSTEADY = 1.5  # median over fastest


def measure_row(sample: Sample, case: Case, measure: Measure, fields: Sequence[str]) -> Row:
    """A row; one that cannot be measured says why in `error` and has no numbers."""
    row = {**sample.facts, **case.facts}
    try:
        with kernels.use(case.backend):
            return row | measure(sample, case)
    except Exception as error:  # out of memory, a missing package, a kernel that fails: the others go on
        reason = next(iter(str(error).splitlines()), "")
        if not isinstance(error, PolyNSDError):
            reason = f"{type(error).__name__}: {reason}"
        return row | dict.fromkeys(fields) | {"error": reason}
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def make_record(environment: Row, rows: Sequence[Row]) -> dict[str, Any]:
    """The record of a benchmark: rows with their speed-up, and fits of growth."""
    return {"environment": environment, "rows": with_speedups(rows), "fits": fit_growth(rows)}


def with_speedups(rows: Sequence[Row]) -> list[Row]:
    """Adds `speedup` over `assembled` in the same setting; None where either was not measured."""

    def setting(row: Row) -> tuple[Any, ...]:
        return tuple(row[key] for key in SETTING if key != "backend")

    baselines = {setting(row): row["step_ms"] for row in rows if row["backend"] == BASELINE}
    faster = []
    for row in rows:
        baseline, step = baselines.get(setting(row)), row["step_ms"]
        speedup = None if baseline is None or step is None else baseline / step
        faster.append({**row, "speedup": speedup})
    return faster


@dataclass(frozen=True)
class Growth:
    """Power law and line through the same points."""

    exponent: float  # p
    exponent_r2: float  # in logarithms
    intercept_ms: float  # a
    slope_ms: float  # b
    r2: float  # of the line


def fit_times(sizes: Sequence[float], times: Sequence[float]) -> Growth:
    """The power law and the line that describe times at positive sizes best."""
    s, t = np.asarray(sizes, dtype=np.float64), np.asarray(times, dtype=np.float64)
    _, exponent, exponent_r2 = _fit_line(np.log(s), np.log(t))
    return Growth(exponent, exponent_r2, *_fit_line(s, t))


def fit_growth(rows: Iterable[Row]) -> list[Row]:
    """Growth with K on every graph, and with E over the generated sizes, wherever there are three points."""
    measured = [row for row in rows if row.get("step_ms") is not None]
    generated = [row for row in measured if row["graph"].startswith("random-")]
    return [
        *_fit_groups([row for row in measured if row["K"] > 0], varied="K", over="K"),
        *_fit_groups(generated, varied="graph", over="edges"),
    ]


def _fit_groups(rows: Sequence[Row], varied: str, over: str) -> list[Row]:
    """A fit for every group of rows that differ in one part of their setting only."""
    groups = defaultdict(list)
    for row in rows:
        groups[tuple((key, row[key]) for key in SETTING if key != varied)].append(row)
    return [
        {"over": over, **dict(setting), "points": len(group)}
        | vars(fit_times([row[over] for row in group], [row["step_ms"] for row in group]))
        for setting, group in groups.items()
        if len({row[varied] for row in group}) >= MIN_POINTS
    ]


def _fit_line(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float, float]:
    """(a, b, R²) of y ≈ a + b x."""
    slope, intercept = np.polyfit(x, y, 1)
    residual, total = np.sum((y - intercept - slope * x) ** 2), np.sum((y - y.mean()) ** 2)
    r2 = 1.0 if total == 0 else 1 - residual / total
    return float(intercept), float(slope), float(r2)


def number_cell(key: str, digits: int, unit: str = "", factor: float = 1.0) -> Callable[[Row], str]:
    """Formats one column of a row as a number; a dash where there is none."""
    return lambda row: "—" if row.get(key) is None else f"{factor * row[key]:,.{digits}f}{unit}"


def graph_cell(row: Row) -> str:
    """The name of the graph, and whether it was generated."""
    return row["graph"] if row["source"] == "data" else f"{row['graph']} (generated)"


CASE_COLUMNS: Columns = {
    "graph": graph_cell,
    "backend": lambda row: row["backend"],
    "maps": lambda row: row["maps"],
    "K": lambda row: str(row["K"]),
    "d": lambda row: str(row["d"]),
    "C": lambda row: str(row["C"]),
}
MEASURED_COLUMNS: Columns = {
    "peak MiB": number_cell("peak_mib", 1),
    "speed-up": number_cell("speedup", 2, "x"),
}


def print_record(title: str, columns: Columns, record: dict[str, Any]) -> None:
    """Prints the table, what is missing from it and why, and how time grows."""
    rows, environment = record["rows"], record["environment"]
    threads = f", threads: {environment['threads']}" if environment["device"] == "cpu" else ""
    machine = f"{environment['device_name']}{threads}, copies {environment['copy_gbs']:.1f} GB/s"
    print_rows(f"{title}; {machine}", columns, rows)
    for line in (*explain_missing(rows), *warn_unsteady(rows), *map(describe_fit, record["fits"])):
        print(line)  # noqa: T201


def print_rows(title: str, columns: Columns, rows: Sequence[Row]) -> None:
    """Prints rows as a table."""
    print_table(title, list(columns), [[cell(row) for cell in columns.values()] for row in rows])


def explain_missing(rows: Sequence[Row]) -> list[str]:
    """Why there are dashes, each reason once."""
    reasons = Counter((row["backend"], row["error"]) for row in rows if "error" in row)
    return [
        f"not measured: {backend}, {count} of {len(rows)} rows: {reason}"
        for (backend, reason), count in reasons.items()
    ]


def warn_unsteady(rows: Sequence[Row]) -> list[str]:
    """A warning where medians are far above the fastest run."""
    count = sum(row["step_ms"] > UNSTEADY * row["fastest_step_ms"] for row in rows if "error" not in row)
    if not count:
        return []
    return [f"the machine was busy: {count} of {len(rows)} steps vary more than {UNSTEADY}-fold"]


def describe_fit(fit: Row) -> str:
    """One line on how time grows."""
    letter = "K" if fit["over"] == "K" else "E"
    setting = [str(fit[key]) for key in ("graph", "backend", "maps") if key in fit]
    setting += [f"{key}={fit[key]}" for key in ("K", "d", "C") if key in fit]
    power = f"time grows as {letter}^{fit['exponent']:.2f} (R² {fit['exponent_r2']:.3f})"
    line = f"{fit['intercept_ms']:.2f} ms + {fit['slope_ms']:.3g} ms·{letter}, R² {fit['r2']:.3f}"
    return f"{', '.join(setting)}: {power}; {line}"
