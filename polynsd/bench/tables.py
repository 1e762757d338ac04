"""What was measured, for a terminal: a table, what is missing from it and why, and the laws of growth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from polynsd.bench.cases import Row
from polynsd.report import print_table

Columns = dict[str, Callable[[Row], str]]

UNSTEADY = 1.5  # median over fastest


def number(key: str, digits: int, unit: str = "", factor: float = 1.0) -> Callable[[Row], str]:
    """A cell of a column of numbers; a dash where there is none."""
    return lambda row: "—" if row.get(key) is None else f"{factor * row[key]:,.{digits}f}{unit}"


SETTING: Columns = {
    "graph": lambda row: row["graph"] if row["source"] == "data" else f"{row['graph']} (generated)",
    "backend": lambda row: row["backend"],
    "maps": lambda row: row["maps"],
    "K": lambda row: str(row["K"]),
    "d": lambda row: str(row["d"]),
    "C": lambda row: str(row["C"]),
}
MEASURED: Columns = {"peak MiB": number("peak_mib", 1), "speed-up": number("speedup", 2, "x")}
STEP: Columns = {
    **SETTING,
    "step ms": number("step_ms", 2),
    "infer ms": number("infer_ms", 2),
    **MEASURED,
}
GPU_STEP: Columns = {
    **STEP,
    "eager ms": number("eager_ms", 2),
    "captured": lambda row: "yes" if row.get("captured") else "no",
}
KERNELS: Columns = {
    **SETTING,
    "forward ms": number("forward_ms", 2),
    "step ms": number("step_ms", 2),
    **MEASURED,
    "GB/s": number("gbs", 1),
    "of copy": number("fraction_of_copy", 0, " %", 100),
}


def print_record(title: str, columns: Columns, record: dict[str, Any]) -> None:
    """Prints everything to standard output."""
    rows = record["rows"]
    print_table(
        f"{title}; {_device(record['environment'])}",
        list(columns),
        [[cell(row) for cell in columns.values()] for row in rows],
    )
    for line in (*missing(rows), *unsteady(rows), *map(law, record["fits"])):
        print(line)  # noqa: T201


def missing(rows: Sequence[Row]) -> list[str]:
    """Why there are dashes, each reason once."""
    reasons = Counter((row["backend"], row["error"]) for row in rows if "error" in row)
    return [
        f"not measured: {backend}, {count} of {len(rows)} rows: {reason}"
        for (backend, reason), count in reasons.items()
    ]


def unsteady(rows: Sequence[Row]) -> list[str]:
    """A warning where medians are far above the fastest run."""
    count = sum(row["step_ms"] > UNSTEADY * row["fastest_step_ms"] for row in rows if "error" not in row)
    if not count:
        return []
    return [f"the machine was busy: {count} of {len(rows)} steps vary more than {UNSTEADY}-fold"]


def law(fit: Row) -> str:
    """One line on how time grows."""
    letter = "K" if fit["over"] == "K" else "E"
    setting = [str(fit[key]) for key in ("graph", "backend", "maps") if key in fit]
    setting += [f"{key}={fit[key]}" for key in ("K", "d", "C") if key in fit]
    power = f"time grows as {letter}^{fit['exponent']:.2f} (R² {fit['exponent_r2']:.3f})"
    line = f"{fit['intercept_ms']:.2f} ms + {fit['slope_ms']:.3g} ms·{letter}, R² {fit['r2']:.3f}"
    return f"{', '.join(setting)}: {power}; {line}"


def _device(environment: Row) -> str:
    threads = f", threads: {environment['threads']}" if environment["device"] == "cpu" else ""
    return f"{environment['device_name']}{threads}, copies {environment['copy_gbs']:.1f} GB/s"
