"""Calibration: probabilities that mean frequencies, fitted on nodes that a model was not trained on.

A temperature T makes a model less sure, or more: softmax(z / T). A model whose loss counts class c for w_c
tells the probabilities of a population in which c is w_c times as frequent, so their logits are log w too
large. Label propagation knows no weights, and a regularised model obeys them in part. So the share a of log w
that is subtracted is fitted with the temperature: softmax(z / T − a log w). With two classes the mean
probability of a class is then its share among the nodes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from torch import Tensor

from polynsd.errors import DataError
from polynsd.fields import require_fields

LARGEST = 20.0  # a temperature lies in [1/20, 20]
LARGEST_SHARE = 3.0  # of log w, that is subtracted or added
SMALLEST = 1e-300  # a probability that has a logarithm

Numbers = NDArray[np.float64]
Logits = TypeVar("Logits", Numbers, Tensor)


class Calibration(NamedTuple):
    """Logits z as probabilities: softmax(z / temperature + offsets)."""

    temperature: float = 1.0
    offsets: tuple[float, ...] | None = None
    """A number per class; None where classes had no weights."""

    def apply(self, logits: Logits) -> Logits:
        """Calibrated logits `[…, C]`."""
        scaled = logits / self.temperature
        if self.offsets is None:
            return scaled
        if isinstance(scaled, Tensor):
            return scaled + scaled.new_tensor(self.offsets)
        return scaled + np.array(self.offsets)

    def state(self) -> dict[str, Any]:
        """Plain data, from which `restore` makes the calibration again."""
        offsets = None if self.offsets is None else list(self.offsets)
        return {"temperature": self.temperature, "offsets": offsets}

    @classmethod
    def restore(cls, data: Any) -> Calibration:
        """What `state` described."""
        require_fields(data, temperature=float, offsets=list[float] | None)
        if not data["temperature"] > 0:
            raise DataError(f"a temperature must be positive; got {data['temperature']}")
        return cls(data["temperature"], None if data["offsets"] is None else tuple(data["offsets"]))

    def require_classes(self, count: int) -> None:
        """Raises unless there are as many offsets, if any."""
        if self.offsets is not None and len(self.offsets) != count:
            raise DataError(f"probabilities of {count} classes need {count} offsets; got {len(self.offsets)}")

    def rescale(self, probabilities: Numbers) -> Numbers:
        """Calibrated probabilities `[n, C]`; as they are where there is nothing to do."""
        if self == UNCALIBRATED:
            return probabilities
        rescaled: Numbers = softmax(self.apply(np.log(np.maximum(probabilities, SMALLEST))), axis=1)
        return rescaled


UNCALIBRATED = Calibration()


def fit_calibration(logits: Numbers, y: NDArray[Any], log_weights: Numbers | None = None) -> Calibration:
    """The calibration with the smallest loss on these nodes, `[n, C]` and `[n]`.

    Args:
        logits: of a model.
        y: the classes.
        log_weights: `[C]` the logarithms of what the classes counted in its loss; None: as much each.
    """
    from scipy.optimize import minimize

    if log_weights is None:
        return Calibration(fit_temperature(logits, y))

    def make(log_t: float, share: float) -> Calibration:
        return Calibration(math.exp(log_t), tuple((-share * log_weights).tolist()))

    bound = math.log(LARGEST)
    best = minimize(
        lambda point: _smoothed_loss(make(*point).apply(logits), y),
        np.array([0.0, 0.5]),
        method="L-BFGS-B",
        bounds=[(-bound, bound), (-LARGEST_SHARE, LARGEST_SHARE)],
    )
    return make(*best.x.tolist())


def fit_temperature(logits: Numbers, y: NDArray[Any]) -> float:
    """T of softmax(z / T) with the smallest loss on these nodes; 1 where that would not lower the loss.

    One node is added whose class is unknown (Laplace's rule): if all nodes are right, nothing else keeps T
    from 0. The order of the classes, hence the most likely one, stays as it is.
    """
    from scipy.optimize import minimize_scalar

    bound = math.log(LARGEST)
    best = minimize_scalar(
        lambda log_t: _smoothed_loss(logits / math.exp(log_t), y), bounds=(-bound, bound), method="bounded"
    )
    temperature = math.exp(float(best.x))
    return temperature if mean_loss(logits / temperature, y) < mean_loss(logits, y) else 1.0


def mean_loss(logits: Numbers, y: NDArray[Any]) -> float:
    """The mean negative log-likelihood of classes y `[n]` under logits `[n, C]`."""
    return float(-log_softmax(logits, axis=1)[np.arange(len(y)), y].mean())


def _smoothed_loss(logits: Numbers, y: NDArray[Any]) -> float:
    """The mean over n + 1 nodes, the last of which is like the others and may be of any class."""
    unknown = float(-log_softmax(logits, axis=1).mean())
    return (len(y) * mean_loss(logits, y) + unknown) / (len(y) + 1)
