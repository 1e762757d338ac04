"""Two fits compared row by row, where both were scored on the same rows.

A single score has no spread over splits. What is known of it comes from its rows: a fit keeps what it
predicted of every row that it was scored on, and the tables have the labels. The difference of two scores on
the same rows varies less than either score, because hard rows are hard for both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polynsd.errors import DataError
from polynsd.estimator.classifier import OF_ORDER
from polynsd.estimator.ensemble import Predictions
from polynsd.estimator.estimate import resample
from polynsd.estimator.judge import Judge
from polynsd.estimator.storage import read_tables_for, restore_estimator
from polynsd.runs import RunRecord
from polynsd.stats import paired_interval

RESAMPLES = 1000


@dataclass(frozen=True)
class PairedScores:
    """The score of one fit minus that of another, on the same rows.

    Attributes:
        rows: how many rows were scored.
        difference: of the scores.
        low: lower end of the 95 % interval of the difference; None where it cannot be computed.
        high: its upper end.
        only_first: rows whose class only the first fit says; None for numbers.
        only_second: those whose class only the second says.
    """

    rows: int
    difference: float
    low: float | None
    high: float | None
    only_first: int | None
    only_second: int | None


@dataclass(frozen=True, eq=False)
class _ScoredRows:
    """What a fit's metric saw of the rows that it was scored on, sorted by their ids."""

    ids: NDArray[np.str_]
    judge: Judge
    predictions: Predictions
    is_right: NDArray[np.bool_] | None


def compare_fits(first: RunRecord, second: RunRecord) -> PairedScores:
    """The difference of two fits, first minus second.

    The interval of a difference of accuracies is Agresti and Min's; that of other metrics are percentiles
    over rows that are drawn again, the same rows for both.

    Raises:
        DataError: the tables of a fit are not where they were, or have changed; or other rows were scored.
    """
    ours, theirs = _read_scored_rows(first), _read_scored_rows(second)
    if not np.array_equal(ours.ids, theirs.ids):
        raise DataError(f"{first.folder} and {second.folder} were scored on different rows.")
    count = len(ours.ids)
    difference = ours.judge.score(ours.predictions) - theirs.judge.score(theirs.predictions)
    if ours.is_right is None or theirs.is_right is None:
        return PairedScores(count, difference, *_resample(ours, theirs), None, None)
    only_first = int((ours.is_right & ~theirs.is_right).sum())
    only_second = int((theirs.is_right & ~ours.is_right).sum())
    is_share = (first.result or {}).get("metric") == "accuracy"
    low, high = paired_interval(only_first, only_second, count) if is_share else _resample(ours, theirs)
    return PairedScores(count, difference, low, high, only_first, only_second)


def _read_scored_rows(record: RunRecord) -> _ScoredRows:
    estimator = restore_estimator(record)
    scored, predictions = estimator.estimate_.scored, estimator.estimate_.predictions
    if scored is None or predictions is None:
        raise DataError(f"{record.folder} does not hold what was predicted of the rows that it scored.")
    graph = read_tables_for(record, None, None).graph
    labels = estimator._read_labels(graph, None, False, None)
    target, classes = estimator._as_target(labels), estimator.estimate_.classes
    if classes is None:  # numbers, as they are in the tables
        target, predictions = labels.values.astype(np.float64), predictions[:, None]
    elif estimator.metric_ not in OF_ORDER:
        predictions = np.eye(predictions.shape[1])[classes]
    is_scored = np.zeros(graph.num_nodes, dtype=bool)
    is_scored[scored] = True
    ids = np.asarray(graph.ids, dtype=str)[scored]
    order, judge = np.argsort(ids), Judge.of_nodes(is_scored, target, estimator._task)
    position = np.searchsorted(judge.nodes, scored)  # a judge has its nodes in the order of the graph
    is_right = None if classes is None else (classes == target[scored])[order]
    return _ScoredRows(ids[order], judge.on(position[order]), predictions[order], is_right)


def _resample(ours: _ScoredRows, theirs: _ScoredRows) -> tuple[float | None, float | None]:
    """The 95 % interval of the difference of two scores over rows that are drawn with replacement."""

    def difference(drawn: NDArray[np.int64]) -> float:
        first, second = (fit.judge.on(drawn).score(fit.predictions[drawn]) for fit in (ours, theirs))
        return first - second

    return resample(difference, len(ours.ids), RESAMPLES, 0)
