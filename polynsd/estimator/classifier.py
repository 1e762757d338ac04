"""`SheafClassifier`: classes of nodes; and the temperature that calibrates its probabilities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.errors import ConfigError, DataError, require_choice
from polynsd.estimator.base import SheafEstimator
from polynsd.estimator.labels import UNLABELLED, Labels
from polynsd.estimator.sklearn_compat import ClassifierMixin, as_python
from polynsd.training import Task, get_task

UNEQUAL = 0.25  # two classes, one of them with less than this share: accuracy flatters
LARGEST = 20.0  # a temperature lies in [1/20, 20]
UNKNOWN = -2  # a label that is none of the classes: never right


class SheafClassifier(ClassifierMixin, SheafEstimator):  # type: ignore[misc]
    """Classes of nodes, of a graph whose neighbours may disagree.

    Whatever is `"auto"` is chosen by a short search on validation nodes; what is given is never changed.

    Args:
        maps: how a node sees a neighbour: `identity`, `diagonal`, `orthogonal`, `general`.
        stalk_dim: d, the dimension of what is compared along an edge.
        degree: K, the number of hops of a layer; 0 does not look at neighbours at all.
        hidden_channels: width, per dimension of the stalk.
        num_layers: L.
        dropout: of the state.
        learning_rate: of Adam.
        weight_decay: L2 penalty.
        epochs: at most; training stops 100 epochs after the last improvement on validation.
        budget: `"short"` searches for a fixed number of epochs, a number for so many seconds (then the result
            depends on the machine), None does not search.
        metric: what candidates are compared by on validation, and what `score` returns: `accuracy`,
            `roc_auc`, or `auto`, which is ROC-AUC where the rarer of two classes has less than a quarter of
            the labels.
        class_weight: `"balanced"` weighs every class alike in the loss, a mapping gives the weights of
            classes (1 where it names none), None weighs every node alike.
        calibrate: `"temperature"` rescales probabilities on the validation nodes; None leaves them.
        validation_fraction: the share of every class that is held out where `fit` gets no `val`.
        standardize: features that are not 0/1 are standardised, by the training nodes.
        device: `cpu`, `cuda`, `cuda:N`, or `auto`.
        random_state: of the held-out nodes, the weights and the dropout: a seed, a NumPy RandomState to draw
            one from, or None for another one in every `fit`.

    Attributes:
        classes_: the classes, sorted.
        seed_: the seed that was used.
        train_mask_: the training nodes.
        val_mask_: the validation nodes.
        metric_: the metric in use.
        val_score_: its value on `val_mask_`.
        search_results_: every candidate with its validation scores; the first is the chosen one.
        temperature_: of the probabilities; 1 if not calibrated.
    """

    def __init__(
        self,
        maps: Any = "auto",
        stalk_dim: Any = "auto",
        degree: Any = "auto",
        hidden_channels: Any = "auto",
        num_layers: Any = "auto",
        dropout: Any = "auto",
        learning_rate: Any = "auto",
        weight_decay: Any = "auto",
        epochs: Any = "auto",
        budget: Any = "short",
        metric: str = "auto",
        class_weight: Any = None,
        calibrate: str | None = None,
        validation_fraction: float = 0.2,
        standardize: bool = True,
        device: str = "auto",
        random_state: Any = 0,
    ) -> None:
        super().__init__(
            maps=maps,
            stalk_dim=stalk_dim,
            degree=degree,
            hidden_channels=hidden_channels,
            num_layers=num_layers,
            dropout=dropout,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            epochs=epochs,
            budget=budget,
            validation_fraction=validation_fraction,
            standardize=standardize,
            device=device,
            random_state=random_state,
        )
        self.metric, self.class_weight, self.calibrate = metric, class_weight, calibrate

    def predict(self, graph: Any = None, *, edges: Any = None) -> NDArray[Any]:
        """The most likely class of every node; of the graph of `fit` unless one is given."""
        winners = self._outputs(graph, edges).argmax(1)
        return self.classes_[winners]

    def predict_proba(self, graph: Any = None, *, edges: Any = None) -> NDArray[np.float64]:
        """Probabilities `[N, C]`, in the order of `classes_`."""
        from scipy.special import softmax

        logits = self._outputs(graph, edges)
        return softmax(logits / self.temperature_, axis=1)

    score = SheafEstimator.score  # not the mixin's

    def _learn_classes(self, labels: Labels) -> NDArray[Any]:
        require_choice("calibrate", str(self.calibrate), ("None", "temperature"))
        require_choice("metric", self.metric, ("auto", "accuracy", "roc_auc"))
        self.classes_ = sort_classes(labels)
        if len(self.classes_) < 2:
            raise DataError(
                f"classification needs at least two classes; got 1 class, {self.classes_.tolist()[0]!r}."
            )
        self._check_class_weight()
        return self._as_target(labels).numpy()

    def _as_target(self, labels: Labels) -> Tensor:
        return torch.from_numpy(encode_classes(labels, self.classes_))

    def _choose_metric(self, target: Tensor) -> str:
        if self.metric != "auto":
            return self.metric
        parts = [target[torch.from_numpy(mask)] for mask in (self.train_mask_, self.val_mask_)]
        sizes = torch.cat(parts).bincount()
        is_unequal = len(self.classes_) == 2 and float(sizes.min() / sizes.sum()) < UNEQUAL
        has_both = all(len(part.unique()) == 2 for part in parts)
        return "roc_auc" if is_unequal and has_both else "accuracy"

    def _task(self, target: Tensor) -> Task:
        task = get_task(self.metric_)
        if self.class_weight is None:
            return task
        if self.class_weight == "balanced":
            trained = target[torch.from_numpy(self.train_mask_)]
            counts = trained.bincount(minlength=len(self.classes_)).clamp(min=1)
            weights = counts.sum() / (len(counts) * counts)
        else:
            weights = torch.tensor([float(self.class_weight.get(c, 1.0)) for c in self.classes_.tolist()])
        weights = weights.float().to(self._device())

        def node_losses(output: Tensor, y: Tensor) -> Tensor:
            return weights[y.clamp(min=0)] * task.node_losses(output, y)

        return replace(task, node_losses=node_losses)

    def _check_class_weight(self) -> None:
        weights = self.class_weight
        if weights is None or (isinstance(weights, str) and weights == "balanced"):
            return
        if not isinstance(weights, Mapping):
            raise ConfigError(
                f"class_weight must be 'balanced', a weight per class, or None; got {weights!r}."
            )
        classes = self.classes_.tolist()
        unknown = [as_python(name) for name in weights if name not in classes]
        if unknown:
            raise ConfigError(f"class_weight names {unknown}, not among the classes {classes}; correct it.")

    def _num_outputs(self) -> int:
        return len(self.classes_)

    def _calibrate(self, target: Tensor) -> None:
        self.temperature_ = 1.0
        if self.calibrate is not None:
            logits = self._outputs(None)[self.val_mask_]
            self.temperature_ = fit_temperature(logits, target.numpy()[self.val_mask_])


def sort_classes(labels: Labels) -> NDArray[Any]:
    """The different labels in order, as strings if all of them are."""
    try:
        classes = np.unique(labels.values[labels.has_label])
    except TypeError as error:
        raise DataError("classes must be of one type, all strings or all numbers; they are mixed.") from error
    if classes.dtype.kind == "f" and (classes != np.floor(classes)).any():
        raise DataError(
            "Unknown label type: continuous. Classes are no fractions; use SheafRegressor for numbers."
        )
    is_text = classes.dtype.kind == "O" and all(isinstance(name, str) for name in classes)
    return classes.astype(np.str_) if is_text else classes


def encode_classes(labels: Labels, classes: NDArray[Any]) -> NDArray[np.int64]:
    """The index of every label in `classes`; −1 without a label, −2 for others."""
    number = {name: index for index, name in enumerate(classes.tolist())}
    distinct, codes = np.unique(labels.values[labels.has_label], return_inverse=True)
    numbers = np.full(len(labels.has_label), UNLABELLED, dtype=np.int64)
    numbers[labels.has_label] = np.array([number.get(name, UNKNOWN) for name in distinct.tolist()])[codes]
    return numbers


def fit_temperature(logits: NDArray[np.float64], y: NDArray[Any]) -> float:
    """T of softmax(z / T) with the smallest loss on these nodes; 1 where that would not lower the loss.

    One node is added whose class is unknown (Laplace's rule): if all nodes are right, nothing else keeps T
    from 0. The order of the classes, hence every prediction, stays as it is.
    """
    from scipy.optimize import minimize_scalar

    bound = math.log(LARGEST)
    best = minimize_scalar(
        lambda log_t: _smoothed_loss(logits / math.exp(log_t), y), bounds=(-bound, bound), method="bounded"
    )
    temperature = math.exp(float(best.x))
    return temperature if mean_loss(logits / temperature, y) < mean_loss(logits, y) else 1.0


def mean_loss(logits: NDArray[np.float64], y: NDArray[Any]) -> float:
    """The mean negative log-likelihood of classes y `[n]` under logits `[n, C]`."""
    return float(-_log_softmax(logits)[np.arange(len(y)), y].mean())


def _smoothed_loss(logits: NDArray[np.float64], y: NDArray[Any]) -> float:
    """The mean over n + 1 nodes, the last of which is like the others and may be of any class."""
    unknown = float(-_log_softmax(logits).mean())
    return (len(y) * mean_loss(logits, y) + unknown) / (len(y) + 1)


def _log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import log_softmax

    return log_softmax(logits, axis=1)
