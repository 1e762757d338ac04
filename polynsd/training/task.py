"""What is predicted, how it is scored, and which loss trains it.

A metric belongs to a dataset: accuracy for balanced classes, ROC-AUC where one class is rare (a
constant guess has 0.5 there, but an accuracy that flatters), R² for numbers. Everything is computed
for many replicas at once and without leaving the device: outputs are `[R, n, O]`, labels `[n]` or
`[n, O]`, masks `[R, n]`.
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
    """A loss to minimise and a metric to report (the higher the better).

    Args:
        metric: its name.
        node_losses: (outputs, labels) → `[R, n]`.
        metrics: (outputs, labels, masks) → `[R]` in float64.
        check: raises where labels `[n]` cannot be scored.
        is_regression: whether labels are numbers.
    """

    metric: str
    node_losses: Callable[[Tensor, Tensor], Tensor]
    metrics: Callable[[Tensor, Tensor, Tensor], Tensor]
    check: Callable[[Tensor], None]
    is_regression: bool = False

    def num_outputs(self, y: Tensor) -> int:
        """Classes, or regression targets."""
        if self.is_regression:
            return y.size(-1) if y.dim() > 1 else 1
        return int(y.max()) + 1

    def losses(self, output: Tensor, y: Tensor, mask: Tensor, smoothing: Tensor | None = None) -> Tensor:
        """`[R]` means over the nodes of the masks, with labels smoothed by shares `[R]` if given."""
        per_node = self.node_losses(output, y)
        if smoothing is not None:
            per_node = _smoothed(per_node, output, smoothing.to(output.dtype)[:, None])
        return _mean(per_node, mask)

    def loss(self, output: Tensor, y: Tensor, smoothing: float = 0.0) -> Tensor:
        """The mean loss of one model's outputs `[n, O]` over all nodes, with labels smoothed by a share."""
        per_node = self.node_losses(output[None], y)
        return (_smoothed(per_node, output[None], smoothing) if smoothing else per_node).mean()

    def score(self, output: Tensor, y: Tensor) -> float:
        """The metric of one model's outputs `[n, O]` over all nodes."""
        self.check(y)
        return float(self.metrics(output[None], y, torch.ones(1, len(y), dtype=torch.bool, device=y.device)))


def _mean(per_node: Tensor, mask: Tensor) -> Tensor:
    """A number that does not count may be infinite."""
    return torch.where(mask, per_node, 0.0).sum(-1) / mask.sum(-1)


def _smoothed(per_node: Tensor, logits: Tensor, share: Tensor | float) -> Tensor:
    """(1 − s) · (−log p_y) + s · mean over the classes c of −log p_c."""
    return (1 - share) * per_node - share * logits.log_softmax(-1).mean(-1)


def cross_entropies(logits: Tensor, y: Tensor) -> Tensor:
    """−log softmax(logits)_y; any number where there is no label (−1)."""
    R, n, _ = logits.shape
    target = y.clamp(min=0).expand(R, n).reshape(-1)
    return functional.cross_entropy(logits.flatten(0, 1), target, reduction="none").reshape(R, n)


def squared_errors(output: Tensor, y: Tensor) -> Tensor:
    """Means over the targets of a node; any number where there is no target (NaN)."""
    target = y.reshape(output.shape[1:]).to(output.dtype).nan_to_num()  # or gradients would be NaN as well
    return (output - target).square().mean(-1)


def accuracies(logits: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Shares of nodes whose most likely class is right."""
    return _mean((logits.argmax(-1) == y).double(), mask)


def roc_aucs(logits: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Probability that a positive node scores above a negative one, ties counting half.

    That is, over the positive nodes, the mean share of negative ones below.
    """
    if logits.size(-1) != 2:
        raise DataError(f"ROC-AUC needs two classes; got {logits.size(-1)}. Use metric='accuracy'.")
    score, order = (logits[..., 1] - logits[..., 0]).double().sort(-1)
    positive, negative = ((mask & (y == label)).gather(-1, order).double() for label in (1, 0))
    below = functional.pad(negative.cumsum(-1), (1, 0))
    ends = [below.gather(-1, torch.searchsorted(score, score, right=right)) for right in (False, True)]
    wins = (positive * (ends[0] + ends[1]) / 2).sum(-1)
    return wins / (positive.sum(-1) * negative.sum(-1))


def r_squareds(output: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """1 − residual / total variance."""
    y = y.reshape(output.shape[1:]).double().expand(output.shape)
    chosen = mask[..., None]
    mean = torch.where(chosen, y, 0.0).sum(-2, keepdim=True) / mask.sum(-1)[:, None, None]
    residual, total = (
        torch.where(chosen, (value - y).square(), 0.0).sum((-2, -1)) for value in (output.double(), mean)
    )
    return 1 - residual / total


def _accept(y: Tensor) -> None:
    """Accuracy is defined for all labels."""


def _require_both_classes(y: Tensor) -> None:
    if not bool((y == 0).any() and (y == 1).any()):
        raise DataError("ROC-AUC needs nodes of both classes in every part of a split.")


def _require_variation(y: Tensor) -> None:
    if not bool((y != y[:1]).any()):
        raise DataError("R² needs targets that vary in every part of a split; these are all equal.")


METRIC_OF = {"acc": "accuracy", "auc": "roc_auc"}  # values of `TrainConfig.select` that name a metric
TASKS = {
    "accuracy": Task("accuracy", cross_entropies, accuracies, _accept),
    "roc_auc": Task("roc_auc", cross_entropies, roc_aucs, _require_both_classes),
    "r2": Task("r2", squared_errors, r_squareds, _require_variation, is_regression=True),
}


def get_task(metric: str) -> Task:
    """The task that is scored by `metric`: accuracy, roc_auc or r2."""
    if metric not in TASKS:
        raise unknown_name("metric", metric, TASKS)
    return TASKS[metric]
