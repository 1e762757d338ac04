"""`SheafRegressor`: a number per node."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polynsd.errors import DataError
from polynsd.estimator.base import SheafEstimator
from polynsd.estimator.folds import Folds
from polynsd.estimator.inputs import Scaling
from polynsd.estimator.judge import Judge, NumberJudge
from polynsd.estimator.labels import Labels, Mask
from polynsd.estimator.sklearn_compat import RegressorMixin
from polynsd.training import Task, get_task


class SheafRegressor(RegressorMixin, SheafEstimator):  # type: ignore[misc]
    """A number per node, of a graph whose neighbours may disagree.

    The parameters are those of `SheafClassifier`, without what belongs to classes. The metric is R²; the
    squared error is minimised on targets standardised by the labelled nodes.
    """

    is_regression = True

    def predict(self, graph: Any = None, *, edges: Any = None) -> NDArray[np.float64]:
        """The number of every node; of the graph of `fit` unless one is given."""
        predictions = self._predictions(graph, edges)[:, 0]
        return self.target_scaling_.undo(predictions)

    score = SheafEstimator.score  # not the mixin's

    def _learn_classes(self, labels: Labels) -> NDArray[Any]:
        if labels.values.dtype.kind not in "iufb":
            raise DataError(
                f"targets must be numbers; got {labels.values.dtype}. Use SheafClassifier for classes."
            )
        targets = labels.values[labels.has_label].astype(np.float64)
        if not np.isfinite(targets).all():
            raise DataError("targets must be finite; some are infinite. Correct them.")
        # large and small targets on both sides, because R² needs targets that vary
        return np.where(labels.has_label, labels.values, targets.mean()) > targets.mean()

    def _learn_target(self, labels: Labels) -> None:
        used = self.train_mask_ | self.val_mask_
        self.target_scaling_ = Scaling.of(labels.values[used].astype(np.float64))

    def _as_target(self, labels: Labels) -> NDArray[Any]:
        values = np.where(labels.has_label, labels.values, np.nan).astype(np.float64)
        return self.target_scaling_.apply(values)

    def _choose_metric(self, target: NDArray[Any], folds: Folds) -> str:
        return "r2"

    def _task(self) -> Task:
        return get_task("r2")

    def _judge(self, target: NDArray[Any], nodes: Mask) -> Judge:
        return NumberJudge(np.flatnonzero(nodes), target[nodes])

    def _as_predictions(self, outputs: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
        return outputs

    def _guess(self, target: NDArray[Any], folds: Folds) -> NDArray[np.float64]:
        return target[folds.train.any(0)].mean(keepdims=True)
