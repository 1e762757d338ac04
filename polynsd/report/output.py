"""Scores, rates, durations and tables as text for a terminal; events as JSON lines for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TextIO

from polynsd.training.callback import EventLog
from polynsd.training.result import ProtocolResult
from polynsd.training.task import CLASS_METRICS

PERCENT = CLASS_METRICS  # metrics that are shown in percent
METRIC_NAMES = {
    "balanced_accuracy": "balanced accuracy",
    "f1": "F1",
    "roc_auc": "ROC-AUC",
    "pr_auc": "PR-AUC",
    "r2": "R²",
}


def metric_name(metric: str) -> str:
    """`ROC-AUC` for `roc_auc`."""
    return METRIC_NAMES.get(metric, metric)


def axis_name(metric: str) -> str:
    """`ROC-AUC in %` or `R²`, the title of an axis."""
    return metric_name(metric) + (" in %" if metric in PERCENT else "")


def percent_scale(metric: str) -> int:
    """What a score is multiplied by to be shown: 100 for a metric in percent, 1 for any other."""
    return 100 if metric in PERCENT else 1


def score_text(metric: str, value: float | None) -> str:
    """`84.2` for a metric in percent, four digits for any other, a dash for None."""
    if value is None:
        return "–"
    return f"{100 * value:.1f}" if metric in PERCENT else f"{value:.4g}"


def score_with_unit(metric: str, value: float | None) -> str:
    """`84.2 %` or `0.7312`"""
    return score_text(metric, value) + (" %" if metric in PERCENT and value is not None else "")


def difference_text(metric: str, value: float) -> str:
    """`+1.2` points of a metric in percent, `-0.012` of any other."""
    return f"{100 * value:+.1f}" if metric in PERCENT else f"{value:+.3f}"


def score_name(metric: str) -> str:
    """`accuracy %` or `r2`, the head of a column of scores."""
    return f"{metric} %" if metric in PERCENT else metric


def clock_text(seconds: float) -> str:
    """The time as h:mm:ss, cut to whole seconds."""
    return str(timedelta(seconds=int(seconds)))


def rate_text(rate: float | None, unit: str) -> str:
    """`4,210 epochs/s`; per minute where that is less than one in a second."""
    if rate is None:
        return f"– {unit}/s"
    if rate < 1:
        return f"{60 * rate:.2g} {unit}/min"
    return f"{rate:,.0f} {unit}/s" if rate >= 10 else f"{rate:.1f} {unit}/s"


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table to standard output, aligned also where there is no terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
    for index, name in enumerate(header):
        table.add_column(name, justify="left" if index == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    # a pipe has no width of its own: give the table what it needs
    console = Console(width=None if Console().is_terminal else 200, markup=False)
    with console.capture() as text:  # Rich itself would end the process where nobody reads any more
        console.print(table)
    sys.stdout.write(text.get())


def print_results(title: str, results: Mapping[str, ProtocolResult]) -> None:
    """Prints a row per model: test mean ± std, validation mean, selected epochs and parameters."""
    rows = []
    for name, result in results.items():
        epochs, text = [row.best_epoch for row in result.rows], partial(score_text, result.metric)
        test, val = f"{text(result.mean)} ± {text(result.std)}", text(result.val_mean)
        rows.append((name, test, val, f"{min(epochs)}–{max(epochs)}", f"{result.parameters:,}"))
    metric = score_name(next(iter(results.values())).metric)
    print_table(title, ("model", f"test {metric}", f"val {metric}", "best epoch", "parameters"), rows)


class JsonLines(EventLog):
    """One JSON object per event and line, on standard output unless given a stream.

    `polynsd.training.callback` lists the events and their keys.
    """

    def __init__(self, stream: TextIO | None = None, every: int = 10) -> None:
        super().__init__(self._print, every)
        self._stream = stream

    def _print(self, record: dict[str, Any]) -> None:
        stream = sys.stdout if self._stream is None else self._stream
        stream.write(json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n")
        stream.flush()  # a reader of the stream gets each event at once
