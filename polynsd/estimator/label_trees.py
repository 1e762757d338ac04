"""Boosted trees that also see the labels of neighbours.

    one hop    P Y        two hops    P² Y − diag(P²) Y,        P = D⁻¹ A

Y has a row per node: the label of a training node of the fold, one-hot or a number, zero elsewhere; the
diagonal would tell a node its own. Both are divided by the share of neighbours whose label is known, with the
mean label as a little of a neighbour, and these shares are columns too. Trees learn what a neighbour's label
means, whereas spread labels (`propagation.py`) suppose that neighbours are alike.

The labels belong to the nodes of `fit` (`nodes_of_fit.py`): of others no label is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.errors import DataError
from polynsd.estimator.forest import Numbers
from polynsd.estimator.members import FitData, Fitted, Outputs, State, StoredTensors, check_range
from polynsd.estimator.trees import (
    COMPONENTS,
    HOPS,
    TreesMember,
    find_components,
    grow_forest,
    make_table,
    round_table,
)

if TYPE_CHECKING:
    from polynsd.estimator.inputs import Inputs

PRIOR = 0.1  # how much of a labelled neighbourhood the mean label counts as
TREES = "trees."


def add_labels(table: Numbers, inputs: Inputs, labels: Numbers) -> Numbers:
    """The table with the columns above, `[N, F + 2 (O + 1)]`.

    Args:
        table: `[N, F]`.
        inputs: the graph.
        labels: `[N, O]`; NaN in the row of a node whose label is not known.
    """
    p = inputs.adjacency("mean")
    is_known = ~np.isnan(labels[:, :1])
    mean = labels[is_known[:, 0]].mean(0) if is_known.any() else np.zeros(labels.shape[1])
    known = np.hstack([np.where(is_known, labels, 0.0), is_known])
    one = p @ known
    two = p @ one - np.ravel(p.multiply(p.T).sum(1))[:, None] * known  # Σ_u P_vu P_uv
    columns = [table]
    for near in (one, two):
        share = np.maximum(near[:, -1:], 0.0)  # −1e-17 is rounding
        columns += [(near[:, :-1] + PRIOR * mean) / (share + PRIOR), share]
    return round_table(np.hstack(columns))


def as_columns(labels: NDArray[Any], num_outputs: int) -> Numbers:
    """`[N, O]` numbers as they are, classes one-hot; NaN in the rows of nodes without a label."""
    if labels.dtype.kind == "f":
        return labels[:, None]
    return np.vstack([np.eye(num_outputs), np.full(num_outputs, np.nan)])[labels]


@dataclass(frozen=True, eq=False)
class LabelTreesMember:
    """Trees, and the labels `[R, N]` that every fold has seen: −1 (NaN among numbers) where there is none."""

    trees: TreesMember
    labels: NDArray[Any]

    @property
    def name(self) -> str:
        return self.trees.name

    @property
    def family(self) -> str:
        return self.trees.family

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self.trees.parameters

    @property
    def num_nodes(self) -> int:
        """Of `fit`, whose labels it knows."""
        return self.labels.shape[1]

    def outputs(self, inputs: Inputs) -> Outputs:
        return self.trees.predict(self.tables(inputs))

    def tables(self, inputs: Inputs) -> Iterable[Numbers]:
        """What the trees of every fold look at."""
        labels = inputs.carry_over(self.labels, np.nan if self.labels.dtype.kind == "f" else -1)
        table = make_table(inputs, self.trees.hops, self.trees.components)
        return make_tables(table, inputs, labels, self.trees.start.shape[1])

    def state(self) -> State:
        data, tensors = self.trees.state()
        prefixed = {TREES + name: value for name, value in tensors.items()}
        return data, {**prefixed, "labels": torch.from_numpy(self.labels)}

    @classmethod
    def restore(cls, data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> LabelTreesMember:
        parts = {name[len(TREES) :]: value for name, value in tensors.items() if name.startswith(TREES)}
        trees = TreesMember.restore(data, parts)
        stored = StoredTensors({name: v for name, v in tensors.items() if not name.startswith(TREES)})
        labels = stored.take("labels", "R N", torch.int64, torch.float64)
        stored.require_none_left()
        num_folds, num_outputs = trees.start.shape
        if stored.size("R") != num_folds or (labels.is_floating_point() and num_outputs > 1):
            raise DataError(f"the labels are not those of {num_folds} folds and {num_outputs} outputs")
        if not labels.is_floating_point():
            check_range("labels", labels, -1, num_outputs)
        return cls(trees, labels.numpy())

    def takes(self, columns: int, num_outputs: int) -> bool:
        return self.trees.takes(columns, num_outputs, further=2 * (num_outputs + 1))


@dataclass(frozen=True)
class LabelTreesCandidate:
    """Boosted trees on a table for every fold, with the labels of its training nodes."""

    name: str = "boosted trees, labels of neighbours"
    family: str = "labels"

    def fit(self, data: FitData) -> Fitted:
        inputs = data.inputs
        components = find_components(inputs, HOPS, COMPONENTS, data.seed)
        missing = np.asarray(np.nan if data.task.is_regression else -1, dtype=data.target.dtype)
        labels = np.where(data.folds.train, data.target, missing)
        table = make_table(inputs, HOPS, components)
        tables = make_tables(table, inputs, labels, data.num_outputs)
        forest, start, outputs = grow_forest(tables, data)
        trees = TreesMember(self.name, self.family, HOPS, forest, start, components)
        return Fitted(LabelTreesMember(trees, labels), outputs)


def make_tables(table: Numbers, inputs: Inputs, labels: NDArray[Any], num_outputs: int) -> Iterator[Numbers]:
    """The table of every fold in turn, with what its labels `[R, N]` add."""
    return (add_labels(table, inputs, as_columns(each, num_outputs)) for each in labels)


def label_trees(inputs: Inputs) -> list[LabelTreesCandidate]:
    """The candidate, where there are edges."""
    return [LabelTreesCandidate()] if inputs.graph.num_edges else []
