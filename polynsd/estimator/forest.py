"""Trees as arrays, which are stored and predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 2**22  # pairs of a node and a tree that are followed in one go

Numbers = NDArray[np.float64]


class Forest(NamedTuple):
    """Binary trees, node by node: a row goes left where its feature is at most the threshold."""

    feature: NDArray[np.int64]  # −1 in a leaf
    threshold: Numbers
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: Numbers
    root: NDArray[np.int64]  # [T] where a tree begins
    output: NDArray[np.int64]  # [T] the column of the outputs that a tree adds to

    def of_fold(self, fold: int, num_outputs: int) -> Forest:
        """The trees of one fold alone."""
        is_its = self.output // num_outputs == fold
        return self._replace(root=self.root[is_its], output=self.output[is_its] - fold * num_outputs)

    def predict(self, table: Numbers, num_outputs: int) -> Numbers:
        """`[N, columns]` → `[N, num_outputs]`, the sum over the trees."""
        total, count = np.zeros((len(table), num_outputs)), max(BLOCK // max(len(table), 1), 1)
        for start in range(0, len(self.root), count):
            root, output = self.root[start : start + count], self.output[start : start + count]
            leaf = self._find_leaves(table, root).reshape(len(root), len(table))
            for column, values in zip(output, self.value[leaf], strict=True):
                total[:, column] += values
        return total

    def _find_leaves(self, table: Numbers, root: NDArray[np.int64]) -> NDArray[np.int64]:
        """For every tree and row, tree by tree, the leaf that the row ends in."""
        place = np.repeat(root, len(table))
        moving = np.flatnonzero(self.feature[place] >= 0)
        while len(moving):
            here = place[moving]
            goes_left = table[moving % len(table), self.feature[here]] <= self.threshold[here]
            there = np.where(goes_left, self.left[here], self.right[here])
            place[moving] = there
            moving = moving[self.feature[there] >= 0]
        return place


_NO_PLACES: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
EMPTY = Forest(_NO_PLACES, np.zeros(0), _NO_PLACES, _NO_PLACES, np.zeros(0), _NO_PLACES, _NO_PLACES)


def join_forests(forests: Sequence[Forest], num_outputs: int) -> Forest:
    """All forests in one; the outputs of the r-th begin at r · O."""
    sizes = np.array([len(forest.feature) for forest in forests])
    moved = [
        forest._replace(
            left=forest.left + offset,
            right=forest.right + offset,
            root=forest.root + offset,
            output=forest.output + fold * num_outputs,
        )
        for fold, (forest, offset) in enumerate(zip(forests, np.cumsum(sizes) - sizes, strict=True))
    ]
    return Forest(*(np.concatenate(parts) for parts in zip(*moved, strict=True)))
