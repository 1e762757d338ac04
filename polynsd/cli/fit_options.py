"""Options of `polynsd fit` in the words of the estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polynsd.errors import ConfigError, guess_name

METRICS = ("auto", "accuracy", "balanced_accuracy", "f1", "roc_auc", "pr_auc")
METRIC_NAMES = {"balanced": "balanced_accuracy", "auc": "roc_auc", "average_precision": "pr_auc"}


def parse_metric(name: str) -> str:
    """The estimator's name of a metric: `roc_auc` for `ROC-AUC`."""
    plain = name.lower().replace("-", "_")
    plain = METRIC_NAMES.get(plain, plain)
    if plain not in METRICS:
        raise ConfigError(
            f"unknown --metric {name}; choose from: {', '.join(METRICS)}.{guess_name(plain, METRICS)}"
        )
    return plain


def parse_decision(rule: str) -> str:
    """The estimator's name of a rule: `balanced_accuracy` for `balanced`."""
    plain = rule.lower().replace("-", "_")
    return METRIC_NAMES.get(plain, plain)


def parse_class_weight(words: Sequence[str], classes: Sequence[str]) -> Any:
    """None, `balanced`, or the weights by class."""
    if not words:
        return None
    if list(words) == ["balanced"]:
        return "balanced"
    weights = {}
    for word in words:
        name, _, number = word.rpartition("=")
        try:
            weights[name] = float(number)
        except ValueError:
            weights[name] = -1.0
        if name not in classes or not 0 < weights[name] < float("inf"):
            raise ConfigError(
                f"--class-weight is balanced, or a positive number for classes among {', '.join(classes)}, "
                f"such as {classes[0]}=2; got {word}."
            )
    return weights
