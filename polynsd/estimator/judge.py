"""How predictions are compared: by the metric, and by an objective that is smoother.

The metric of a few hundred nodes is coarse: an accuracy has steps of 1/n and many ties, and choosing among
dozens of candidates by it chooses noise. The objective therefore counts the loss as well, which tells by how
much a prediction was right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax

from polynsd.estimator.calibration import SMALLEST, UNCALIBRATED, Calibration, fit_calibration
from polynsd.estimator.decision import Decision
from polynsd.estimator.ensemble import Predictions
from polynsd.estimator.labels import Mask
from polynsd.estimator.members import Outputs
from polynsd.training import Task

if TYPE_CHECKING:
    from polynsd.estimator.folds import Folds

LOSS_SHARE = 0.3  # of the loss in the objective
SMALLEST_PROBABILITY = 1e-6  # in the loss, so that one node cannot decide

Learn = Callable[[Predictions, NDArray[np.int64]], Decision]  # from probabilities and classes


@dataclass(frozen=True, eq=False)
class Judge:
    """Compares predictions `[n, O]` of some nodes: probabilities of classes, or standardised numbers.

    Args:
        nodes: `[n]` their numbers.
        y: `[n]` their targets.
        task: its metric is that of the most likely class, or of the order of nodes; of numbers it is R².
        log_weights: `[C]` the logarithms of what the classes count in training; None: as much each.
        learn: the decision that would be learned from probabilities and classes, which the metric is of;
            None: the most likely class.
    """

    nodes: NDArray[np.int64]
    y: NDArray[Any]
    task: Task
    log_weights: NDArray[np.float64] | None = None
    learn: Learn | None = None

    @classmethod
    def of_nodes(
        cls,
        nodes: Mask,
        target: NDArray[Any],
        task: Task,
        log_weights: NDArray[np.float64] | None = None,
        learn: Learn | None = None,
    ) -> Judge:
        """The judge of the nodes in a mask `[N]`, by the targets of all nodes `[N]`."""
        return cls(np.flatnonzero(nodes), target[nodes], task, log_weights, learn)

    def on(self, some: NDArray[Any]) -> Judge:
        """The judge of some of the nodes, by a mask or by their positions."""
        return replace(self, nodes=self.nodes[some], y=self.y[some])

    def half(self, seed: int) -> NDArray[np.bool_]:
        """`[n]` every other node in the order of y, which is random among equal ones."""
        order = np.lexsort((np.random.default_rng(seed).random(len(self.y)), self.y))
        chosen = np.zeros(len(self.y), dtype=bool)
        chosen[order[::2]] = True
        return chosen

    def predictions(self, outputs: Outputs, folds: Folds) -> tuple[Calibration, Outputs]:
        """A calibration with the smallest loss out of fold, and what an ensemble averages `[R, N, O]`."""
        if self.task.is_regression:
            return UNCALIBRATED, outputs
        fold, node = np.nonzero(folds.val)
        place = np.full(outputs.shape[1], -1)
        place[self.nodes] = np.arange(len(self.nodes))
        calibration = fit_calibration(outputs[fold, node], self.y[place[node]], self.log_weights)
        return calibration, as_predictions(outputs, calibration, is_regression=False)

    def score(self, predictions: Predictions) -> float:
        """The metric."""
        if self.task.is_regression:
            residual, total = self.y - predictions[:, 0], self.y - self.y.mean()
            if not total.any():  # equal targets have no variance to explain
                return float(not residual.any())
            return float(1 - (residual @ residual) / (total @ total))
        if self.learn is not None:
            decided = self.learn(predictions, self.y).predict(predictions)
            predictions = np.eye(predictions.shape[1])[decided]
        logits = torch.from_numpy(np.log(np.maximum(predictions, SMALLEST)))[None]
        everyone = torch.ones(1, len(self.y), dtype=torch.bool)
        return float(self.task.metrics(logits, torch.from_numpy(self.y), everyone))

    def objective(self, predictions: Predictions) -> float:
        """What candidates and ensembles are chosen by."""
        score = self.score(predictions)
        if self.task.is_regression:
            return score
        right = predictions[np.arange(len(self.y)), self.y]
        loss = -np.log(np.maximum(right, SMALLEST_PROBABILITY)).mean()
        return (score if math.isfinite(score) else 0.0) - LOSS_SHARE * float(loss)

    def noise(self, score: float) -> float:
        """The standard error of a score: by how much one may be behind another without being worse."""
        if self.task.is_regression:
            return (1 - min(score, 1.0)) / math.sqrt(len(self.y))
        return math.sqrt(max(score * (1 - score), 0.01) / len(self.y))


def as_predictions(outputs: Outputs, calibration: Calibration, is_regression: bool) -> Outputs:
    """Outputs of a member as what is averaged: calibrated probabilities, or standardised targets."""
    if is_regression:
        return outputs
    probabilities: Outputs = softmax(calibration.apply(outputs), axis=-1)
    return probabilities
