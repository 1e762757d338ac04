"""Probabilities that mean what they say: one temperature for all logits.

softmax(z / T), with the T that suits the validation nodes best. To them one node is added whose class
nobody knows (Laplace's rule): were all of them right, nothing else would keep T from 0. The order of
the classes, hence every prediction, stays as it is.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST = 20.0  # T lies in [1/20, 20]


def fit_temperature(logits: NDArray[np.float64], y: NDArray[Any]) -> float:
    """The best T for these nodes; 1 where the validation loss would be no smaller with it."""
    from scipy.optimize import minimize_scalar

    bound = math.log(LARGEST)
    found = minimize_scalar(
        lambda log_t: _with_doubt(logits / math.exp(log_t), y), bounds=(-bound, bound), method="bounded"
    )
    temperature = math.exp(float(found.x))
    return temperature if mean_loss(logits / temperature, y) < mean_loss(logits, y) else 1.0


def mean_loss(logits: NDArray[np.float64], y: NDArray[Any]) -> float:
    """The mean negative log-likelihood of classes y `[n]` under logits `[n, C]`."""
    return float(-_log_softmax(logits)[np.arange(len(y)), y].mean())


def _with_doubt(logits: NDArray[np.float64], y: NDArray[Any]) -> float:
    """The mean over n + 1 nodes, the last of which is like the others and may be of any class."""
    doubt = float(-_log_softmax(logits).mean())
    return (len(y) * mean_loss(logits, y) + doubt) / (len(y) + 1)


def _log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import log_softmax

    return log_softmax(logits, axis=1)
