"""Labels of training nodes, spread along the edges, on their own or over what another model says.

    Z ← (1 − α) G + α P Z,        G = Y at training nodes, elsewhere the base model's predictions or nothing,

with P = D^−½ A D^−½. Where neighbours have the same class, what the neighbours *are* says more than their
features. To nodes that have a label, a fold spreads those of its own training nodes only, so held-out ones
are predicted honestly; to all others it spreads every label there is. The labels belong to the nodes of
`fit` (`nodes_of_fit.py`): where none is known the base model answers alone, and without one the prior.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor

from polynsd.estimator.folds import Folds
from polynsd.estimator.linear import score_out_of_fold
from polynsd.estimator.members import (
    Candidate,
    FitData,
    Fitted,
    Member,
    Outputs,
    State,
    StoredTensors,
    check_range,
)
from polynsd.fields import require_fields

if TYPE_CHECKING:
    from polynsd.estimator.inputs import Inputs

SHARES = (0.3, 0.6, 0.8, 0.9, 0.97)  # α, among which out-of-fold predictions choose
STEPS = 50
PRIOR = 1e-3  # how much of a label the guess without any counts as
BASE = "base."

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PropagationMember:
    """Labels `[N]` of all nodes of the folds, and `[R, N]` of their training nodes; elsewhere −1, or NaN."""

    name: str
    family: str
    share: float
    is_regression: bool
    known: NDArray[Any]
    labels: NDArray[Any]
    prior: Numbers  # [R, O]
    base: Member | None = None

    @property
    def parameters(self) -> Mapping[str, Any]:
        base = {} if self.base is None else {"base": self.base.name}
        return {"alpha": self.share, **base}

    @property
    def num_nodes(self) -> int:
        """Of `fit`, whose labels it knows."""
        return self.labels.shape[1]

    def outputs(self, inputs: Inputs) -> Outputs:
        return self.spread(inputs, None if self.base is None else self.base.outputs(inputs))

    def spread(self, inputs: Inputs, base: Outputs | None) -> Outputs:
        """The outputs over those of the base model; these alone where no label is known."""
        missing = np.nan if self.is_regression else -1
        known, labels = (inputs.carry_over(values, missing) for values in (self.known, self.labels))
        has_label = self._has_label(known)
        if base is not None and not has_label.any():
            return base
        return np.stack(
            [
                np.where(
                    has_label[:, None],
                    self._spread_labels(inputs, fold, labels[fold], base),
                    self._spread_labels(inputs, fold, known, base),
                )
                for fold in range(len(labels))
            ]
        )

    def _has_label(self, labels: NDArray[Any]) -> NDArray[np.bool_]:
        has_label: NDArray[np.bool_] = ~np.isnan(labels) if self.is_regression else labels >= 0
        return has_label

    def _spread_labels(
        self, inputs: Inputs, fold: int, labels: NDArray[Any], base: Outputs | None
    ) -> Numbers:
        is_known, prior = self._has_label(labels), self.prior[fold]
        given = np.zeros((len(labels), len(prior)))
        if base is not None:
            given = base[fold].copy() if self.is_regression else softmax(base[fold], axis=1)
        if self.is_regression:
            given[is_known, 0] = labels[is_known]
        else:
            given[is_known] = np.eye(len(prior))[labels[is_known]]
        mass = np.ones(len(labels)) if base is not None else is_known.astype(np.float64)
        spread = propagate(inputs.adjacency("symmetric"), np.column_stack([given, mass]), self.share)
        mean = (spread[:, :-1] + PRIOR * prior) / (spread[:, -1:] + PRIOR)
        return mean if self.is_regression else np.log(mean)

    def state(self) -> State:
        names = ("name", "family", "share", "is_regression")
        plain = {name: getattr(self, name) for name in names}
        tensors = {name: torch.from_numpy(getattr(self, name)) for name in ("known", "labels", "prior")}
        if self.base is None:
            return plain, tensors
        from polynsd.estimator.kinds import store_member

        plain["base"], parts = store_member(self.base)
        return plain, {**tensors, **{BASE + name: value for name, value in parts.items()}}

    @classmethod
    def restore(cls, data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> PropagationMember:
        from polynsd.estimator.kinds import restore_member

        plain, own, base = dict(data), dict(tensors), None
        if "base" in plain:
            parts = {name[len(BASE) :]: own.pop(name) for name in tensors if name.startswith(BASE)}
            base = restore_member(plain.pop("base"), parts)
        require_fields(plain, name=str, family=str, share=float, is_regression=bool)
        stored = StoredTensors(own)
        dtype = torch.float64 if plain["is_regression"] else torch.int64
        known, labels = stored.take("known", "N", dtype), stored.take("labels", "R N", dtype)
        prior = stored.take("prior", "R O")
        stored.require_none_left()
        if not plain["is_regression"]:
            for name, values in (("known", known), ("labels", labels)):
                check_range(name, values, -1, stored.size("O"))
        return cls(**plain, known=known.numpy(), labels=labels.numpy(), prior=prior.numpy(), base=base)

    def takes(self, columns: int, num_outputs: int) -> bool:
        has_base = self.base is None or self.base.takes(columns, num_outputs)
        return has_base and self.prior.shape[1] == num_outputs


@dataclass(frozen=True)
class PropagationCandidate:
    """Spreads labels, over the predictions of a base model if one is given.

    Args:
        name: for reports.
        family: `labels`.
        base: a candidate that is fitted first.
    """

    name: str
    family: str
    base: Candidate | None = None

    def fit(self, data: FitData) -> Fitted:
        is_regression, target = data.task.is_regression, data.target
        base, outputs = (None, None) if self.base is None else self.base.fit(data)
        missing = np.asarray(np.nan if is_regression else -1, dtype=target.dtype)
        known, labels = (np.where(nodes, target, missing) for nodes in (data.folds.used, data.folds.train))
        prior = _priors(data)
        tries = [
            PropagationMember(self.name, self.family, share, is_regression, known, labels, prior, base)
            for share in SHARES
        ]
        fitted = (Fitted(member, member.spread(data.inputs, outputs)) for member in tries)
        return max(fitted, key=lambda each: _score(each.outputs, data))


@dataclass(eq=False)
class FitOnce:
    """A candidate that is fitted to a graph once, although it stands in the list and below labels too."""

    candidate: Candidate
    done: tuple[Inputs, Folds, Fitted] | None = None

    @property
    def name(self) -> str:
        return self.candidate.name

    @property
    def family(self) -> str:
        return self.candidate.family

    def fit(self, data: FitData) -> Fitted:
        """What the last call returned, where that was for the same graph and folds."""
        if self.done is None or self.done[0] is not data.inputs or self.done[1] is not data.folds:
            self.done = data.inputs, data.folds, self.candidate.fit(data)
        return self.done[2]


def propagation_candidates(inputs: Inputs, bases: Sequence[Candidate]) -> list[PropagationCandidate]:
    """Labels over each of these models, and on their own, where there are edges."""
    if not inputs.graph.num_edges:
        return []
    over = [PropagationCandidate(f"labels over {base.name}", "labels", base) for base in bases]
    return [*over, PropagationCandidate("labels of neighbours", "labels")]


def propagate(p: Any, given: Numbers, share: float) -> Numbers:
    """`[N, O]` after so many steps that the rest is small."""
    spread = given
    for _ in range(STEPS):
        spread = (1 - share) * given + share * (p @ spread)
    return spread


def _priors(data: FitData) -> Numbers:
    """`[R, O]` what is predicted without any label near: the shares of the classes, or the mean."""
    known = [data.target[train] for train in data.folds.train]
    if data.task.is_regression:
        return np.array([[values.mean()] for values in known])
    sizes = np.stack([np.bincount(values, minlength=data.num_outputs) for values in known]) + 1.0
    return sizes / sizes.sum(1, keepdims=True)


def _score(outputs: Outputs, data: FitData) -> float:
    by_node = torch.from_numpy(outputs).transpose(0, 1)
    return score_out_of_fold(by_node, torch.from_numpy(data.target), data.folds, data.task)
