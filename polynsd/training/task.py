"""What is predicted, how it is scored, and which loss trains it.

A metric belongs to a dataset: accuracy for balanced classes, ROC-AUC where one class is rare (a
constant guess has 0.5 there, but an accuracy that flatters), R² for numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from polynsd.errors import DataError, unknown_name


@dataclass(frozen=True)
class Task:
    """A loss to minimise and a metric to report (the higher the better)."""

    metric: str
    loss: Callable[[Tensor, Tensor], Tensor]
    score: Callable[[Tensor, Tensor], float]
    is_regression: bool = False

    def num_outputs(self, y: Tensor) -> int:
        """Classes, or regression targets."""
        if self.is_regression:
            return y.size(-1) if y.dim() > 1 else 1
        return int(y.max()) + 1


def accuracy(logits: Tensor, y: Tensor) -> float:
    """Share of nodes whose most likely class is right."""
    return float((logits.argmax(-1) == y).double().mean())


def roc_auc(logits: Tensor, y: Tensor) -> float:
    """Probability that a positive node scores above a negative one (ties count half), by ranks."""
    from scipy.stats import rankdata  # slow to import

    if logits.size(-1) != 2:
        raise DataError(f"ROC-AUC needs two classes; got {logits.size(-1)}. Use metric='accuracy'.")
    score = (logits[:, 1] - logits[:, 0]).cpu().double().numpy()
    positive = (y == 1).cpu().numpy()
    num_positive, num_negative = int(positive.sum()), int((~positive).sum())
    if not num_positive or not num_negative:
        raise DataError("ROC-AUC needs nodes of both classes in every part of a split.")
    ranks = rankdata(score)[positive].sum()
    return float((ranks - num_positive * (num_positive + 1) / 2) / (num_positive * num_negative))


def r_squared(output: Tensor, y: Tensor) -> float:
    """1 − residual / total variance."""
    y = y.reshape_as(output).double()
    residual, total = (output.double() - y).square().sum(), (y - y.mean(0)).square().sum()
    if not total > 0:
        raise DataError("R² needs targets that vary in every part of a split; these are all equal.")
    return float(1 - residual / total)


def squared_error(output: Tensor, y: Tensor) -> Tensor:
    """Mean squared error; y may be `[n]` or `[n, targets]`."""
    return functional.mse_loss(output, y.reshape_as(output).to(output.dtype))


TASKS = {
    "accuracy": Task("accuracy", functional.cross_entropy, accuracy),
    "roc_auc": Task("roc_auc", functional.cross_entropy, roc_auc),
    "r2": Task("r2", squared_error, r_squared, is_regression=True),
}


def get_task(metric: str) -> Task:
    """The task that is scored by `metric`: accuracy, roc_auc or r2."""
    if metric not in TASKS:
        raise unknown_name("metric", metric, TASKS)
    return TASKS[metric]


@torch.no_grad()
def evaluate(output: Tensor, y: Tensor, nodes: Tensor, task: Task) -> tuple[float, float]:
    """(loss, metric) on the nodes with the given numbers."""
    output, y = output[nodes], y[nodes]
    return float(task.loss(output, y)), task.score(output, y)
