"""The estimate of a fit: its score on nodes that the choice has not seen, beside those of simpler models.

With a test part (`test_fraction`) nothing of the search has seen the nodes that are scored. Without one the
held-out nodes are divided into two halves, and each half is scored by the ensemble that the other half
chooses and by the decision that it learns, so neither choice flatters itself; the epoch at which a network
stops has still seen all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.estimator.ensemble import Predictions, average, select_ensemble
from polynsd.estimator.members import StoredTensors, check_range
from polynsd.fields import require_fields
from polynsd.stats import wilson_interval

if TYPE_CHECKING:
    from polynsd.estimator.judge import Judge
    from polynsd.estimator.search import Attempt, CandidateSearch

RESAMPLES = 200
FEWEST_EPOCHS = 30  # of a plain convolution, to be compared with
MOST_NODES = 2**40
STORED: dict[str, Any] = {
    **dict.fromkeys(("metric", "source"), str),
    "nodes": int,
    **dict.fromkeys(("score", "guess", "features", "convolution", "low", "high"), float | None),
}


class Answers(NamedTuple):
    """What is said of some nodes."""

    predictions: Predictions
    """As users get them: calibrated probabilities `[n, C]`, or numbers `[n]`."""
    scored: Predictions
    """`[n, O]` what the metric sees."""
    classes: NDArray[np.int64] | None
    """`[n]` what is decided; None for numbers."""


# the predictions `[n, O]` that some of the nodes choose
Choose = Callable[[NDArray[np.bool_]], Predictions]
# learns a decision from predictions `[m, O]` of nodes with targets `[m]`, and answers others `[n, O]` by it
Answer = Callable[[Predictions, NDArray[Any], Predictions], Answers]


@dataclass(frozen=True)
class Estimate:
    """Scores on the same nodes."""

    metric: str
    score: float
    """The score of the ensemble."""
    source: str
    """`test`: nodes that were kept apart; `halves`: held-out nodes, each half by the choice of the other."""
    nodes: int
    """How many nodes were scored."""
    guess: float
    """The score of the most frequent class, or of the mean."""
    features: float | None
    """The score of the best candidate that does not look at neighbours; None where none was tried."""
    convolution: float | None
    """The score of a plain graph convolution; None where none was tried, or for a few epochs only."""
    low: float | None = None
    """Lower end of the 95 % interval of the score, for the chance of which nodes are scored."""
    high: float | None = None
    """Upper end of the interval."""
    scored: NDArray[np.int64] | None = field(default=None, repr=False)
    """`[nodes]` the numbers of the nodes that were scored, in the graph of the fit."""
    predictions: Predictions | None = field(default=None, repr=False)
    """What was predicted for them: probabilities `[nodes, C]`, or numbers `[nodes]`."""
    classes: NDArray[np.int64] | None = field(default=None, repr=False)
    """`[nodes]` the numbers of the classes that were decided for them; None for numbers."""

    def to_dict(self) -> dict[str, Any]:
        """The scores as plain data."""
        return {name: getattr(self, name) for name in STORED}

    def tensors(self) -> dict[str, Tensor]:
        """The numbers of the scored nodes and what was predicted of them, where that is known."""
        values = {name: getattr(self, name) for name in ("scored", "predictions", "classes")}
        return {name: torch.from_numpy(array) for name, array in values.items() if array is not None}

    @classmethod
    def restore(cls, data: Any, tensors: Mapping[str, Tensor]) -> Estimate:
        """The estimate that `to_dict` and `tensors` described."""
        require_fields(data, **STORED)
        if not tensors:
            return cls(**data)
        stored, has_classes = StoredTensors(tensors), "classes" in tensors
        scored = stored.take("scored", "n", torch.int64)
        predictions = stored.take("predictions", "n C" if has_classes else "n")
        classes = stored.take("classes", "n", torch.int64) if has_classes else None
        stored.require_none_left()
        check_range("scored", scored, 0, MOST_NODES)
        if classes is not None:
            check_range("classes", classes, 0, stored.size("C"))
        decided = None if classes is None else classes.numpy()
        return cls(**data, scored=scored.numpy(), predictions=predictions.numpy(), classes=decided)


def estimate_score(
    search: CandidateSearch,
    judge: Judge,
    ensemble: Attempt,
    guess: NDArray[np.float64],
    answer: Answer,
    is_apart: bool,
) -> Estimate:
    """Scores the ensemble and its rivals on nodes that the choice has not seen.

    Args:
        search: a search that has ended.
        judge: judges what is answered for the nodes that were kept apart, or else for those of the search.
        ensemble: the predictions of the ensemble.
        guess: `[O]` the prediction that looks at nothing.
        answer: from predictions to what is said and what the metric sees.
        is_apart: whether the nodes of the judge were kept apart from the search.
    """
    complete, metric = search.complete, search.data.task.metric
    alone = (attempt for attempt in complete if attempt.family == "features")
    features = max(alone, key=lambda attempt: attempt.objective, default=None)
    convolutions = (
        a for a in complete if a.family == "convolution" and _is_trained(a, len(search.data.folds))
    )

    def answer_for(attempt: Attempt, choose: Choose | None = None) -> Answers:
        if is_apart:
            return answer(attempt.judged, search.judge.y, attempt.everywhere[judge.nodes])
        return _answer_by_halves(search, answer, choose or (lambda half: attempt.judged))

    def score_of(rival: Attempt | None) -> float | None:
        return None if rival is None else judge.score(answer_for(rival).scored)

    answers = answer_for(ensemble, lambda half: _choose_by(search, half))
    groups = search.data.folds.groups
    low, high = _interval(
        judge, metric, answers.scored, search.data.seed, None if groups is None else groups[judge.nodes]
    )
    return Estimate(
        metric,
        judge.score(answers.scored),
        "test" if is_apart else "halves",
        len(judge.nodes),
        judge.score(np.tile(guess, (len(judge.nodes), 1))),
        score_of(features),
        score_of(next(convolutions, None)),
        low,
        high,
        judge.nodes,
        answers.predictions,
        answers.classes,
    )


def _is_trained(attempt: Attempt, folds: int) -> bool:
    """Whether a network had time for more than a few epochs; otherwise it is not compared with."""
    return attempt.member is not None and attempt.member.parameters["epochs"] >= FEWEST_EPOCHS * folds


def _answer_by_halves(search: CandidateSearch, answer: Answer, choose: Choose) -> Answers:
    """Answers for the held-out nodes, each by what the other half has chosen and learned."""
    first, y = search.judge.half(search.data.seed), search.judge.y
    parts = []
    for half in (first, ~first):
        chosen = choose(half)
        parts.append(answer(chosen[half], y[half], chosen[~half]))
    order = np.argsort(np.concatenate([np.flatnonzero(~first), np.flatnonzero(first)]))
    predictions, scored, classes = (
        [values for values in both if values is not None] for both in zip(*parts, strict=True)
    )
    decided = np.concatenate(classes)[order] if classes else None
    return Answers(np.concatenate(predictions)[order], np.concatenate(scored)[order], decided)


def _choose_by(search: CandidateSearch, half: NDArray[np.bool_]) -> Predictions:
    """`[n, O]` predictions of the ensemble that one half of the held-out nodes chooses."""
    predictions = [attempt.judged for attempt in search.complete]
    chooser, halves = search.judge.on(half), [values[half] for values in predictions]
    noise = chooser.noise(max(chooser.score(values) for values in halves))
    return average(predictions, select_ensemble(halves, chooser.objective, search.size, noise))


def _interval(
    judge: Judge, metric: str, predictions: Predictions, seed: int, groups: NDArray[np.int64] | None
) -> tuple[float | None, float | None]:
    """The 95 % interval of a score: Wilson's for a share, percentiles over resampled nodes otherwise.

    Of nodes in groups `[n]` whole groups are drawn: what nodes of one group say is said once. −1 is a group
    of its own.
    """
    count = len(predictions)
    if groups is not None:
        numbers = np.where(groups < 0, groups.max(initial=0) + 1 + np.arange(count), groups)
        order = np.argsort(numbers, kind="stable")
        members = np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)

        def score_groups(drawn: NDArray[np.int64]) -> float:
            nodes = np.concatenate([members[group] for group in drawn])
            return judge.on(nodes).score(predictions[nodes])

        return resample(score_groups, len(members), RESAMPLES, seed)
    if metric == "accuracy":
        low, high = wilson_interval(judge.score(predictions), count)
        return float(low), float(high)
    return resample(lambda drawn: judge.on(drawn).score(predictions[drawn]), count, RESAMPLES, seed)


def resample(
    score: Callable[[NDArray[np.int64]], float], count: int, times: int, seed: int
) -> tuple[float | None, float | None]:
    """The 95 % interval of a score of rows drawn with replacement; None where the score is never finite."""
    rng = np.random.default_rng(seed)
    scores = np.array([score(rng.integers(count, size=count)) for _ in range(times)])
    finite = scores[np.isfinite(scores)]  # a class may be missing
    if not len(finite):
        return None, None
    low, high = np.quantile(finite, [0.025, 0.975])
    return float(low), float(high)
