"""Runs side by side: scores, and differences on the splits that they share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polynsd.diagnostics import OpenedRun
from polynsd.errors import ConfigError, PolyNSDError
from polynsd.report.html.blocks import (
    Block,
    Chart,
    Section,
    Table,
    Text,
    hover_text,
    marked_line,
    plot_text,
    titled_axes,
)
from polynsd.report.html.scores import RunScore
from polynsd.report.output import PERCENT, axis_name, metric_name, percent_scale, score_with_unit
from polynsd.runs.compare import group_rows, require_comparable
from polynsd.runs.table import Row, read_rows
from polynsd.stats import compare

RunTests = tuple[OpenedRun, dict[str, float]]  # a run, and its scores by split, seeds averaged


def comparison_section(runs: Sequence[OpenedRun], found: Sequence[RunScore]) -> Section:
    """Scores of several runs, and their differences split by split."""
    blocks: list[Block] = [_scores_table(runs, found)]
    rows = [read_rows(run.record.folder, run.name) for run in runs]
    problems = ["", *(_find_problem(rows[0], each) for each in rows[1:])]
    alike = [(run, each) for run, each, problem in zip(runs, rows, problems, strict=True) if not problem]
    if len(alike) > 1:
        tested = [(run, group_rows(each, ["folder"])[0].tests) for run, each in alike]
        blocks.insert(0, _paired_chart(tested))
        blocks += [_difference(tested[0], other) for other in tested[1:]]
    blocks += [Text(problem, "problem") for problem in problems if problem]
    return Section("compare", "Compare", blocks)


def _find_problem(first: Sequence[Row], other: Sequence[Row]) -> str:
    """Why two runs cannot be compared; empty where they can."""
    try:
        require_comparable([*first, *other])
    except ConfigError as error:
        return str(error)
    return ""


def _scores_table(runs: Sequence[OpenedRun], found: Sequence[RunScore]) -> Table:
    rows = []
    for run, each in zip(runs, found, strict=True):
        metric = run.metric
        interval = " to ".join(score_with_unit(metric, end) for end in each.interval or ()) or "–"
        model, dataset = str(run.result.get("model")), str(run.result.get("dataset"))
        score = score_with_unit(metric, each.score)
        rows.append((run.name, model, dataset, metric_name(metric), score, interval))
    header = ("run", "model", "graph", "scored by", "score", "95 % interval")
    return Table("Scores", header, rows, is_wide=True)


def _paired_chart(tested: Sequence[RunTests]) -> Chart:
    runs, scores = zip(*tested, strict=True)
    shared = [split for split in scores[0] if all(split in each for each in scores)]
    scale = percent_scale(runs[0].metric)
    names, places = [plot_text(run.name, 28) for run in runs], list(range(len(runs)))
    values = scale * np.array([[each[split] for split in shared] for each in scores])
    traces = [
        marked_line(places, values[:, number], f"split {number}", "$muted")
        | {"showlegend": False}
        | hover_text(f"split {number}: %{{y:.4g}}")
        for number in range(len(shared))
    ]
    for trace in traces:
        trace["line"]["width"] = 1
    mean = marked_line(places, values.mean(1), "mean", "$0") | hover_text("mean %{y:.4g}")
    mean["line"]["width"], mean["marker"]["size"] = 3, 11
    layout = titled_axes("", axis_name(runs[0].metric))
    layout["xaxis"] = {"tickvals": places, "ticktext": names, "range": [-0.4, len(places) - 0.6]}
    best = runs[int(np.argmax(values.mean(1)))].name
    sentence = (
        f"Every thin line is one of {len(shared)} splits that all runs share: lines that go the same way are "
        f"a difference of models, lines that cross are luck. On average {best} is best."
    )
    return Chart("Split by split", sentence, [*traces, mean], layout, is_wide=True, height=400)


def _difference(baseline: RunTests, compared: RunTests) -> Text:
    """The mean difference, with its interval where there are enough splits."""
    (first, b), (other, a) = baseline, compared
    shared = [split for split in b if split in a]
    scale, unit = percent_scale(first.metric), " points" if first.metric in PERCENT else ""
    ours, theirs = np.array([[a[s]] for s in shared]), np.array([[b[s]] for s in shared])
    count = f"{len(shared)} shared split{'s' * (len(shared) > 1)}"
    text = f"{_signed(scale * float((ours - theirs).mean()))}{unit} on {count}"
    try:
        found = compare(ours, theirs, first.split_shares)
    except PolyNSDError:
        return Text(f"{other.name} against {first.name}: {text}; too few splits for an interval.")
    word = "more than chance" if found.low > 0 or found.high < 0 else "which may be chance"
    interval = f"95 % interval {_signed(scale * found.low)} to {_signed(scale * found.high)}"
    wins = f"better on {found.wins}, worse on {found.losses}"
    return Text(f"{other.name} against {first.name}: {text} ({interval}; {wins}), {word}.")


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")
