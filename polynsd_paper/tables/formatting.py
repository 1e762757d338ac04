"""How numbers are written in tables, figures and pages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from polynsd.report.output import PERCENT

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from polynsd.stats import Difference

NOT_RUN, PARTIAL = "—", "‡"
EXPLAINED = ("OOM", "INS")  # notes of the paper that stand in the place of a number
METRICS = {"roc_auc": "ROC AUC", "r2": "R²"}
SOURCE_NAMES = {"published-code": "published code", "authors-sweep": "authors' sweep"}
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def unit(metric: str) -> int:
    """By which a metric is multiplied to be printed."""
    return 100 if metric in PERCENT else 1


def metric_name(metric: str) -> str:
    """`accuracy in %`"""
    return METRICS.get(metric, metric) + (" in %" if metric in PERCENT else "")


def number_text(metric: str, mean: float, std: float, note: str = "", marks: str = "") -> str:
    """`84.95 ± 5.03`; NaN is a dash, or the paper's reason for it. Marks come behind."""
    if math.isnan(mean):
        return note if note in EXPLAINED else NOT_RUN
    digits = 2 if metric in PERCENT else 3
    text = f"{mean:.{digits}f}" if math.isnan(std) else f"{mean:.{digits}f} ± {std:.{digits}f}"
    return f"{text} {marks}" if marks else text


def cell_number(cell: Series[Any] | None) -> str:
    """`number_text` of a row of `summarize`, of `mark_cells` with its marks; a dash for None."""
    if cell is None:
        return NOT_RUN
    scale = unit(cell["metric"])
    marks = cell.get("marks", PARTIAL if cell["is_partial"] else "")
    return number_text(cell["metric"], scale * cell["mean"], scale * cell["std"], marks=marks)


def gap_text(gap: Difference | None, digits: int = 1, *, is_bold: bool | None = None) -> str:
    """`interval_text` of a comparison; a dash for None."""
    if gap is None:
        return NOT_RUN
    return interval_text(gap.difference, gap.low, gap.high, digits, is_bold=is_bold)


def interval_text(
    difference: float, low: float, high: float, digits: int = 1, *, is_bold: bool | None = None
) -> str:
    """`5.4 (2.5 to 8.4)` in points; unless told, bold where the interval does not contain zero."""
    text = "{} ({} to {})".format(*(points_text(value, digits) for value in (difference, low, high)))
    if is_bold is None:
        is_bold = low > 0 or high < 0
    return f"**{text}**" if is_bold else text


def points_text(share: float, digits: int = 1) -> str:
    """`−1.2` for −0.012."""
    rounded = round(100 * share, digits) + 0.0  # no −0.0
    return f"{rounded:.{digits}f}".replace("-", "−")


def natural_order(labels: Iterable[str]) -> list[str]:
    """Each label once: by size where they differ in their numbers alone, else in the order of appearance."""
    unique = list(dict.fromkeys(labels))
    if len({NUMBER.sub("#", text) for text in unique}) != 1:
        return unique
    return sorted(unique, key=lambda text: [float(number) for number in NUMBER.findall(text)])


def join_unique(values: Iterable[str]) -> str:
    """`cora, texas`: each value once."""
    return ", ".join(dict.fromkeys(values))


def machine_text(device: str, precision: str) -> str:
    """`NVIDIA H200 in tf32`; the recorded name of a device may end with its precision."""
    return f"{device.removesuffix(', TF32')} in {precision}"


def deviation_text(cells: DataFrame) -> str:
    """` ± population standard deviation (ddof 0) of the split means`; empty where no deviation is known."""
    spread = cells[cells["std"].notna()]
    kinds = dict.fromkeys(
        f"{'sample' if ddof else 'population'} standard deviation (ddof {ddof}) "
        f"{'of the split means' if splits > 1 else 'over the seeds'}"
        for ddof, splits in zip(spread["ddof"], spread["splits"], strict=True)
    )
    return f" ± {' or '.join(kinds)}" if kinds else ""


def range_text(values: Iterable[int]) -> str:
    """`10`, or `16–32` where it is not the same everywhere."""
    low, high = min(values := list(values) or [0]), max(values)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def markdown_table(
    head: Sequence[str], lines: Sequence[Sequence[str]], left: int = 1, *, is_padded: bool = False
) -> str:
    """A table whose first `left` columns are texts and the others numbers.

    Padded columns have one width, so that the plain text reads as a table too.
    """
    columns = zip(head, *lines, strict=True)
    widths = [max(3, *map(len, column)) if is_padded else 3 for column in columns]
    rule = ["-" * width if i < left else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
    sides = [str.ljust] * left + [str.rjust] * (len(head) - left)
    rows = [head, rule, *lines]
    if is_padded:
        rows = [[side(text, n) for side, text, n in zip(sides, row, widths, strict=True)] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
