"""The estimate of a fit: its score on nodes that the choice has not seen, beside those of simpler models.

With a test part (`test_fraction`) nothing of the search has seen the nodes that are scored. Without one the
held-out nodes are divided into two halves, and each half is scored by the ensemble that the other half
chooses, so the choice of an ensemble does not flatter itself; the epoch at which a network stops has still
seen all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.errors import DataError
from polynsd.estimator.ensemble import Predictions, average, select_ensemble
from polynsd.fields import require_fields
from polynsd.stats import wilson_interval

if TYPE_CHECKING:
    from polynsd.estimator.judge import Judge
    from polynsd.estimator.search import Attempt, CandidateSearch

RESAMPLES = 200
FEWEST_EPOCHS = 30  # of a plain convolution, to be compared with
STORED: dict[str, Any] = {
    **dict.fromkeys(("metric", "source"), str),
    "nodes": int,
    **dict.fromkeys(("score", "guess", "features", "convolution", "low", "high"), float | None),
}


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
    """`[nodes, O]` what was predicted for them: probabilities, or standardised targets."""

    def to_dict(self) -> dict[str, Any]:
        """The scores as plain data."""
        return {name: value for name, value in vars(self).items() if name not in ("scored", "predictions")}

    def tensors(self) -> dict[str, Tensor]:
        """The numbers of the scored nodes and what was predicted of them, where that is known."""
        if self.scored is None or self.predictions is None:
            return {}
        return {
            "scored": torch.from_numpy(np.asarray(self.scored, dtype=np.int64)),
            "predictions": torch.from_numpy(np.asarray(self.predictions, dtype=np.float64)),
        }

    @classmethod
    def restore(cls, data: Any, tensors: Mapping[str, Tensor]) -> Estimate:
        """The estimate that `to_dict` and `tensors` described."""
        require_fields(data, **STORED)
        if not tensors:
            return cls(**data)
        scored, predictions = (tensors.get(name, torch.empty(0)) for name in ("scored", "predictions"))
        is_list = scored.dtype == torch.int64 and scored.dim() == 1 and bool((scored >= 0).all())
        is_table = predictions.dtype == torch.float64 and predictions.dim() == 2
        if len(tensors) != 2 or not is_list or not is_table or len(scored) != len(predictions):
            raise DataError(
                "an estimate needs the numbers of the scored nodes and a row of predictions for each"
            )
        return cls(**data, scored=scored.numpy(), predictions=predictions.numpy())


def estimate_score(
    search: CandidateSearch,
    metric: str,
    everywhere: Predictions,
    guess: NDArray[np.float64],
    test: Judge | None,
    scored: Callable[[Predictions], Predictions],
) -> Estimate:
    """Scores the ensemble and its rivals on nodes that the choice has not seen.

    Args:
        search: a search that has ended.
        metric: its name.
        everywhere: `[N, O]` the ensemble's predictions.
        guess: `[O]` the prediction that looks at nothing.
        test: judges the nodes that were kept apart, if there are any.
        scored: what the metric sees of predictions, e.g. the classes that a decision says.
    """
    complete, judge = search.complete, test or search.judge
    rivals = {
        "features": _best([a for a in complete if a.family == "features"]),
        "convolution": next(
            (a for a in complete if a.family == "convolution" and _is_trained(a, len(search.data.folds))),
            None,
        ),
    }

    def score_of(attempt: Attempt | None) -> float | None:
        if attempt is None or attempt.judged is None or attempt.everywhere is None:
            return None
        predictions = attempt.judged if test is None else attempt.everywhere[judge.nodes]
        return judge.score(scored(predictions))

    predictions = _predict_by_halves(search) if test is None else everywhere[judge.nodes]
    low, high = _interval(judge, metric, scored(predictions), search.data.seed)
    return Estimate(
        metric,
        judge.score(scored(predictions)),
        "halves" if test is None else "test",
        len(judge.nodes),
        judge.score(np.tile(guess, (len(judge.nodes), 1))),
        score_of(rivals["features"]),
        score_of(rivals["convolution"]),
        low,
        high,
        judge.nodes,
        predictions,
    )


def _is_trained(attempt: Attempt, folds: int) -> bool:
    """Whether a network had time for more than a few epochs; otherwise it is not compared with."""
    return attempt.member is not None and attempt.member.parameters["epochs"] >= FEWEST_EPOCHS * folds


def _best(attempts: Sequence[Attempt]) -> Attempt | None:
    return max(attempts, key=lambda attempt: attempt.objective, default=None)


def _predict_by_halves(search: CandidateSearch) -> Predictions:
    """Predictions, each of which comes from an ensemble that the other half has chosen."""
    predictions = [attempt.judged for attempt in search.complete if attempt.judged is not None]
    first = search.judge.half(search.data.seed)
    combined = np.empty_like(predictions[0])
    for half in (first, ~first):
        chooser = search.judge.on(half)
        halves = [values[half] for values in predictions]
        noise = chooser.noise(max(chooser.score(values) for values in halves))
        weights = select_ensemble(halves, chooser.objective, search.size, noise)
        combined[~half] = average([values[~half] for values in predictions], weights)
    return combined


def _interval(
    judge: Judge, metric: str, predictions: Predictions, seed: int
) -> tuple[float | None, float | None]:
    """The 95 % interval of a score: Wilson's for a share, percentiles over resampled nodes otherwise."""
    count = len(predictions)
    if metric == "accuracy":
        low, high = wilson_interval(judge.score(predictions), count)
        return float(low), float(high)
    rng, scores = np.random.default_rng(seed), []
    for _ in range(RESAMPLES):
        drawn = rng.integers(count, size=count)
        scores.append(judge.on(drawn).score(predictions[drawn]))
    finite = np.array(scores)[np.isfinite(scores)]  # a class may be missing
    if not len(finite):
        return None, None
    low, high = np.quantile(finite, [0.025, 0.975])
    return float(low), float(high)
