"""Runs side by side: scores, and differences on the splits that they share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from polynsd.errors import PolyNSDError
from polynsd.report.html.blocks import Block, Chart, Section, Table, Text, plot_text
from polynsd.report.html.result_section import Found
from polynsd.report.html.subject import Subject
from polynsd.report.html.traces import hover_text, marked_line, titled_axes
from polynsd.report.output import PERCENT, axis_name, metric_name, percent_scale, score_with_unit
from polynsd.stats import compare


def comparison_section(subjects: Sequence[Subject], found: Sequence[Found]) -> Section:
    """The last tab, where there are several runs."""
    first = subjects[0]
    blocks: list[Block] = [_scores_table(subjects, found)]
    problems = {subject.name: _problem(first, subject) for subject in subjects[1:]}
    alike = [first, *(subject for subject in subjects[1:] if not problems[subject.name])]
    if len(alike) > 1:
        blocks.insert(0, _paired_chart(alike))
        blocks += [_difference(first, subject) for subject in alike[1:]]
    for name, problem in problems.items():
        if problem:
            blocks.append(Text(f"{name} cannot be compared with {first.name}: {problem}.", "problem"))
    return Section("compare", "Compare", blocks)


def _scores_by_split(subject: Subject) -> dict[str, float]:
    """Test score by split, seeds averaged."""
    by_split: dict[str, list[float]] = defaultdict(list)
    for row in subject.result["splits"]:
        if row["test"] is not None:
            by_split[row.get("fingerprint") or f"split {row['split']}"].append(row["test"])
    return {split: fmean(values) for split, values in by_split.items()}


def _problem(first: Subject, other: Subject) -> str:
    for name in ("dataset", "metric"):
        ours, theirs = first.result.get(name), other.result.get(name)
        if ours != theirs:
            return f"the {name} is {ours} there and {theirs} here"
    shared = _scores_by_split(first).keys() & _scores_by_split(other).keys()
    return "" if shared else "they were tested on different nodes"


def _scores_table(subjects: Sequence[Subject], found: Sequence[Found]) -> Table:
    rows = []
    for subject, each in zip(subjects, found, strict=True):
        metric, ends = subject.metric, (each.low, each.high)
        interval = "–" if None in ends else " to ".join(score_with_unit(metric, end) for end in ends)
        model, dataset = str(subject.result.get("model")), str(subject.result.get("dataset"))
        score = score_with_unit(metric, each.score)
        rows.append((subject.name, model, dataset, metric_name(metric), score, interval))
    header = ("run", "model", "graph", "scored by", "score", "95 % interval")
    return Table("Scores", header, rows, is_wide=True)


def _paired_chart(subjects: Sequence[Subject]) -> Chart:
    scores = [_scores_by_split(subject) for subject in subjects]
    shared = [split for split in scores[0] if all(split in each for each in scores)]
    scale = percent_scale(subjects[0].metric)
    names, places = [plot_text(subject.name, 28) for subject in subjects], list(range(len(subjects)))
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
    layout = titled_axes("", axis_name(subjects[0].metric))
    layout["xaxis"] = {"tickvals": places, "ticktext": names, "range": [-0.4, len(places) - 0.6]}
    best = subjects[int(np.argmax(values.mean(1)))].name
    sentence = (
        f"Every thin line is one of {len(shared)} splits that all runs share: lines that go the same way are "
        f"a difference of models, lines that cross are luck. On average {best} is best."
    )
    return Chart("Split by split", sentence, [*traces, mean], layout, is_wide=True, height=400)


def _difference(first: Subject, other: Subject) -> Text:
    """The mean difference, with its interval where there are enough splits."""
    a, b = _scores_by_split(other), _scores_by_split(first)
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
