"""What is predicted, how it is scored, and which loss trains it.

A metric belongs to a dataset: accuracy for balanced classes; where one class is rare and accuracy flatters,
balanced accuracy or F1 of the predicted classes, ROC-AUC or PR-AUC of their order; R² for numbers. All are
those of scikit-learn. Everything is computed for many replicas at once and without leaving the device:
outputs are `[R, n, O]`, labels `[n]` or `[n, O]`, masks `[R, n]`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from polynsd.devices import to_wide
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

    def of_class(self, positive: int) -> Task:
        """The task whose metric is of this one of two classes, where it is of one: F1 and PR-AUC."""
        if positive == 1 or self.metric not in OF_POSITIVE:
            return self
        metrics = self.metrics
        return replace(self, metrics=lambda output, y, mask: metrics(output.flip(-1), _swap(y), mask))

    def losses(self, output: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        """`[R]` means over the nodes of the masks."""
        return _mean(self.node_losses(output, y), mask)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """The mean loss of one model's outputs `[n, O]` over all nodes."""
        return self.node_losses(output[None], y).mean()

    def score(self, output: Tensor, y: Tensor) -> float:
        """The metric of one model's outputs `[n, O]` over all nodes."""
        self.check(y)
        return float(self.metrics(output[None], y, torch.ones(1, len(y), dtype=torch.bool, device=y.device)))


def _swap(y: Tensor) -> Tensor:
    """0 for 1 and 1 for 0; what is no class stays."""
    return torch.where((y == 0) | (y == 1), 1 - y, y)


def _mean(per_node: Tensor, mask: Tensor) -> Tensor:
    """A number that does not count may be infinite."""
    return torch.where(mask, per_node, 0.0).sum(-1) / mask.sum(-1)


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
    return _mean(to_wide(logits.argmax(-1) == y), mask)


def balanced_accuracies(logits: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Means over the classes of the share of their nodes that is found."""
    hits, true, _ = _count_by_class(logits, y, mask)
    return (hits / true).nanmean(-1)


def f1_scores(logits: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """2 · hits / (true + predicted), of class 1 of two, or the mean over the classes that occur."""
    hits, true, predicted = _count_by_class(logits, y, mask)
    if logits.size(-1) == 2:
        hits, true, predicted = (count[..., 1:] for count in (hits, true, predicted))
        return (2 * hits / (true + predicted).clamp(min=1)).squeeze(-1)
    return (2 * hits / (true + predicted)).nanmean(-1)


def roc_aucs(logits: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Probability that a positive node scores above a negative one, ties counting half.

    That is, over the positive nodes, the mean share of negative ones below.
    """

    def one_class(score: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        below = _count_below(score, negative)
        wins = (positive * (below[0] + below[1]) / 2).sum(-1)
        return wins / (positive.sum(-1) * negative.sum(-1))

    return _mean_over_classes(one_class, logits, y, mask)


def pr_aucs(logits: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Average precision: over the positive nodes, the mean share of positive ones among those as high."""

    def one_class(score: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        hits, others = (
            chosen.sum(-1, keepdim=True) - _count_below(score, chosen)[0] for chosen in (positive, negative)
        )
        precision = hits / (hits + others).clamp(min=1)
        return (positive * precision).sum(-1) / positive.sum(-1)

    return _mean_over_classes(one_class, logits, y, mask)


def _count_by_class(logits: Tensor, y: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`[R, C]` each: nodes that were right, nodes of the class, nodes predicted to be of it."""
    classes = torch.arange(logits.size(-1), device=y.device)
    predicted = mask[..., None] & (logits.argmax(-1)[..., None] == classes)
    true = mask[..., None] & (y[..., None] == classes)
    hits, true, predicted = (to_wide(chosen.sum(-2)) for chosen in (true & predicted, true, predicted))
    return hits, true, predicted


def _mean_over_classes(
    one_class: Callable[[Tensor, Tensor, Tensor], Tensor], logits: Tensor, y: Tensor, mask: Tensor
) -> Tensor:
    """A metric of (scores in order, positive nodes, negative nodes), of class 1 of two, or the mean of all.

    With more than two, a class is set against all others by its probability; one without nodes has no part.
    """
    if logits.size(-1) == 2:
        by_class = {1: to_wide(logits[..., 1] - logits[..., 0])}
    else:
        by_class = dict(enumerate(to_wide(logits).softmax(-1).unbind(-1)))
    values = []
    for label, scores in by_class.items():
        score, order = scores.sort(-1)
        chosen = (mask & (y == label), mask & (y != label) & (y >= 0))
        values.append(one_class(score, *(to_wide(nodes.gather(-1, order)) for nodes in chosen)))
    return torch.stack(values, -1).nanmean(-1)


def _count_below(score: Tensor, chosen: Tensor) -> list[Tensor]:
    """For every node of ascending scores, how many chosen ones lie below it, and how many not above it."""
    below = functional.pad(chosen.cumsum(-1), (1, 0))
    return [below.gather(-1, torch.searchsorted(score, score, right=right)) for right in (False, True)]


def r_squareds(output: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """1 − residual / total variance."""
    y = to_wide(y.reshape(output.shape[1:])).expand(output.shape)
    chosen = mask[..., None]
    mean = torch.where(chosen, y, 0.0).sum(-2, keepdim=True) / mask.sum(-1)[:, None, None]
    residual, total = (
        torch.where(chosen, (value - y).square(), 0.0).sum((-2, -1)) for value in (to_wide(output), mean)
    )
    return 1 - residual / total


def _accept(y: Tensor) -> None:
    """Accuracy is defined for all labels."""


def _require_two_classes(y: Tensor) -> None:
    known = y[y >= 0]
    if not bool((known != known[:1]).any()):
        raise DataError("ROC-AUC and PR-AUC need nodes of two classes in every part of a split; got one.")


def _require_variation(y: Tensor) -> None:
    if not bool((y != y[:1]).any()):
        raise DataError("R² needs targets that vary in every part of a split; these are all equal.")


METRIC_OF = {"acc": "accuracy", "auc": "roc_auc"}  # values of `TrainConfig.select` that name a metric
TASKS = {
    "accuracy": Task("accuracy", cross_entropies, accuracies, _accept),
    "balanced_accuracy": Task("balanced_accuracy", cross_entropies, balanced_accuracies, _accept),
    "f1": Task("f1", cross_entropies, f1_scores, _accept),
    "roc_auc": Task("roc_auc", cross_entropies, roc_aucs, _require_two_classes),
    "pr_auc": Task("pr_auc", cross_entropies, pr_aucs, _require_two_classes),
    "r2": Task("r2", squared_errors, r_squareds, _require_variation, is_regression=True),
}
OF_POSITIVE = ("f1", "pr_auc")  # metrics of one of two classes, the second unless `Task.of_class` is asked
CLASS_METRICS = tuple(name for name, task in TASKS.items() if not task.is_regression)


def get_task(metric: str) -> Task:
    """The task that is scored by `metric`: one of `CLASS_METRICS`, or r2 for numbers."""
    if metric not in TASKS:
        raise unknown_name("metric", metric, TASKS)
    return TASKS[metric]
