"""`SheafRegressor`: a number per node."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from polynsd.errors import DataError
from polynsd.estimator.base import SheafEstimator
from polynsd.estimator.folds import Folds
from polynsd.estimator.inputs import Scaling
from polynsd.estimator.labels import Labels


class SheafRegressor(RegressorMixin, SheafEstimator):  # type: ignore[misc]
    """A number per node, of a graph whose neighbours may disagree.

    The parameters are those of `SheafClassifier`, without what belongs to classes. The metric is R²; the
    squared error is minimised on targets standardised by the labelled nodes.
    """

    is_regression = True

    def predict(self, graph: Any = None, *, edges: Any = None) -> NDArray[np.float64]:
        """The number of every node; of the graph of `fit` unless one is given."""
        return self._rescale(self._predictions(graph, edges))

    score = SheafEstimator.score  # not the mixin's

    def _make_strata(self, labels: Labels) -> NDArray[Any]:
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

    def _rescale(self, predictions: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.target_scaling_.undo(predictions[:, 0])

    def _guess(self, target: NDArray[Any], folds: Folds) -> NDArray[np.float64]:
        return target[folds.train.any(0)].mean(keepdims=True)
