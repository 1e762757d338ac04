"""The records of `bench estimator` as tables: scores, ranks, seconds, and differences with their intervals.

    comparisons = compare_methods(records)
    for table in (summary_table(comparisons), *map(score_table, comparisons)):
        print_table(table.title, table.header, table.rows)

Differences are the estimator's score minus a rival's on the same splits, in points (hundredths). A graph
counts as soon as every method has been tried on it; a method that failed there has the last rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

import numpy as np
from numpy.typing import NDArray

from polynsd.bench.estimators import ESTIMATOR, METHODS, Record
from polynsd.errors import DataError
from polynsd.stats import compare, student_interval
from polynsd.stats.ranking import dataset_ranks
from polynsd.stats.scores import LEAST_SPLITS

Scores = NDArray[np.float64]

CLOSE = 0.5  # points: so much below the best rival is as good as it
DASH = "–"


@dataclass(frozen=True)
class Table:
    """Texts to be printed or to be written as Markdown; the first column names the rows."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Difference:
    """The estimator minus the best rival of a graph, in points; −∞ where the estimator failed."""

    graph: str
    rival: str
    points: float
    interval: tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class MethodComparison:
    """All methods on all graphs at one share of labelled nodes.

    Args:
        labels: the share.
        methods: the estimator first.
        scores: graph → method → scores in percent of the splits that all methods have; a method that failed
            is absent.
        seconds: method → seconds of every case.
        estimate_errors: of every case, the estimator's own estimate less its test score, in points.
    """

    labels: float
    methods: tuple[str, ...]
    scores: Mapping[str, Mapping[str, Scores]]
    seconds: Mapping[str, Sequence[float]]
    estimate_errors: Sequence[float]

    @cached_property
    def means(self) -> Scores:
        """[graphs, methods], −∞ where a method failed."""
        rows = (
            [own[method].mean() if method in own else -np.inf for method in self.methods]
            for own in self.scores.values()
        )
        return np.array(list(rows)).reshape(-1, len(self.methods))

    @property
    def mean_ranks(self) -> dict[str, float]:
        """1 would be the best on every graph."""
        return dict(zip(self.methods, dataset_ranks(self.means).mean(axis=0).tolist(), strict=True))

    @cached_property
    def differences(self) -> list[Difference]:
        """To the best rival of every graph, which is chosen by its test scores."""
        if len(self.methods) < 2:
            return []
        best = 1 + self.means[:, 1:].argmax(axis=1)
        found = zip(self.scores.items(), (self.methods[index] for index in best), strict=True)
        return [self._difference(graph, own, rival) for (graph, own), rival in found if rival in own]

    def _difference(self, graph: str, own: Mapping[str, Scores], rival: str) -> Difference:
        if ESTIMATOR not in own:
            return Difference(graph, rival, -math.inf, None)
        first, second = own[ESTIMATOR], own[rival]
        points = float((first - second).mean())
        if len(first) < LEAST_SPLITS:
            return Difference(graph, rival, points, None)
        # Two splits share most labelled or most test nodes: what tells them apart is the smaller part.
        smaller, larger = sorted((self.labels, 1 - self.labels))
        result = compare(first[:, None], second[:, None], (larger, 0.0, smaller))
        return Difference(graph, rival, points, (result.low, result.high))


def compare_methods(records: Sequence[Record]) -> list[MethodComparison]:
    """A comparison per share of labelled nodes, most labels first; methods in their usual order."""
    tried = {record.method for record in records}
    methods = tuple(method for method in METHODS if method in tried)
    if ESTIMATOR not in methods:
        raise DataError("the records hold no result of the estimator; run it as well.")
    shares = sorted({record.labels for record in records}, reverse=True)
    return [_compare(labels, methods, [r for r in records if r.labels == labels]) for labels in shares]


def _compare(labels: float, methods: tuple[str, ...], records: Sequence[Record]) -> MethodComparison:
    by_graph: dict[str, dict[str, dict[int, float]]] = {}
    for record in records:
        own = by_graph.setdefault(record.graph, {}).setdefault(record.method, {})
        if record.test is not None:
            own[record.split] = record.test
    scores = {}
    for graph, found in by_graph.items():
        scored = {method: own for method, own in found.items() if own}
        if set(found) != set(methods) or not scored:
            continue
        common = sorted(set.intersection(*map(set, scored.values())))
        if common:
            scores[graph] = {m: 100 * np.array([scored[m][split] for split in common]) for m in scored}
    seconds = {m: [r.seconds for r in records if r.method == m and r.error is None] for m in methods}
    estimates = [(r.val, r.test) for r in records if r.method == ESTIMATOR]
    estimate_errors = [100 * (val - test) for val, test in estimates if val is not None and test is not None]
    return MethodComparison(labels, methods, scores, seconds, estimate_errors)


def score_table(comparison: MethodComparison) -> Table:
    """Mean ± standard deviation of every method on every graph, and the difference to the best rival."""
    rows = []
    differences = {difference.graph: difference for difference in comparison.differences}
    for graph, own in comparison.scores.items():
        cells = [_score_text(own.get(method)) for method in comparison.methods]
        rows.append((graph, *cells, *_difference_cells(differences.get(graph))))
    header = ("graph", *comparison.methods, "best rival", "estimator − best rival")
    return Table(f"test score in %, {share_text(comparison.labels)}", header, tuple(rows))


def summary_table(comparisons: Sequence[MethodComparison]) -> Table:
    """A row per method: mean rank, the estimator's mean lead, and seconds, at every share of labels."""
    comparisons = [comparison for comparison in comparisons if comparison.scores]
    if not comparisons:
        raise DataError("there is no graph yet on which every method has been tried.")
    columns: dict[str, list[str]] = {"method": list(comparisons[0].methods)}
    for comparison in comparisons:
        ranks, where = comparison.mean_ranks, f"{100 * comparison.labels:g} %"
        columns[f"rank, {where}"] = [f"{ranks[method]:.2f}" for method in comparison.methods]
        columns[f"estimator ahead by, {where}"] = [
            _lead_text(comparison, method) for method in comparison.methods
        ]
        columns[f"seconds, {where}"] = [
            _seconds_text(comparison.seconds[method]) for method in comparison.methods
        ]
    counts = ", ".join(str(len(comparison.scores)) for comparison in comparisons)
    title = (
        f"mean rank, mean lead of the estimator in points with 95 % interval, median seconds; {counts} graphs"
    )
    return Table(title, tuple(columns), tuple(zip(*columns.values(), strict=True)))


def verdict(comparison: MethodComparison) -> str:
    """Mean ranks, on how many graphs the estimator is level with the best rival or above, its worst graph."""
    if not comparison.differences:
        return f"{share_text(comparison.labels)}: no graph has been tried with every method."
    level = sum(difference.points >= -CLOSE for difference in comparison.differences)
    worst = min(comparison.differences, key=lambda difference: difference.points)
    total, ranks = len(comparison.differences), comparison.mean_ranks
    own, rival = ranks.pop(ESTIMATOR), min(ranks, key=lambda method: ranks[method])
    return (
        f"{share_text(comparison.labels)}: mean rank {own:.2f} of {len(comparison.methods)} methods "
        f"(the next, {rival}, has {ranks[rival]:.2f}); within {CLOSE} points of the best rival or above "
        f"on {level} of {total} graphs ({level / total:.0%}); at the least {worst.points:+.1f} points "
        f"({worst.graph}, {worst.rival})."
    )


def describe_estimates(comparison: MethodComparison) -> str:
    """How far the scores that the estimator states of itself are from those on the test nodes."""
    off = np.array(comparison.estimate_errors)
    if not len(off):
        return f"{share_text(comparison.labels)}: the estimator has no score."
    return (
        f"{share_text(comparison.labels)}: the estimator's own estimate is {off.mean():+.1f} points off "
        f"the test score on average, {np.abs(off).mean():.1f} in absolute value."
    )


def explain_failures(records: Sequence[Record]) -> list[str]:
    """Why there are dashes, each reason once."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for record in records:
        if record.error is not None:
            reasons.setdefault((record.method, record.error), []).append(record.graph)
    return [
        f"failed: {method}, {len(graphs)} times ({', '.join(dict.fromkeys(graphs))}): {reason}"
        for (method, reason), graphs in reasons.items()
    ]


def share_text(labels: float) -> str:
    """`80 % of the nodes labelled`"""
    return f"{100 * labels:g} % of the nodes labelled"


def _score_text(scores: Scores | None) -> str:
    if scores is None:
        return DASH
    return f"{scores.mean():.1f}" + (f" ± {scores.std(ddof=1):.1f}" if len(scores) > 1 else "")


def _difference_cells(difference: Difference | None) -> tuple[str, str]:
    if difference is None:
        return DASH, DASH
    text = f"{difference.points:+.1f}"
    if difference.interval is not None:
        text += " ({:+.1f} to {:+.1f})".format(*difference.interval)
    return difference.rival, text


def _lead_text(comparison: MethodComparison, method: str) -> str:
    """The mean over graphs of the mean over splits, with its interval over graphs."""
    leads = comparison.means[:, 0] - comparison.means[:, comparison.methods.index(method)]
    leads = leads[np.isfinite(leads)]
    if method == ESTIMATOR or not len(leads):
        return DASH
    if len(leads) < LEAST_SPLITS:
        return f"{leads.mean():+.1f}"
    low, high = student_interval(leads)
    return f"{leads.mean():+.1f} ({low:+.1f} to {high:+.1f})"


def _seconds_text(seconds: Sequence[float]) -> str:
    middle = median(seconds) if seconds else math.nan
    return DASH if math.isnan(middle) else f"{middle:.0f}" if middle >= 10 else f"{middle:.1f}"
