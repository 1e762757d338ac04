"""From probabilities to decisions: which class is predicted.

The most likely class is right most often. Where classes are unequal or errors have prices, another one may be
better: it is the class k with the largest expected gain Σ_c p_c G[c, k], for a matrix G of gains that is
given (costs with their sign changed) or learned from nodes whose classes are known. Diagonal gains move the
threshold: of two classes, the positive one is predicted from p₁ ≥ G₀₀ / (G₀₀ + G₁₁) on, if that is 1.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polynsd.errors import ConfigError
from polynsd.fields import require_fields
from polynsd.training import get_task

logger = logging.getLogger("polynsd")

AT_LEAST = ("precision", "recall")
RULES = ("argmax", "balanced_accuracy", "f1", *(f"{name}=…" for name in AT_LEAST))
FACTORS = 2.0 ** np.linspace(-4, 4, 17)  # by which the gain of a class is changed in search of a better F1
ROUNDS = 3

Numbers = NDArray[np.float64]
Classes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Decision:
    """Which class is predicted, given probabilities.

    Args:
        rule: how it was learned.
        gains: G `[C, C]`, of saying k where the class is c.
        positive: the number of the positive one of two classes, which `threshold` is of; with more classes
            nothing depends on it.
    """

    rule: str
    gains: Numbers
    positive: int = 1

    @classmethod
    def learn(
        cls, probabilities: Numbers, y: Classes, rule: Any = "argmax", positive: int = 1, warn: bool = True
    ) -> Decision:
        """The decision that is best on nodes `[n]` that the probabilities `[n, C]` were not trained on.

        Args:
            probabilities: of the classes.
            y: the classes.
            rule: `argmax`; `balanced_accuracy`; `f1`; `precision=0.9`, the largest recall of the positive
                class with at least that precision, or `recall=0.9`, the other way round; or a matrix `[C, C]`
                of costs, of saying k (column) where the class is c (row).
            positive: the number of the positive class, where there are two.
            warn: whether a share that no threshold reaches is told.
        """
        count = probabilities.shape[1]
        if not isinstance(rule, str):
            return cls("cost", -check_costs(rule, count), positive)
        name, share = parse_rule(rule, count)
        if name == "argmax":
            return cls(rule, np.eye(count), positive)
        if name == "balanced_accuracy":
            sizes = np.bincount(y, minlength=count)
            return cls(rule, np.diag(sizes.mean() / np.maximum(sizes, 1)), positive)
        if count == 2:
            threshold = _best_threshold(probabilities[:, positive], y == positive, name, share, warn)
            gains = np.full(2, threshold)
            gains[positive] = 1 - threshold
            return cls(rule, np.diag(gains), positive)
        return cls(rule, np.diag(_balance_f1(probabilities, y)), positive)

    @property
    def threshold(self) -> float | None:
        """The probability from which on the positive one of two classes is predicted; None with more."""
        if len(self.gains) != 2:
            return None
        lost_if_wrong = np.diag(self.gains) - np.diag(self.gains[:, ::-1])
        total = float(lost_if_wrong.sum())
        return float(lost_if_wrong[1 - self.positive]) / total if total else None

    def expected_gains(self, probabilities: Numbers) -> Numbers:
        """`[n, C]` → `[n, C]`; the largest one decides."""
        return probabilities @ self.gains

    def predict(self, probabilities: Numbers) -> Classes:
        """The class of every node `[n]`; of two that gain as much, the positive one where there are two."""
        gains = self.expected_gains(probabilities)
        if gains.shape[1] == 2 and self.rule != "argmax":
            is_positive = gains[:, self.positive] >= gains[:, 1 - self.positive]
            return np.where(is_positive, self.positive, 1 - self.positive)
        return np.asarray(gains.argmax(1), dtype=np.int64)

    def state(self) -> dict[str, Any]:
        """Plain data, from which `restore` makes the decision again."""
        return {"rule": self.rule, "gains": self.gains.tolist(), "positive": self.positive}

    @classmethod
    def restore(cls, data: Any) -> Decision:
        """What `state` described."""
        require_fields(data, rule=str, gains=list[list[float]], positive=int)
        return cls(data["rule"], np.array(data["gains"], dtype=np.float64), data["positive"])


def parse_rule(rule: str, num_classes: int) -> tuple[str, float]:
    """The name of a rule and its share, 0 where it has none."""
    name, _, text = rule.partition("=")
    if not text and name in RULES:
        return name, 0.0
    if name not in AT_LEAST:
        raise ConfigError(
            f"unknown decision {rule!r}; choose from: {', '.join(RULES)}, or a matrix of costs."
        )
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise ConfigError(f"decision {rule!r} needs a number above 0 and at most 1, e.g. '{name}=0.9'.")
    if num_classes != 2:
        raise ConfigError(
            f"decision {rule!r} is for two classes; there are {num_classes}. Use 'f1' or costs."
        )
    return name, share


def check_costs(costs: Any, count: int) -> Numbers:
    """The costs as a matrix; raises unless it has a row and a column for every class."""
    try:
        values = np.asarray(costs, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (count, count) or not np.isfinite(values).all():
        raise ConfigError(
            f"costs must be a finite matrix [{count}, {count}], a row for every class and a column for every "
            f"answer; got {list(values.shape)}."
        )
    return values


def _best_threshold(p: Numbers, is_positive: NDArray[np.bool_], name: str, share: float, warn: bool) -> float:
    """The threshold of p `[n]` that is best by a rule, half-way to the next probability."""
    order = np.argsort(-p, kind="stable")
    ends = np.flatnonzero(np.diff(p[order], append=-1.0))  # between equal ones there is no threshold
    hits, predicted, total = np.cumsum(is_positive[order])[ends], ends + 1.0, int(is_positive.sum())
    precision, recall = hits / predicted, hits / max(total, 1)
    if name == "f1":
        best = int(np.argmax(hits / (predicted + total)))
    else:
        bounded, other = (precision, recall) if name == "precision" else (recall, precision)
        is_allowed = bounded >= share
        if not is_allowed.any():
            if warn:
                text = "no threshold reaches a %s of %g; the best has %.3f."
                logger.warning(text, name, share, bounded.max())
            is_allowed = bounded == bounded.max()
        best = int(np.argmax(np.where(is_allowed, other, -1.0)))
    following = p[order[ends[best] + 1]] if best + 1 < len(ends) else 0.0
    return float((p[order[ends[best]]] + following) / 2)


def _balance_f1(probabilities: Numbers, y: Classes) -> Numbers:
    """Gains of the classes with the best macro F1, one class after the other, from equal ones on."""
    count = probabilities.shape[1]
    target, score = torch.from_numpy(y), get_task("f1").metrics
    gains = np.ones(count)
    for _ in range(ROUNDS):
        before = gains.copy()
        for c in range(count):
            trials = np.repeat(gains[None], len(FACTORS), 0)
            trials[:, c] *= FACTORS
            outputs = torch.from_numpy(probabilities[None] * trials[:, None])
            values = score(outputs, target, torch.ones(outputs.shape[:2], dtype=torch.bool)).numpy()
            middle = len(FACTORS) // 2
            if values.max() > values[middle]:
                gains = trials[_nearest_best(values, middle)]
        if (gains == before).all():
            break
    return gains


def _nearest_best(values: Numbers, middle: int) -> int:
    """The place of the largest value, the one nearest to the middle of equal ones."""
    best = np.flatnonzero(values == values.max())
    return int(best[np.abs(best - middle).argmin()])
