"""Greedy selection of an ensemble, with replacement (Caruana et al., 2004), on predictions out of fold.

The best of many candidates is the best by luck as much as by merit. So the ensemble begins with all members
that are not behind the best by more than noise, and from there on the member whose addition raises the
objective most is added again and again; how often it was added is its weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

ROUNDS = 40
SMALLEST_GAIN = 1e-6
NOISE_SHARE = 0.05  # of the noise, that an addition has to gain

Predictions = NDArray[np.float64]  # [n, O] probabilities, or standardised numbers
Objective = Callable[[Predictions], float]  # the higher the better


def select_ensemble(
    predictions: Sequence[Predictions], objective: Objective, size: int, noise: float = 0.0
) -> NDArray[np.float64]:
    """The weights of the members, which add up to 1; at most `size` of them are not 0.

    Args:
        predictions: of every member on the same nodes, `[n, O]` each.
        objective: what is maximised.
        size: the largest number of different members; 1 is the best one alone.
        noise: by how much a member that the ensemble begins with may be behind the best.
    """
    scores = np.array([objective(values) for values in predictions])
    ranked = np.argsort(-scores, kind="stable")[:size]
    counts = np.zeros(len(predictions))
    counts[ranked[scores[ranked] >= scores.max() - noise]] = 1
    total = sum(count * values for count, values in zip(counts, predictions, strict=True))
    score = objective(total / counts.sum())
    for _ in range(ROUNDS if size > 1 else 0):
        is_full = (counts > 0).sum() >= size
        tries = [
            -np.inf if is_full and not counts[i] else objective((total + values) / (counts.sum() + 1))
            for i, values in enumerate(predictions)
        ]
        best = int(np.argmax(tries))
        if tries[best] <= score + max(SMALLEST_GAIN, NOISE_SHARE * noise):
            break
        total, score = total + predictions[best], tries[best]
        counts[best] += 1
    return counts / counts.sum()


def average(predictions: Sequence[Predictions], weights: NDArray[np.float64]) -> Predictions:
    """The weighted mean; members of weight 0 are not looked at."""
    chosen = [(values, weight) for values, weight in zip(predictions, weights, strict=True) if weight]
    return sum((weight * values for values, weight in chosen), start=np.zeros_like(chosen[0][0]))
