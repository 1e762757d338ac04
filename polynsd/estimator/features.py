"""Features of nodes as candidates see them: a few treatments, among which validation chooses.

A column is *sparse* if it is a flag (0 or 1), or zero on most nodes and negative on none (counts, TF-IDF, a
bag of words), or zero on almost all. It is never centred: zeros stay zeros. Every other one is *dense*.

    treatment    sparse columns                              dense columns
    "standard"   as they are                                 (x − mean) / deviation
    "scaled"     divided by their largest value              (x − mean) / deviation
    "row"        every row divided by its Euclidean length   (x − mean) / deviation
    "rank"       as they are                                 Φ⁻¹ of their rank: normally distributed

A sparse column whose largest value is above 100 or below 0.001 is divided by it in every treatment. A dense
column with values so far off that all others would look alike is taken by rank in every treatment. A constant
column says nothing and is left out. Nothing sparse is made dense.

Where there are many sparse columns, a bag of words, every treatment has one column more, the last one: the
logarithm of 1 + the number of sparse columns that are not 0 at a node, (x − mean) / deviation. The length of
a text tells much, and dividing rows by their length hides it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtri
from torch import Tensor

from polynsd.errors import DataError, ShapeError, require_choice
from polynsd.estimator.members import StoredTensors, check_range
from polynsd.fields import require_fields

logger = logging.getLogger("polynsd")

STANDARD, SCALED, ROW, RANK = TREATMENTS = ("standard", "scaled", "row", "rank")
MANY_WORDS = 100  # sparse columns from which on they are a bag of words
MOSTLY_ZERO, ALMOST_ZERO = 0.5, 0.05  # share of other entries: without negative ones, and with them
SMALLEST, LARGEST = 1e-3, 100.0  # sparse columns whose largest value lies between stay as they are
STORED_SPARSELY = 0.25  # share of entries up to which the result is a sparse matrix
QUANTILES = 256  # by which ranks are found
MIDDLE, ALIKE = 0.05, 0.01  # values between this quantile and its opposite lie within so few deviations
QUANTILE_ROWS = (500, 10_000)  # rows that they are taken from: fewer where there are many columns
BLOCK = 2**24  # entries of a dense matrix that are looked at in one go
ENOUGH_ROWS = 500  # fewer nodes tell less of the scale of a column than all of them
EQUAL_ROWS = 1.01  # rows whose lengths differ by less count as equal
ROUNDING = float(np.finfo(np.float32).eps)  # a column that varies by less is constant
ARRAYS = ("sparse", "dense", "largest", "mean", "deviation", "quantiles", "words")

Numbers = NDArray[np.float64]
Matrix = Any  # NDArray[np.float64] or scipy.sparse.csr_array, which has no types


@dataclass(frozen=True, eq=False)
class FeatureTreatments:
    """What is learned of the columns, once, to treat the features of any graph that has them.

    Args:
        width: the number of columns that are given.
        sparse: the numbers of the sparse columns that are kept.
        dense: those of the dense ones.
        largest: the largest absolute value of every sparse column.
        mean: of every dense column.
        deviation: of every dense column.
        quantiles: `[Q, dense]`, ascending.
        words: mean and deviation of the logarithm of the number of words; empty where words are not counted.
        names: the treatments that differ here, "standard" first.
        is_sparse: whether treated features are a sparse matrix.
    """

    width: int
    sparse: NDArray[np.int64]
    dense: NDArray[np.int64]
    largest: Numbers
    mean: Numbers
    deviation: Numbers
    quantiles: Numbers
    words: Numbers
    names: tuple[str, ...]
    is_sparse: bool

    @classmethod
    def learn(cls, x: Matrix, rows: NDArray[np.bool_] | None = None) -> FeatureTreatments:
        """Looks at the columns of x `[N, F]`, a finite array or sparse matrix.

        Args:
            x: the features of all nodes, labelled or not: many nodes show what kind a column is.
            rows: the nodes by which dense columns are scaled; all by default, and where these are few.
        """
        rows = None if rows is None or rows.sum() < ENOUGH_ROWS else rows
        columns = _describe_columns(x)
        kept_sparse, kept_dense = columns.kinds()
        mean, deviation, quantiles = _learn_scales(x, kept_dense, rows)
        treatments = cls(
            width=x.shape[1],
            sparse=kept_sparse,
            dense=kept_dense,
            largest=np.maximum(np.abs(columns.low), np.abs(columns.high))[kept_sparse],
            mean=mean,
            deviation=deviation,
            quantiles=quantiles,
            words=_learn_words(x, kept_sparse),
            names=(STANDARD,),
            is_sparse=_is_sparse(columns, kept_sparse, kept_dense),
        )
        return treatments._with_names(x, bool(columns.is_flag[kept_sparse].all()))

    @property
    def columns(self) -> NDArray[np.int64]:
        """The numbers of the given columns in the order of the treated ones: sparse ones first.

        The number of words, which is not among the given columns, has the number `width`.
        """
        return np.concatenate([self.sparse, self.dense, [self.width] * self.counts_words]).astype(np.int64)

    @property
    def counts_words(self) -> bool:
        """Whether the last column is the number of words."""
        return len(self.words) > 0

    @property
    def dropped(self) -> NDArray[np.int64]:
        """The numbers of the columns that are left out because they are constant."""
        return np.setdiff1d(np.arange(self.width), self.columns)

    def apply(self, x: Matrix, treatment: str = STANDARD) -> Matrix:
        """The treated features `[N, columns]` in double precision, a `csr_array` where that is smaller."""
        require_choice("treatment of features", treatment, TREATMENTS)
        if x.shape[1] != self.width:
            raise ShapeError(f"there must be {self.width} features, as in fit; got {x.shape[1]}.")
        flags = _select(x, self.sparse, self.is_sparse)
        numbers = self._treat_dense(_select(x, self.dense), treatment)
        if self.counts_words:
            mean, deviation = self.words
            numbers = np.hstack([numbers, (np.log1p(_count_words(flags)) - mean)[:, None] / deviation])
        flags = self._treat_sparse(flags, treatment)
        if not numbers.shape[1]:
            return flags
        if self.is_sparse:
            return sparse.csr_array(sparse.hstack([flags, sparse.csr_array(numbers)], format="csr"))
        return np.hstack([flags, numbers])

    def _treat_sparse(self, values: Matrix, treatment: str) -> Matrix:
        is_extreme = (self.largest > LARGEST) | (self.largest < SMALLEST)
        scale = np.where(is_extreme | (treatment == SCALED), self.largest, 1.0)
        if (scale != 1).any():
            values = _divide_columns(values, scale)
        return _divide_rows(values, _row_lengths(values)) if treatment == ROW else values

    def _treat_dense(self, values: Numbers, treatment: str) -> Numbers:
        by_rank = np.arange(values.shape[1]) if treatment == RANK else self._far_off()
        for j in by_rank:
            values[:, j] = _normal_ranks(values[:, j], self.quantiles[:, j])
        if len(by_rank) < values.shape[1]:
            mean, deviation = self.mean.copy(), self.deviation.copy()
            mean[by_rank], deviation[by_rank] = 0.0, 1.0  # ranks stay as they are
            values -= mean
            values /= deviation
        return values

    def _far_off(self) -> NDArray[np.int64]:
        """The dense columns in which a few values are so far off that all others would look alike."""
        last = len(self.quantiles) - 1
        low, high = (self.quantiles[round(share * last)] for share in (MIDDLE, 1 - MIDDLE))
        return np.flatnonzero((high > low) & (high - low < ALIKE * self.deviation))

    def _with_names(self, x: Matrix, only_flags: bool) -> FeatureTreatments:
        names = [STANDARD]
        if len(self.sparse):
            lengths = _row_lengths(self._treat_sparse(_select(x, self.sparse, self.is_sparse), STANDARD))
            lengths = lengths[lengths > 0]
            if not only_flags:
                names.append(SCALED)
            if len(self.sparse) > 1 and lengths.max() > EQUAL_ROWS * lengths.min():
                names.append(ROW)
        if len(self.dense):
            names.append(RANK)
        return replace(self, names=tuple(names))

    def log(self, feature_names: Sequence[str] | None = None) -> None:
        """Says which columns are left out."""
        dropped = self.dropped
        if len(dropped):
            first = [str(feature_names[i]) if feature_names else f"number {i}" for i in dropped[:5].tolist()]
            more = ", …" if len(dropped) > len(first) else ""
            logger.warning(
                "%d of %d features are constant and left out: %s%s.",
                len(dropped),
                self.width,
                ", ".join(first),
                more,
            )

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Plain data and tensors, from which `restore` makes the treatments again."""
        data = {"width": self.width, "names": list(self.names), "is_sparse": self.is_sparse}
        return data, {name: torch.from_numpy(np.ascontiguousarray(getattr(self, name))) for name in ARRAYS}

    @classmethod
    def restore(cls, data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> FeatureTreatments:
        """What `state` described."""
        require_fields(data, width=int, names=list[str], is_sparse=bool)
        stored = StoredTensors(tensors)
        columns = {"sparse": "A", "dense": "B"}
        scales = {"largest": "A", "mean": "B", "deviation": "B", "quantiles": "Q B", "words": "W"}
        arrays = {name: stored.take(name, shape, torch.int64) for name, shape in columns.items()}
        for name in columns:
            check_range(name, arrays[name], 0, data["width"])
        arrays |= {name: stored.take(name, shape) for name, shape in scales.items()}
        stored.require_none_left()
        if not stored.size("Q"):
            raise DataError("the tensor quantiles has no rows")
        if stored.size("W") not in (0, 2):
            raise DataError("the tensor words must hold a mean and a deviation, or nothing")
        numbers = {name: tensor.numpy() for name, tensor in arrays.items()}
        return cls(width=data["width"], names=tuple(data["names"]), is_sparse=data["is_sparse"], **numbers)


class _ColumnFacts(NamedTuple):
    """What is known of every column, over all N nodes."""

    num_nodes: int
    low: Numbers
    high: Numbers
    filled: NDArray[np.int64]  # entries that are not zero
    is_flag: NDArray[np.bool_]  # all entries are 0 or 1

    def kinds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The sparse columns and the dense ones that are not constant; one column if all are."""
        share = self.filled / max(self.num_nodes, 1)
        is_sparse = self.is_flag | ((self.low >= 0) & (share <= MOSTLY_ZERO)) | (share <= ALMOST_ZERO)
        largest = np.maximum(np.abs(self.low), np.abs(self.high))
        varies = self.high - self.low > np.where(is_sparse, 0.0, ROUNDING * largest)
        if not varies.any():
            is_sparse[:1] = varies[:1] = True
        return np.flatnonzero(is_sparse & varies), np.flatnonzero(~is_sparse & varies)


def _describe_columns(x: Matrix) -> _ColumnFacts:
    num_nodes, width = x.shape
    if sparse.issparse(x):
        entries = sparse.csr_array(x)
        is_other = (entries.data != 0) & (entries.data != 1)
        low, high = (np.ravel(f(axis=0).toarray()).astype(np.float64) for f in (entries.min, entries.max))
        filled = np.bincount(entries.indices[entries.data != 0], minlength=width)
        is_flag = np.bincount(entries.indices[is_other], minlength=width) == 0
        return _ColumnFacts(num_nodes, low, high, filled, is_flag)
    parts = [
        (
            block.min(0, initial=np.inf),
            block.max(0, initial=-np.inf),
            np.count_nonzero(block, 0),
            ((block == 0) | (block == 1)).all(0),
        )
        for block in _column_blocks(x)
    ]
    low, high, filled, is_flag = (np.concatenate(facts) for facts in zip(*parts, strict=True))
    return _ColumnFacts(num_nodes, low.astype(np.float64), high.astype(np.float64), filled, is_flag)


def _column_blocks(x: NDArray[Any]) -> list[NDArray[Any]]:
    step = max(BLOCK // max(len(x), 1), 1)
    return [x[:, start : start + step] for start in range(0, x.shape[1], step)]


def _is_sparse(columns: _ColumnFacts, kept_sparse: NDArray[np.int64], kept_dense: NDArray[np.int64]) -> bool:
    entries = int(columns.filled[kept_sparse].sum()) + len(kept_dense) * columns.num_nodes
    return entries <= STORED_SPARSELY * columns.num_nodes * (len(kept_sparse) + len(kept_dense))


def _select(x: Matrix, columns: NDArray[np.int64], keep_sparse: bool = False) -> Matrix:
    """A copy of these columns in double precision, an array unless it shall be sparse."""
    is_all = len(columns) == x.shape[1]
    if sparse.issparse(x):
        part = sparse.csr_array(x if is_all else x[:, columns], dtype=np.float64, copy=True)
        return part if keep_sparse else part.toarray()
    part = np.array(x if is_all else x[:, columns], dtype=np.float64)
    return sparse.csr_array(part) if keep_sparse else part


def _learn_scales(
    x: Matrix, columns: NDArray[np.int64], rows: NDArray[np.bool_] | None
) -> tuple[Numbers, Numbers, Numbers]:
    """Means, deviations and quantiles `[Q, columns]`, a block of columns at a time."""
    step = max(BLOCK // max(x.shape[0], 1), 1)
    most = int(np.clip(BLOCK // (len(columns) + 1), *QUANTILE_ROWS))
    blocks = [columns[start : start + step] for start in range(0, max(len(columns), 1), step)]
    facts = []
    for block in blocks:
        values = _select(x, block)
        facts.append((*_scales(values, rows), _quantiles(values if rows is None else values[rows], most)))
    mean, deviation, quantiles = (np.concatenate(parts, -1) for parts in zip(*facts, strict=True))
    return mean, deviation, quantiles


def _scales(values: Numbers, rows: NDArray[np.bool_] | None) -> tuple[Numbers, Numbers]:
    """Mean and deviation of columns that vary; where they do not on these rows, those of all."""
    mean, deviation = values.mean(0), values.std(0)
    if rows is None:
        return mean, deviation
    some = values[rows]
    some_mean, some_deviation = some.mean(0), some.std(0)
    varies = some_deviation > ROUNDING * np.abs(some_mean)
    return np.where(varies, some_mean, mean), np.where(varies, some_deviation, deviation)


def _normal_ranks(column: Numbers, steps: Numbers) -> Numbers:
    """Φ⁻¹ of the rank of every value among the quantiles."""
    column, share, margin = np.ascontiguousarray(column), np.linspace(0, 1, len(steps)), 0.5 / len(steps)
    rank = np.interp(column, steps, share)
    if (steps[1:] == steps[:-1]).any():  # equal values lie in the middle of their ranks
        rank = (rank - np.interp(-column, -steps[::-1], -share[::-1])) / 2
    ranks: Numbers = ndtri(np.clip(rank, margin, 1 - margin))
    return ranks


def _quantiles(values: Numbers, most: int) -> Numbers:
    sample = values[:: -(-len(values) // most) or 1]
    ordered = np.sort(np.ascontiguousarray(sample.T), axis=1)  # faster than np.quantile, which divides
    places = np.linspace(0, len(sample) - 1, min(QUANTILES, len(sample)))
    low, share = places.astype(np.int64), places % 1
    high = np.minimum(low + 1, len(sample) - 1)
    return (ordered[:, low] * (1 - share) + ordered[:, high] * share).T


def _learn_words(x: Matrix, columns: NDArray[np.int64]) -> Numbers:
    """Mean and deviation of the logarithm of the number of words; empty where they are few, or all alike."""
    if len(columns) < MANY_WORDS:
        return np.empty(0)
    counts = np.log1p(_count_words(_select(x, columns, keep_sparse=True)))
    return np.array([counts.mean(), counts.std()]) if counts.std() > ROUNDING else np.empty(0)


def _count_words(values: Matrix) -> Numbers:
    """`[N]` the number of entries of every row that are not zero."""
    return np.ravel((values != 0).sum(1)).astype(np.float64)


def _divide_columns(values: Matrix, scale: Numbers) -> Matrix:
    if not sparse.issparse(values):
        return values / scale
    values.data /= scale[values.indices]
    return values


def _row_lengths(values: Matrix) -> Numbers:
    if not sparse.issparse(values):
        return np.linalg.norm(values, axis=1)
    lengths: Numbers = np.sqrt(values.multiply(values).sum(1))
    return lengths


def _divide_rows(values: Matrix, lengths: Numbers) -> Matrix:
    lengths = np.where(lengths > 0, lengths, 1.0)
    if not sparse.issparse(values):
        return values / lengths[:, None]
    values.data /= np.repeat(lengths, np.diff(values.indptr))
    return values
