"""Linear models on features and on smoothed features [X, P X, P² X]: logistic and ridge regression.

All folds and a path of penalties, from large to small, are fitted together; each penalty begins where the
last one ended (`newton.py`). Out-of-fold predictions choose the penalty.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from polynsd.errors import DataError
from polynsd.estimator.calibration import fit_temperature, mean_loss
from polynsd.estimator.design import as_tensor, make_design, multiply_hops
from polynsd.estimator.features import SCALED, STANDARD
from polynsd.estimator.folds import Folds
from polynsd.estimator.judge import LOSS_SHARE
from polynsd.estimator.labels import Mask
from polynsd.estimator.members import FitData, Fitted, Outputs, State, StoredTensors
from polynsd.estimator.newton import (
    Models,
    cross_entropy,
    gradient_size,
    minimise,
    principal_axes,
    scale_models,
    squared_error,
    unscale_models,
    zero_models,
)
from polynsd.fields import require_fields
from polynsd.training import Task

if TYPE_CHECKING:
    from polynsd.estimator.inputs import Inputs

PENALTIES = tuple(10 ** (-step / 2) for step in range(2, 13))  # 0.1 … 1e-6, of scaled columns
HOPS = 2
PATIENCE = 2  # penalties without a better score after which smaller ones are not tried
LARGEST_LAST = 1.1e-3  # penalties down to this one are tried in any case
SAMPLE = 10_000  # nodes that say which penalties are tried on all, where there are more than twice as many


@dataclass(frozen=True, eq=False)
class LinearMember:
    """Weights `[R, (H + 1) F, O]` and intercepts `[R, O]` of treated features, in double precision."""

    name: str
    family: str
    treatment: str
    adjacency: str
    hops: int
    penalty: float
    weights: Tensor
    intercepts: Tensor

    @property
    def parameters(self) -> Mapping[str, Any]:
        smoothing = {"adjacency": self.adjacency, "hops": self.hops} if self.hops else {}
        return {"features": self.treatment, **smoothing, "penalty": self.penalty}

    def outputs(self, inputs: Inputs) -> Outputs:
        cpu, double = torch.device("cpu"), torch.float64
        x = as_tensor(inputs.features(self.treatment), cpu, double)
        p = as_tensor(inputs.adjacency(self.adjacency), cpu, double) if self.hops else None
        columns = self.weights.transpose(0, 1).flatten(1)
        logits = multiply_hops(x, p, columns, self.hops).reshape(x.shape[0], *self.intercepts.shape)
        return (logits + self.intercepts).transpose(0, 1).numpy()

    def state(self) -> State:
        plain = {
            name: getattr(self, name)
            for name in ("name", "family", "treatment", "adjacency", "hops", "penalty")
        }
        return plain, {"weights": self.weights, "intercepts": self.intercepts}

    @classmethod
    def restore(cls, data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> LinearMember:
        require_fields(
            data, **dict.fromkeys(("name", "family", "treatment", "adjacency"), str), hops=int, penalty=float
        )
        stored = StoredTensors(tensors)
        weights, intercepts = stored.take("weights", "R W O"), stored.take("intercepts", "R O")
        stored.require_none_left()
        if not 0 <= data["hops"] < max(stored.size("W"), 1) or stored.size("W") % (data["hops"] + 1):
            raise DataError(f"{data['hops']} hops have no weights of {stored.size('W')} columns")
        return cls(**data, weights=weights, intercepts=intercepts)

    def takes(self, columns: int, num_outputs: int) -> bool:
        width = self.weights.shape[1] / (self.hops + 1)
        return (width, self.intercepts.shape[1]) == (columns, num_outputs)


@dataclass(frozen=True)
class LinearCandidate:
    """A linear model on [X, P X, …, Pᴴ X].

    Args:
        name: for reports.
        family: `features`, `smoothed` or `links`.
        treatment: of the features.
        adjacency: P, `mean` or `symmetric`.
        hops: H; 0 looks at a node's own features only.
        device: where to fit.
    """

    name: str
    family: str
    treatment: str = "standard"
    adjacency: str = "mean"
    hops: int = 0
    device: str = "cpu"

    def fit(self, data: FitData) -> Fitted:
        rows, penalties, start = data.folds.used, PENALTIES, None
        if rows.sum() > 2 * SAMPLE:  # more nodes bear a smaller penalty, never a larger one
            start = self._fit_path(data, _draw_sample(data), PENALTIES)
            penalties = PENALTIES[PENALTIES.index(start.penalty) :]
        member = self._fit_path(data, rows, penalties, start)
        return Fitted(member, member.outputs(data.inputs))

    def _fit_path(
        self, data: FitData, rows: Mask, penalties: Sequence[float], start: LinearMember | None = None
    ) -> LinearMember:
        """The model of these nodes with the best of the penalties, which are tried from the first on."""
        inputs, task, device = data.inputs, data.task, torch.device(self.device)
        folds = Folds(data.folds.train[:, rows], data.folds.val[:, rows])
        p = inputs.adjacency(self.adjacency) if self.hops else None
        x = inputs.features(self.treatment)
        design = make_design(x, inputs.num_sparse, p, self.hops, rows, device, data.seed)
        y = torch.from_numpy(data.target[rows]).to(device)
        loss = squared_error(y) if task.is_regression else cross_entropy(y, data.num_outputs)
        shares = _training_shares(folds.train, None if data.weights is None else data.weights[rows])
        shares = shares.to(device)
        models = zero_models(design, len(y), len(folds), data.num_outputs)
        reference = gradient_size(design, loss, shares, models)
        axes = principal_axes(design)
        if start is not None:
            models = scale_models(start.weights.to(device), start.intercepts.to(device), design)
        best: tuple[float, float, Models] | None = None
        since = 0
        for penalty in penalties:
            models = minimise(design, loss, shares, penalty, models, reference, axes)
            score = score_out_of_fold(models.outputs, y, folds, task)
            since += 1
            if best is None or score > best[0]:
                best, since = (score, penalty, models), 0
            is_done = since >= PATIENCE and penalty <= LARGEST_LAST
            if is_done or (data.deadline is not None and time.monotonic() > data.deadline):
                break
        assert best is not None
        _, penalty, models = best
        named = (self.name, self.family, self.treatment, self.adjacency, self.hops, penalty)
        return LinearMember(*named, *unscale_models(models, design))


def linear_candidates(inputs: Inputs, device: str) -> list[LinearCandidate]:
    """Linear models on every treatment of the features, and where there are edges on smoothed ones."""
    is_sparse = sparse.issparse(inputs.features(STANDARD))
    names = [name for name in inputs.treatments.names if is_sparse or name != SCALED]  # scaled here anyway
    alone = [LinearCandidate(f"linear, {name}", "features", name, device=device) for name in names]
    if not inputs.graph.num_edges:
        return alone
    pairs = [(STANDARD, kind) for kind in ("mean", "symmetric")] + [(name, "mean") for name in names[1:]]
    smoothed = [
        LinearCandidate(f"linear, {kind}, {name}", "smoothed", name, kind, HOPS, device)
        for name, kind in pairs
    ]
    return alone + smoothed


def score_out_of_fold(outputs: Tensor, y: Tensor, folds: Folds, task: Task) -> float:
    """What a penalty is chosen by: the metric on held-out nodes, less a share of the calibrated loss."""
    mean = folds.out_of_fold(outputs.transpose(0, 1).double().cpu().numpy())[folds.judged]
    known = y.cpu()[torch.from_numpy(folds.judged)]
    everyone = torch.ones(1, len(known), dtype=torch.bool)
    metric = float(task.metrics(torch.from_numpy(mean)[None], known, everyone))
    if task.is_regression:
        return metric if metric == metric else -float(task.loss(torch.from_numpy(mean), known))
    loss = mean_loss(mean / fit_temperature(mean, known.numpy()), known.numpy())
    return (metric if metric == metric else 0.0) - LOSS_SHARE * loss


def _draw_sample(data: FitData) -> Mask:
    """`[N]` some of the nodes that judge and some of those that only train, half of the sample each."""
    rng, chosen = np.random.default_rng(data.seed), np.zeros(data.inputs.num_nodes, dtype=bool)
    counts = data.folds.used if data.weights is None else data.folds.used & (data.weights > 0)
    for part in (counts & data.folds.judged, counts & ~data.folds.judged):
        chosen[rng.permutation(np.flatnonzero(part))[: SAMPLE // 2]] = True
    return chosen


def _training_shares(train: NDArray[np.bool_], weights: NDArray[np.float64] | None) -> Tensor:
    """`[n, R]` weights of the training nodes, of sum 1 in every fold."""
    shares = train.T * (1.0 if weights is None else weights[:, None])
    return torch.from_numpy(shares / shares.sum(0)).float()
