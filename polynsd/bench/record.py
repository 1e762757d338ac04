"""What was measured, as plain data: `{"environment": …, "rows": […], "fits": […]}`."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import torch

from polynsd import kernels
from polynsd.bench.cases import Case, Row
from polynsd.bench.growth import fits
from polynsd.bench.samples import Sample
from polynsd.errors import PolyNSDError

Measure = Callable[[Sample, Case], Row]

SETTING = ("graph", "maps", "K", "d", "C")
BASELINE = "assembled"


def measure_row(sample: Sample, case: Case, measure: Measure, fields: Sequence[str]) -> Row:
    """A row; one that cannot be measured says why in `error` and has no numbers."""
    row = {**sample.facts, **case.facts}
    try:
        with kernels.use(case.backend):
            return row | measure(sample, case)
    except Exception as error:  # out of memory, a missing package, a kernel that fails: the others go on
        return row | dict.fromkeys(fields) | {"error": _reason(error)}
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def make_record(environment: Row, rows: Sequence[Row]) -> dict[str, Any]:
    """Rows with their speed-up, and the laws of growth that they show."""
    return {"environment": environment, "rows": with_speedups(rows), "fits": fits(rows)}


def with_speedups(rows: Sequence[Row]) -> list[Row]:
    """Adds `speedup` over `assembled` in the same setting; None where either was not measured."""
    base = {_setting(row): row["step_ms"] for row in rows if row["backend"] == BASELINE}
    return [{**row, "speedup": _ratio(base.get(_setting(row)), row["step_ms"])} for row in rows]


def _setting(row: Row) -> tuple[Any, ...]:
    return tuple(row[key] for key in SETTING)


def _ratio(base: float | None, own: float | None) -> float | None:
    return None if base is None or own is None else base / own


def _reason(error: Exception) -> str:
    """The first line; our own errors speak for themselves, others are named."""
    text = next(iter(str(error).splitlines()), "")
    return text if isinstance(error, PolyNSDError) else f"{type(error).__name__}: {text}"
