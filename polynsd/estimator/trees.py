"""Boosted trees on features and on those of neighbours (`boosting.py`).

The table is X alone, or with hops [X, P X, P² X, S, P S, P² S]: S is what the graph looks like around a node
(`structure.py`). Trees look at one column at a time, and none of a bag of words tells much, so X is replaced
by leading principal components where it is wide: a few where neighbours are looked at too, many alone. Its
dense columns stay, among them the number of words.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import block_diag
from torch import Tensor

from polynsd.errors import DataError
from polynsd.estimator.boosting import COLUMN_SHARE, Boosting, boost
from polynsd.estimator.features import STANDARD, Numbers
from polynsd.estimator.folds import LARGE
from polynsd.estimator.forest import EMPTY, Forest, join_forests
from polynsd.estimator.members import FitData, Fitted, Outputs, State, StoredTensors, check_range
from polynsd.estimator.structure import COLUMNS
from polynsd.fields import require_fields

if TYPE_CHECKING:
    from polynsd.estimator.inputs import Inputs

HOPS, MOST_HOPS = 2, 3  # of the first and of the second forest that look at neighbours
MOST_COLUMNS = 400  # of the table; wider features are replaced by components
COMPONENTS, MORE_COMPONENTS, MANY_COMPONENTS = 32, 128, 256  # of these two, and of features alone
POWERS = 4  # steps of the iteration that finds them
DECIMALS = 10  # of the table
RATE = 0.05
MOST_STEPS = 600  # of boosting
FEWEST_STEPS = 100  # in all where steps are dear, each as large as six
WORK = 2.5e9  # rows × columns that splits look at × trees of a forest at most: under a minute of one core
LEAF, SMALLEST_LEAF = 20, 3  # rows in a leaf at least: with many training nodes, and with few


@dataclass(frozen=True, eq=False)
class TreesMember:
    """The forests of all folds in one, whose tree t belongs to output `fold · O + class`."""

    name: str
    family: str
    hops: int
    forest: Forest
    start: Numbers  # [R, O] what trees add to
    components: Numbers | None = None  # [F, C] of the features, where these are too many

    @property
    def parameters(self) -> Mapping[str, Any]:
        components = {} if self.components is None else {"components": self.components.shape[1]}
        return {"hops": self.hops, **components, "trees": len(self.forest.root)}

    def outputs(self, inputs: Inputs) -> Outputs:
        return self.predict(self.tables(inputs))

    def tables(self, inputs: Inputs) -> Iterable[Numbers]:
        """What the trees of every fold look at."""
        return [make_table(inputs, self.hops, self.components)] * len(self.start)

    def predict(self, tables: Iterable[Numbers]) -> Outputs:
        """`[R, N, O]` from a table for every fold."""
        num_outputs = self.start.shape[1]
        return np.stack(
            [
                self.forest.of_fold(fold, num_outputs).predict(table, num_outputs) + start
                for fold, (table, start) in enumerate(zip(tables, self.start, strict=True))
            ]
        )

    def state(self) -> State:
        arrays = {**self.forest._asdict(), "start": self.start}
        arrays |= {} if self.components is None else {"components": self.components}
        plain = {name: getattr(self, name) for name in ("name", "family", "hops")}
        return plain, {
            name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in arrays.items()
        }

    @classmethod
    def restore(cls, data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> TreesMember:
        require_fields(data, name=str, family=str, hops=int)
        if not 0 <= data["hops"] <= MOST_HOPS:
            raise DataError(f"trees look at most {MOST_HOPS} hops far; got {data['hops']}")
        stored, whole = StoredTensors(tensors), torch.int64
        arrays = {name: stored.take(name, "M", whole) for name in ("feature", "left", "right")}
        arrays |= {name: stored.take(name, "M") for name in ("threshold", "value")}
        arrays |= {name: stored.take(name, "T", whole) for name in ("root", "output")}
        start = stored.take("start", "R O")
        components = stored.take("components", "F C").numpy() if "components" in tensors else None
        stored.require_none_left()
        check_range("root", arrays["root"], 0, stored.size("M"))
        check_range("output", arrays["output"], 0, start.numel())
        is_inner = arrays["feature"] >= 0
        for name in ("left", "right"):  # a child comes after its parent, so that every way ends
            child = arrays[name][is_inner]
            check_range(name, child, 0, stored.size("M"))
            if (child <= torch.arange(len(is_inner))[is_inner]).any():
                raise DataError(f"the tensor {name} leads back")
        forest = Forest(**{name: tensor.numpy() for name, tensor in arrays.items()})
        return cls(**data, forest=forest, start=start.numpy(), components=components)

    def takes(self, columns: int, num_outputs: int, further: int = 0) -> bool:
        """See `Member`; `further` columns stand at the end of its table."""
        given, width = (columns, columns) if self.components is None else self.components.shape
        most = (self.hops + 1) * (width + (len(COLUMNS) if self.hops else 0)) + further
        is_inside = int(self.forest.feature.max(initial=0)) < most
        return is_inside and (given, self.start.shape[1]) == (columns, num_outputs)


@dataclass(frozen=True)
class TreesCandidate:
    """Boosted trees on the table above, with as many as the validation nodes of a fold favour.

    Args:
        name: for reports.
        family: `features` or `trees`.
        hops: H; 0 looks at a node's own features only.
        num_components: by which features are replaced that are too many.
    """

    name: str
    family: str
    hops: int = 0
    num_components: int = COMPONENTS

    def fit(self, data: FitData) -> Fitted:
        components = find_components(data.inputs, self.hops, self.num_components, data.seed)
        table = make_table(data.inputs, self.hops, components)
        forest, start, outputs = grow_forest([table] * len(data.folds), data)
        return Fitted(TreesMember(self.name, self.family, self.hops, forest, start, components), outputs)


def grow_forest(tables: Iterable[Numbers], data: FitData) -> tuple[Forest, Numbers, Outputs]:
    """The forests of all folds in one, `[R, O]` what they add to, and their outputs `[R, N, O]`."""
    grown: list[tuple[Forest, Numbers, Numbers]] = []
    for table, train, val in zip(tables, data.folds.train, data.folds.val, strict=True):
        deadline = data.deadline
        if deadline is not None:
            now = time.monotonic()
            deadline = now + (deadline - now) / (len(data.folds) - len(grown))
        grown.append(_Fold(table, data, train, val).grow(deadline))
    forests, starts, outputs = zip(*grown, strict=True)
    return join_forests(forests, data.num_outputs), np.stack(starts), np.stack(outputs)


def trees_candidates(inputs: Inputs) -> list[TreesCandidate]:
    """Boosted trees on features alone and on those of neighbours."""
    alone = TreesCandidate("boosted trees", "features", num_components=MANY_COMPONENTS)
    return [alone, *(forests("boosted trees, mean", "trees", inputs) if inputs.graph.num_edges else ())]


def forests(name: str, family: str, inputs: Inputs) -> list[TreesCandidate]:
    """Two that look at neighbours.

    The second is little better than the first alone, but unlike it: on seven graphs, two splits and 20 or
    80 % of labels, the mean of both was on average 1.1 points above the first on test nodes (citeseer 0.2,
    tolokers 0.3, squirrel 2.1, and 2.3 with links). In a large graph more components would cost minutes.
    """
    further, more = f"{name}, {MOST_HOPS} hops", COMPONENTS if inputs.num_nodes >= LARGE else MORE_COMPONENTS
    return [TreesCandidate(name, family, HOPS), TreesCandidate(further, family, MOST_HOPS, more)]


def is_wide(inputs: Inputs, hops: int) -> bool:
    """Whether there are too many features for a table."""
    return (hops + 1) * inputs.features(STANDARD).shape[1] > MOST_COLUMNS


def find_components(inputs: Inputs, hops: int, most: int, seed: int) -> Numbers | None:
    """`[F, C]` what replaces features too wide for a table; None of others.

    The leading right singular vectors of the sparse columns, at most so many, beside dense columns as they
    are; the vectors of all columns where the dense ones alone are too many.
    """
    if not is_wide(inputs, hops):
        return None
    from sklearn.utils.extmath import randomized_svd

    x, num_sparse = inputs.features(STANDARD), inputs.num_sparse
    num_dense = x.shape[1] - num_sparse
    if not num_sparse or (hops + 1) * num_dense > MOST_COLUMNS:
        num_sparse, num_dense = x.shape[1], 0
    x = sparse.csr_matrix(x) if sparse.issparse(x) else x
    x = x[:, :num_sparse]
    _, _, vectors = randomized_svd(x, min(most, *x.shape), n_iter=POWERS, random_state=seed)
    components: Numbers = block_diag(vectors.T, np.eye(num_dense))
    return np.ascontiguousarray(components, dtype=np.float64)


def make_table(inputs: Inputs, hops: int, components: Numbers | None) -> Numbers:
    """[X, P X, …, Pᴴ X, S, P S, …, Pᴴ S], X alone without hops; X is replaced by its components if given."""
    x = inputs.features(STANDARD)
    if components is not None:
        x = x @ components
    blocks = [x.toarray() if sparse.issparse(x) else x]
    if hops:
        blocks.append(inputs.structure)
    p = inputs.adjacency("mean") if hops else None
    columns = []
    for block in blocks:
        columns.append(block)
        for _ in range(hops):
            columns.append(p @ columns[-1])
    return round_table(np.concatenate(columns, 1))


def round_table(table: Numbers) -> Numbers:
    """Rounded, so that no threshold lies between sums that differ by the order of their terms alone."""
    return np.round(table, DECIMALS, out=table)


class _Fold(NamedTuple):
    """What one model is fitted to and judged by."""

    table: Numbers
    data: FitData
    train: NDArray[np.bool_]
    val: NDArray[np.bool_]

    def grow(self, deadline: float | None) -> tuple[Forest, Numbers, Numbers]:
        """As many trees as are best on the validation nodes, what they add to `[O]`, and outputs `[N, O]`."""
        rows, steps = self._limit_work()
        data = self.data
        y, is_regression = data.target[rows], data.task.is_regression
        classes = np.zeros(1, dtype=np.int64) if is_regression else np.unique(y)
        # a class that the fold does not have is less likely than those that it has, by a factor of about 2n
        start = np.full(data.num_outputs, -np.log(2 * len(y)))
        start[classes] = 0.0
        outputs = np.repeat(start[None], len(self.table), 0)
        if len(classes) == 1 and not is_regression:
            return EMPTY, start, outputs
        columns = classes[1:] if len(classes) == 2 else classes  # of two classes, one has trees
        rules = Boosting(
            rate=RATE * MOST_STEPS / steps,
            steps=steps,
            leaf=min(LEAF, max(SMALLEST_LEAF, len(y) // LEAF)),
            seed=data.seed,
        )
        boosted = boost(
            self.table,
            y if is_regression else np.searchsorted(classes, y),
            rows,
            self._judge(start, columns),
            rules,
            None if data.weights is None else data.weights[rows],
            self._device,
            deadline,
        )
        outputs[:, columns] += boosted.outputs
        start[columns] += boosted.start
        return boosted.forest._replace(output=columns[boosted.forest.output]), start, outputs

    @property
    def _device(self) -> torch.device:
        """Where trees grow: MPS has no double precision."""
        device = self.data.inputs.device
        return torch.device("cpu") if device.type == "mps" else device

    def _judge(self, start: Numbers, columns: NDArray[np.int64]) -> Callable[[Tensor], Tensor]:
        """The loss on validation nodes of what trees give to some columns of the outputs."""
        device, task = self._device, self.data.task
        nodes = torch.from_numpy(np.flatnonzero(self.val)).to(device)
        y = torch.from_numpy(self.data.target).to(device)[nodes]
        base = torch.from_numpy(start).to(device).expand(len(nodes), -1)
        place = torch.from_numpy(columns).to(device)

        def judge(outputs: Tensor) -> Tensor:
            return task.loss(base.index_add(1, place, outputs[nodes]), y)

        return judge

    def _limit_work(self) -> tuple[NDArray[np.int64], int]:
        """The training nodes and the number of steps: fewer, larger steps first, then a sample of nodes."""
        rows = np.flatnonzero(self.train)
        columns = max(self.table.shape[1] * COLUMN_SHARE, 1.0)
        of_a_row = columns * (self.data.num_outputs if self.data.num_outputs > 2 else 1)
        steps = int(np.clip(WORK / (len(rows) * of_a_row), FEWEST_STEPS, MOST_STEPS))
        most = int(WORK / (FEWEST_STEPS * of_a_row))
        if len(rows) > most:
            rows = np.sort(np.random.default_rng(self.data.seed).permutation(rows)[:most])
        return rows, steps
