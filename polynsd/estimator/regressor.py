"""`SheafRegressor`: a number per node."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.errors import DataError
from polynsd.estimator.base import SheafEstimator
from polynsd.estimator.inputs import Scaling
from polynsd.estimator.labels import Labels
from polynsd.estimator.sklearn_compat import RegressorMixin
from polynsd.training import Task, get_task


class SheafRegressor(RegressorMixin, SheafEstimator):  # type: ignore[misc]
    """A number per node, of a graph whose neighbours may disagree.

    The parameters are those of `SheafClassifier`, without what belongs to classes. The metric is R²; the
    squared error is minimised on targets standardised by the training nodes.
    """

    is_regression = True

    def predict(self, graph: Any = None, *, edges: Any = None) -> NDArray[np.float64]:
        """The number of every node; of the graph of `fit` unless one is given."""
        outputs = self._outputs(graph, edges)[:, 0]
        return self.target_scaling_.undo(outputs)

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

    def _as_target(self, labels: Labels) -> Tensor:
        values = np.where(labels.has_label, labels.values, self.target_scaling_.mean).astype(np.float64)
        return torch.from_numpy(self.target_scaling_.apply(values)).float()[:, None]

    def _choose_metric(self, target: Tensor) -> str:
        return "r2"

    def _task(self, target: Tensor) -> Task:
        return get_task(self.metric_)

    def _num_outputs(self) -> int:
        return 1

    def _learn_scaling(self, source: Any) -> None:
        super()._learn_scaling(source)
        self.target_scaling_ = Scaling.of(self._labels.values[self.train_mask_].astype(np.float64))
