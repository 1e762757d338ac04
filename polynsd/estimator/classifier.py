"""`SheafClassifier`: classes of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from polynsd.errors import ConfigError, DataError, require_choice
from polynsd.estimator.base import SheafEstimator
from polynsd.estimator.calibration import UNCALIBRATED, Calibration, fit_calibration
from polynsd.estimator.decision import Decision, check_costs, parse_rule
from polynsd.estimator.estimate import Answers
from polynsd.estimator.folds import Folds
from polynsd.estimator.judge import Judge
from polynsd.estimator.labels import Labels, Mask, encode_classes, sort_classes
from polynsd.estimator.sklearn_compat import as_python
from polynsd.training import Task
from polynsd.training.task import CLASS_METRICS

UNEQUAL = 0.25  # two classes, one of them with less than this share: accuracy flatters
DECIDED = ("balanced_accuracy", "f1")  # metrics of predicted classes, for which a decision is learned
BY_WEIGHT = "class_weight"  # the rule whose gains are the weights of the classes
OF_ORDER = ("roc_auc", "pr_auc")  # metrics of probabilities, which no decision changes


class SheafClassifier(ClassifierMixin, SheafEstimator):  # type: ignore[misc]
    """Classes of nodes, of a graph whose neighbours may disagree.

    Without arguments it tries linear models and boosted trees on features and on those of neighbours,
    graph convolutions, polynomial filters and sheaf networks, cheapest first, and keeps an ensemble of
    the best.

    Args:
        budget: seconds that the search may take; None: a fixed amount of work, about a minute on two cores
            for a few thousand nodes and four for twenty thousand; its result is the same on every machine.
        ensemble: the largest number of models in the ensemble; 1 for the best model alone; `"auto"`: as many
            as pay.
        metric: what candidates are compared by, and what `score` returns: `accuracy`, `balanced_accuracy`,
            `f1` (of the positive one of two classes, or the mean over classes), `roc_auc`, `pr_auc`, or
            `auto`: ROC-AUC where the rarer of two classes has less than a quarter of the labels, accuracy
            elsewhere.
        positive: the one of two classes that F1, PR-AUC, precision and recall are of; None: the last in the
            order of `classes_`, such as 1, True or "yes".
        class_weight: `"balanced"` weighs every class alike, a mapping gives the weights of classes (1 where
            it names none), None weighs every node alike. Weights count in the loss, and in what `predict`
            says unless `decision` or the metric asks for another rule; `predict_proba` tells frequencies all
            the same.
        decision: which class `predict` says: `argmax`, the most likely; `balanced_accuracy` or `f1`, learned
            on held-out nodes; `precision=0.9`, the largest recall of the positive class with that precision,
            or `recall=0.9`; a matrix of costs, of saying k (column) where the class is c (row); `auto`: what
            the metric asks for.
        calibrate: `"temperature"` rescales probabilities on held-out nodes; None leaves them as they are.
        features: the treatment of features: `standard`, `scaled`, `row`, `rank`, or `auto`, where validation
            chooses.
        inductive: whether nodes of other graphs will be predicted: leaves out models that know the nodes of
            `fit`, by the labels of their neighbours or by whom they are linked to.
        test_fraction: the share of the labelled nodes that is kept apart for `estimate_`; None keeps none.
        validation_fraction: the share of every class that is held out where `fit` gets no `val`; with few
            labels every node is, in so many folds as that makes.
        device: `cpu`, `cuda`, `cuda:N`, or `auto`.
        random_state: of the held-out nodes, the weights and the dropout: a seed, a NumPy RandomState to draw
            one from, or None for another one in every `fit`.
        verbose: 1 prints every candidate.
        maps: how a node sees a neighbour: `identity`, `diagonal`, `orthogonal`, `general`. If this or one of
            the following is given, one PolyNSD model with it is trained, and nothing else is tried.
        stalk_dim: d, the dimension of what is compared along an edge.
        degree: K, the number of hops of a layer; 0 does not look at neighbours at all.
        hidden_channels: width, per dimension of the stalk.
        num_layers: L.
        dropout: of the state.
        learning_rate: of Adam.
        weight_decay: L2 penalty.
        epochs: at most.

    Attributes:
        classes_: the classes, sorted.
        positive_: the positive one of two classes; None where there are more.
        candidates_: everything that was tried: family, name, score on held-out nodes, seconds, weight in the
            ensemble; the members of the ensemble first.
        val_score_: `metric_` of the ensemble on held-out nodes, out of fold.
        estimate_: the score on nodes that the choice has not seen, beside the majority class, features alone
            and a plain graph convolution.
        metric_: the metric in use.
        train_mask_: the nodes that train some model.
        val_mask_: the nodes that are held out from some model.
        test_mask_: the nodes that were kept apart for the estimate.
        temperature_: of the ensemble's probabilities; 1 if not calibrated.
        calibration_: the temperature, and where classes have weights the offsets that undo the rest of them.
        decision_: the rule that `predict` follows, with its `threshold` where there are two classes.
        seed_: the seed that was used.
    """

    def __init__(
        self,
        budget: Any = None,
        ensemble: Any = "auto",
        metric: str = "auto",
        positive: Any = None,
        class_weight: Any = None,
        decision: Any = "auto",
        calibrate: str | None = "temperature",
        features: str = "auto",
        inductive: bool = False,
        test_fraction: float | None = None,
        validation_fraction: float = 0.2,
        device: str = "auto",
        random_state: Any = 0,
        verbose: int = 0,
        maps: Any = "auto",
        stalk_dim: Any = "auto",
        degree: Any = "auto",
        hidden_channels: Any = "auto",
        num_layers: Any = "auto",
        dropout: Any = "auto",
        learning_rate: Any = "auto",
        weight_decay: Any = "auto",
        epochs: Any = "auto",
    ) -> None:
        super().__init__(
            budget=budget,
            ensemble=ensemble,
            features=features,
            inductive=inductive,
            test_fraction=test_fraction,
            validation_fraction=validation_fraction,
            device=device,
            random_state=random_state,
            verbose=verbose,
            maps=maps,
            stalk_dim=stalk_dim,
            degree=degree,
            hidden_channels=hidden_channels,
            num_layers=num_layers,
            dropout=dropout,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            epochs=epochs,
        )
        self.metric, self.positive, self.class_weight = metric, positive, class_weight
        self.decision, self.calibrate = decision, calibrate

    def predict(self, graph: Any = None, *, edges: Any = None) -> NDArray[Any]:
        """The class of every node that `decision_` says; of the graph of `fit` unless one is given."""
        probabilities = self.predict_proba(graph, edges=edges)
        return self.classes_[self.decision_.predict(probabilities)]

    def predict_proba(self, graph: Any = None, *, edges: Any = None) -> NDArray[np.float64]:
        """Probabilities `[N, C]`, in the order of `classes_`."""
        return self._rescale(self._predictions(graph, edges))

    score = SheafEstimator.score  # not the mixin's

    def _make_strata(self, labels: Labels) -> NDArray[Any]:
        require_choice("calibrate", str(self.calibrate), ("None", "temperature"))
        require_choice("metric", self.metric, ("auto", *CLASS_METRICS))
        self.classes_ = sort_classes(labels)
        if len(self.classes_) < 2:
            raise DataError(
                f"classification needs at least two classes; got 1 class, {self.classes_.tolist()[0]!r}. "
                "(A gap and, among whole numbers, −1 mean that there is no label.)"
            )
        self.positive_ = self._find_positive()
        self._check_class_weight()
        if isinstance(self.decision, str) and self.decision != "auto":
            parse_rule(self.decision, len(self.classes_))
        elif not isinstance(self.decision, str):
            check_costs(self.decision, len(self.classes_))
        return self._as_target(labels)

    def _find_positive(self) -> Any:
        """The positive class, as it was given or the last one; None with more than two classes."""
        classes, given = self.classes_.tolist(), as_python(self.positive)
        if given is not None and len(classes) != 2:
            raise ConfigError(f"positive needs two classes; there are {len(classes)}. Leave it out.")
        if given is not None and given not in classes:
            raise ConfigError(f"positive must be one of the classes {classes}, or None; got {given!r}.")
        return None if len(classes) != 2 else classes[-1] if given is None else given

    @property
    def temperature_(self) -> float:
        return self.calibration_.temperature

    @property
    def _positive_number(self) -> int:
        """The number of the positive class; 1 where there are more than two."""
        return 1 if self.positive_ is None else self.classes_.tolist().index(self.positive_)

    @property
    def _task(self) -> Task:
        return super()._task.of_class(self._positive_number)

    def _as_target(self, labels: Labels) -> NDArray[Any]:
        return encode_classes(labels, self.classes_)

    def _choose_metric(self, target: NDArray[Any], folds: Folds) -> str:
        if self.metric != "auto":
            return self.metric
        used = folds.used
        sizes = np.bincount(target[used], minlength=len(self.classes_))
        is_unequal = len(self.classes_) == 2 and sizes.min() / sizes.sum() < UNEQUAL
        has_both = len(np.unique(target[folds.judged])) == 2
        return "roc_auc" if is_unequal and has_both else "accuracy"

    def _node_weights(
        self, sample_weight: Any, target: NDArray[Any], folds: Folds
    ) -> NDArray[np.float64] | None:
        given = super()._node_weights(sample_weight, target, folds)
        self._log_weights: NDArray[np.float64] | None = None
        if self.class_weight is None:
            return given
        used = folds.used
        if isinstance(self.class_weight, str):  # balanced
            counts = np.maximum(np.bincount(target[used], minlength=len(self.classes_)), 1)
            by_class = counts.sum() / (len(counts) * counts)
        else:
            by_class = np.array([float(self.class_weight.get(c, 1.0)) for c in self.classes_.tolist()])
        self._log_weights = np.log(by_class)
        weights = np.where(used, by_class[np.maximum(target, 0)], 0.0) * (1.0 if given is None else given)
        return weights / weights[used].mean()

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
        wrong = {
            as_python(name): weight for name, weight in weights.items() if not 0 < float(weight) < np.inf
        }
        if wrong:
            raise ConfigError(f"a class weight must be a finite number above 0; got {wrong}.")

    def _guess(self, target: NDArray[Any], folds: Folds) -> NDArray[np.float64]:
        counts = np.bincount(target[folds.train.any(0)], minlength=len(self.classes_))
        return counts / counts.sum()

    def _decide(self, judged: NDArray[np.float64], y: NDArray[Any]) -> None:
        self.calibration_, self.decision_ = self._learn_decision(judged, y, warn=True)

    def _learn_decision(
        self, judged: NDArray[np.float64], y: NDArray[Any], warn: bool = False
    ) -> tuple[Calibration, Decision]:
        """The calibration of averaged probabilities and the best decision then, on nodes of classes y."""
        calibration = UNCALIBRATED
        if self.calibrate is not None:
            calibration = fit_calibration(np.log(np.maximum(judged, 1e-12)), y, self._log_weights)
        return calibration, self._learn_rule(calibration.rescale(judged), y, warn)

    def _learn_rule(self, p: NDArray[np.float64], y: NDArray[Any], warn: bool = False) -> Decision:
        """The decision that the parameters ask for, on nodes of probabilities `[n, C]` and classes y."""
        name = self._rule_name
        if name == BY_WEIGHT and self._log_weights is not None:
            return Decision(name, np.diag(np.exp(self._log_weights)), self._positive_number)
        rule = self.decision if name == "cost" else name
        return Decision.learn(p, y, rule, self._positive_number, warn)

    @property
    def _rule_name(self) -> str:
        """The rule of decisions that was given, or what the metric or the weights of classes ask for."""
        if not isinstance(self.decision, str):
            return "cost"
        if self.decision != "auto":
            return self.decision
        if self.metric_ in DECIDED:
            return self.metric_
        return "argmax" if self._log_weights is None else BY_WEIGHT

    def _make_judge(self, nodes: Mask, target: NDArray[Any]) -> Judge:
        """Candidates are compared by the decision that each would come to, where that is learned quickly."""
        name = self._rule_name
        is_slow = name == "f1" and len(self.classes_) > 2
        learn = None if is_slow or name == "argmax" or self.metric_ in OF_ORDER else self._learn_rule
        return Judge.of_nodes(nodes, target, self._task, self._log_weights, learn)

    def _answer(self, known: NDArray[np.float64], y: NDArray[Any], asked: NDArray[np.float64]) -> Answers:
        return self._answer_by(*self._learn_decision(known, y), asked)

    def _answer_by(
        self, calibration: Calibration, decision: Decision, predictions: NDArray[np.float64]
    ) -> Answers:
        """The metric sees the decided classes, or probabilities where their order counts."""
        p = calibration.rescale(predictions)
        classes = decision.predict(p)
        return Answers(p, predictions if self.metric_ in OF_ORDER else np.eye(p.shape[1])[classes], classes)

    def _rescale(self, predictions: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.calibration_.rescale(predictions)

    def _scored(self, predictions: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._answer_by(self.calibration_, self.decision_, predictions).scored
