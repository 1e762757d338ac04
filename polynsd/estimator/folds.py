"""`Folds`: which labelled nodes train and which judge.

With many labels a part of every class is held out once. With few, one such part would be a handful of nodes:
then labelled nodes are held out in turn, and candidates are compared on the predictions that each node gets
from the models that have not seen it. Nodes of one group are held out together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from polynsd.data import Split
from polynsd.data.splits import number_groups, split_by_group
from polynsd.errors import ConfigError, DataError
from polynsd.estimator.labels import Mask, labelled_mask

FEW = 1000  # labelled nodes below which all folds are used
MANY = 4000  # labelled nodes from which on one hold-out is enough
SOME = 3  # folds that are used between the two, and in large graphs with few labels
LARGE = 10_000  # nodes of a graph in which every model costs time
TINY = 100  # labelled nodes below which the division into folds is repeated
REPEATS = 2
FEWEST_JUDGED = 2  # one half of them chooses, the other tells how good the choice is

Groups = NDArray[np.int64]  # [N] the number of every node's group; −1 is a group of its own


class HeldOut(Split):
    """Training and validation nodes, which may be the same, without a test set."""

    def __init__(self, train: Mask, val: Mask) -> None:
        for name, mask in (("train", train), ("val", val), ("test", np.zeros_like(val))):
            object.__setattr__(self, name, torch.from_numpy(mask.copy()))


@dataclass(frozen=True, eq=False)
class Folds:
    """Masks `[R, N]`: model r trains on `train[r]` and is judged on `val[r]`. Groups, if there are any."""

    train: Mask
    val: Mask
    groups: Groups | None = None

    @classmethod
    def one(cls, train: Mask, val: Mask) -> Folds:
        """A single hold-out."""
        return cls(train[None].copy(), val[None].copy())

    def __len__(self) -> int:
        return len(self.train)

    @property
    def judged(self) -> Mask:
        """`[N]` the nodes that are held out in some fold."""
        return np.asarray(self.val.any(0))

    @property
    def used(self) -> Mask:
        """`[N]` the nodes of all folds."""
        return np.asarray((self.train | self.val).any(0))

    def splits(self) -> Iterator[HeldOut]:
        """The folds one by one, as a training takes them."""
        return (HeldOut(train, val) for train, val in zip(self.train, self.val, strict=True))

    def out_of_fold(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """`[R, N, O]` → `[N, O]`: the mean over the folds that hold a node out; 0 where none does."""
        times = self.val.sum(0)
        kept = np.where(self.val[..., None], values, 0.0).sum(0)
        return kept / np.maximum(times, 1)[:, None]


class GivenNodes(NamedTuple):
    """What a caller of `fit` says of nodes: masks or numbers, and groups; None where nothing is said."""

    train: Any = None
    val: Any = None
    test: Any = None
    groups: Any = None


def divide_nodes(
    given: GivenNodes,
    has_label: Mask,
    strata: NDArray[Any],
    test_fraction: float | None,
    validation_fraction: float,
    seed: int,
) -> tuple[Folds, Mask]:
    """The folds, and the nodes that are kept for the estimate: those given, or `test_fraction` of all."""
    nodes = has_label.copy() if given.train is None else labelled_mask("train", given.train, has_label)
    val = None if given.val is None else labelled_mask("val", given.val, has_label)
    if val is not None and given.train is None:
        nodes &= ~val
    test = np.zeros_like(nodes) if given.test is None else labelled_mask("test", given.test, has_label)
    if test_fraction is not None and given.test is None:
        is_number = isinstance(test_fraction, int | float) and not isinstance(test_fraction, bool)
        if not is_number or not 0 < test_fraction < 1:
            raise ConfigError(f"test_fraction must lie between 0 and 1, or be None; got {test_fraction!r}.")
        test = hold_out(nodes, strata, float(test_fraction), seed + 1, given.groups)
    given_train = nodes if given.train is not None else None
    _require_disjoint(train=given_train, val=val, test=None if given.test is None else test)
    count = int(nodes.sum())
    nodes &= ~test
    if val is None:
        try:
            return make_folds(nodes, strata, validation_fraction, seed, given.groups), test
        except DataError as error:
            if not test.any() or given.test is not None:
                raise
            raise DataError(
                f"test_fraction={test_fraction} leaves {int(nodes.sum())} of {count} labelled nodes to train "
                "and choose on, too few for every class. Take a smaller share, or label more nodes."
            ) from error
    if not nodes.any() or val.sum() < FEWEST_JUDGED:
        counts = f"{int(nodes.sum())} and {int(val.sum())}"
        raise DataError(f"training needs a node and validation {FEWEST_JUDGED}; got {counts}.")
    return Folds.one(nodes, val), test


def _require_disjoint(**masks: Mask | None) -> None:
    given = [(name, mask) for name, mask in masks.items() if mask is not None]
    for (first, one), (second, two) in combinations(given, 2):
        shared = int((one & two).sum())
        if shared:
            raise DataError(f"{first} and {second} must be disjoint; they share {shared} nodes.")


def make_folds(
    labelled: Mask, strata: NDArray[Any], fraction: float, seed: int, groups: Groups | None = None
) -> Folds:
    """The folds of these nodes, alike in every stratum, or as nearly as whole groups allow.

    A stratum of one node trains in every fold, unless there are groups.
    """
    if not 0 < fraction < 1:
        raise ConfigError(f"validation_fraction must lie between 0 and 1; got {fraction!r}.")
    count, rng = int(labelled.sum()), np.random.default_rng(seed)
    most = _most_folds(count, len(labelled))
    if most == 1:
        val = hold_out(labelled, strata, fraction, seed, groups)
        return _checked(Folds.one(labelled & ~val, val), count)
    num_folds = max(2, round(1 / fraction))
    if groups is not None:
        val = _divide_groups(labelled, strata, groups, num_folds, rng)[:most]
    else:
        repeats = REPEATS if count < TINY else 1
        val = np.concatenate([_divide(labelled, strata, num_folds, rng)[:most] for _ in range(repeats)])
    val = val[val.any(1)]  # there may be fewer nodes than folds, or fewer groups
    return _checked(Folds(labelled & ~val, val), count)


def _most_folds(num_labels: int, num_nodes: int) -> int | None:
    """How many folds are used, None for all: a model costs time, and with many labels it gains little."""
    if num_labels < FEW:
        return None if num_nodes < LARGE else SOME
    return SOME if num_labels < MANY and num_nodes < LARGE else 1


def _checked(folds: Folds, count: int) -> Folds:
    is_complete = len(folds) and folds.train.any(1).all() and folds.val.any(1).all()
    if not is_complete or folds.judged.sum() < FEWEST_JUDGED:
        raise DataError(
            f"training needs a node, validation two, and a class two; got n_samples={count} labelled "
            "ones. Label more nodes, or name them in train and val."
        )
    return folds


def hold_out(
    nodes: Mask, strata: NDArray[Any], share: float, seed: int, groups: Groups | None = None
) -> Mask:
    """A share of every stratum, at least one of each that has two; or about that share in whole groups."""
    if groups is not None:
        return split_by_group(groups, nodes, share, seed)
    chosen, rng = np.zeros(len(nodes), dtype=bool), np.random.default_rng(seed)
    for members in _members(nodes, strata, rng):
        count = min(max(round(share * members.size), 1), members.size - 1)
        chosen[members[:count]] = True
    return chosen


def _divide(nodes: Mask, strata: NDArray[Any], num_folds: int, rng: np.random.Generator) -> Mask:
    """`[num_folds, N]` disjoint parts; strata follow each other, so that all parts are of nearly one size."""
    parts, place = np.zeros((num_folds, len(nodes)), dtype=bool), 0
    for members in _members(nodes, strata, rng):
        if members.size > 1:
            parts[(place + np.arange(members.size)) % num_folds, members] = True
            place += members.size
    return parts


def _divide_groups(
    nodes: Mask, strata: NDArray[Any], groups: Groups, num_folds: int, rng: np.random.Generator
) -> Mask:
    """`[num_folds, N]` disjoint parts of whole groups, the largest first, each where its strata are few."""
    rows, members = np.flatnonzero(nodes), number_groups(groups, nodes)
    kinds = np.unique(strata[rows], return_inverse=True)[1]
    counts = np.zeros((members.max() + 1, kinds.max() + 1))
    np.add.at(counts, (members, kinds), 1)
    shares = counts / counts.sum(0)  # of a stratum
    loads, part_of = np.zeros((num_folds, shares.shape[1])), np.zeros(len(counts), dtype=np.int64)
    order = rng.permutation(len(counts))
    for group in order[np.argsort(-counts.sum(1)[order], kind="stable")]:
        # Σ (load + share)² grows least; of equal ones the part that is smallest
        part = int(np.lexsort((loads.sum(1), loads @ shares[group]))[0])
        loads[part] += shares[group]
        part_of[group] = part
    parts = np.zeros((num_folds, len(nodes)), dtype=bool)
    parts[part_of[members], rows] = True
    return parts


def _members(nodes: Mask, strata: NDArray[Any], rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """The nodes of every stratum in random order."""
    for stratum in np.unique(strata[nodes]):
        yield rng.permutation(np.flatnonzero(nodes & (strata == stratum)))
