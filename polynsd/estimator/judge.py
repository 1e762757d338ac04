"""How predictions are compared: by the metric, and by an objective that is smoother.

The metric of a few hundred nodes is coarse: an accuracy has steps of 1/n and many ties, and choosing among
dozens of candidates by it chooses noise. The objective therefore counts the loss as well, which tells by how
much a prediction was right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax

from polynsd.estimator.calibration import UNCALIBRATED, Calibration, fit_calibration
from polynsd.estimator.decision import Decision
from polynsd.estimator.ensemble import Predictions
from polynsd.estimator.labels import Mask
from polynsd.estimator.members import Outputs
from polynsd.training import Task

if TYPE_CHECKING:
    from polynsd.estimator.folds import Folds

LOSS_SHARE = 0.3  # of the loss in the objective
SMALLEST_PROBABILITY = 1e-6  # in the loss, so that one node cannot decide
SMALLEST_NUMBER = 1e-300


class Judge(Protocol):
    """Compares predictions on the nodes that judge."""

    @property
    def nodes(self) -> NDArray[np.int64]:
        """`[n]` their numbers."""
        ...

    @property
    def y(self) -> NDArray[Any]:
        """`[n]` their targets."""
        ...

    def predictions(self, outputs: Outputs, folds: Folds) -> tuple[Calibration, Outputs]:
        """The calibration of a member, and its outputs `[R, N, O]` as what is averaged in an ensemble."""
        ...

    def score(self, predictions: Predictions) -> float:
        """The metric of predictions `[n, O]`."""
        ...

    def objective(self, predictions: Predictions) -> float:
        """What candidates and ensembles are chosen by."""
        ...

    def noise(self, score: float) -> float:
        """The standard error of a score: by how much one may be behind another without being worse."""
        ...

    def half(self, seed: int) -> NDArray[np.bool_]:
        """`[n]` one half of the nodes, with as much of every kind as the other."""
        ...

    def on(self, some: NDArray[Any]) -> Judge:
        """The judge of some of the nodes, by a mask or by their positions."""
        ...


@dataclass(frozen=True, eq=False)
class ClassJudge:
    """Probabilities of classes, by the metric of a task.

    Args:
        nodes: see `Judge`.
        y: `[n]` their classes.
        task: its metric is that of the most likely class, or of the order of nodes.
        log_weights: `[C]` the logarithms of what the classes count in training; None: as much each.
        learn: the decision that would be learned from probabilities and classes, which the metric is of;
            None: the most likely class.
    """

    nodes: NDArray[np.int64]
    y: NDArray[np.int64]
    task: Task
    log_weights: NDArray[np.float64] | None = None
    learn: Callable[[Predictions, NDArray[np.int64]], Decision] | None = None

    def predictions(self, outputs: Outputs, folds: Folds) -> tuple[Calibration, Outputs]:
        """Probabilities, calibrated so that the loss out of fold is as small as it can be."""
        fold, node = np.nonzero(folds.val)
        place = np.full(outputs.shape[1], -1)
        place[self.nodes] = np.arange(len(self.nodes))
        calibration = fit_calibration(outputs[fold, node], self.y[place[node]], self.log_weights)
        return calibration, as_predictions(outputs, calibration, is_regression=False)

    def score(self, predictions: Predictions) -> float:
        if self.learn is not None:
            decided = self.learn(predictions, self.y).predict(predictions)
            predictions = np.eye(predictions.shape[1])[decided]
        logits = torch.from_numpy(np.log(np.maximum(predictions, SMALLEST_NUMBER)))[None]
        everyone = torch.ones(1, len(self.y), dtype=torch.bool)
        return float(self.task.metrics(logits, torch.from_numpy(self.y), everyone))

    def objective(self, predictions: Predictions) -> float:
        right = predictions[np.arange(len(self.y)), self.y]
        loss = -np.log(np.maximum(right, SMALLEST_PROBABILITY)).mean()
        score = self.score(predictions)
        return (score if math.isfinite(score) else 0.0) - LOSS_SHARE * float(loss)

    def noise(self, score: float) -> float:
        return math.sqrt(max(score * (1 - score), 0.01) / len(self.y))

    def half(self, seed: int) -> NDArray[np.bool_]:
        return _half(self.y, seed)

    def on(self, some: NDArray[Any]) -> Judge:
        return replace(self, nodes=self.nodes[some], y=self.y[some])


@dataclass(frozen=True, eq=False)
class NumberJudge:
    """Standardised numbers, by R².

    Args:
        nodes: see `Judge`.
        y: `[n]` their targets.
    """

    nodes: NDArray[np.int64]
    y: NDArray[np.float64]

    def predictions(self, outputs: Outputs, folds: Folds) -> tuple[Calibration, Outputs]:
        """Outputs are what is averaged."""
        return UNCALIBRATED, outputs

    def score(self, predictions: Predictions) -> float:
        residual, total = self.y - predictions[:, 0], self.y - self.y.mean()
        if not total.any():  # equal targets have no variance to explain
            return float(not residual.any())
        return float(1 - (residual @ residual) / (total @ total))

    objective = score

    def noise(self, score: float) -> float:
        return (1 - min(score, 1.0)) / math.sqrt(len(self.y))

    def half(self, seed: int) -> NDArray[np.bool_]:
        return _half(self.y, seed)

    def on(self, some: NDArray[Any]) -> Judge:
        return replace(self, nodes=self.nodes[some], y=self.y[some])


def make_judge(task: Task, target: NDArray[Any], nodes: Mask) -> Judge:
    """The judge of some nodes, by their targets `[N]`: classes, or standardised numbers."""
    numbers = np.flatnonzero(nodes)
    if task.is_regression:
        return NumberJudge(numbers, target[nodes])
    return ClassJudge(numbers, target[nodes], task)


def as_predictions(outputs: Outputs, calibration: Calibration, is_regression: bool) -> Outputs:
    """Outputs of a member as what is averaged: calibrated probabilities, or standardised targets."""
    if is_regression:
        return outputs
    probabilities: Outputs = softmax(calibration.apply(outputs), axis=-1)
    return probabilities


def _half(y: NDArray[Any], seed: int) -> NDArray[np.bool_]:
    """Every other node in the order of y, which is random among equal ones."""
    order = np.lexsort((np.random.default_rng(seed).random(len(y)), y))
    chosen = np.zeros(len(y), dtype=bool)
    chosen[order[::2]] = True
    return chosen
