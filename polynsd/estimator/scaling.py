"""Features and targets on a common scale, by what the training nodes say.

A column that is 0 or 1 on every training node (one-hot, a bag of words, a mark) stays as it is; any other
becomes (x − mean) / deviation. A constant column is only shifted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scaling:
    """x ↦ (x − mean) / scale, column by column."""

    mean: Numbers
    scale: Numbers

    @classmethod
    def none(cls, width: int) -> Scaling:
        """Leaves everything as it is."""
        return cls(np.zeros(width), np.ones(width))

    @classmethod
    def of(cls, values: Numbers) -> Scaling:
        """Of columns of numbers."""
        mean, deviation = values.mean(axis=0), values.std(axis=0)
        is_constant = deviation <= np.finfo(np.float32).eps * np.abs(mean)
        return cls(mean, np.where(is_constant, 1.0, deviation))

    @classmethod
    def of_features(cls, values: Numbers) -> Scaling:
        """Of columns of numbers and marks."""
        numbers, is_mark = cls.of(values), ((values == 0) | (values == 1)).all(axis=0)
        return cls(np.where(is_mark, 0.0, numbers.mean), np.where(is_mark, 1.0, numbers.scale))

    def apply(self, values: Numbers) -> Numbers:
        """To the common scale."""
        return (values - self.mean) / self.scale

    def undo(self, values: Numbers) -> Numbers:
        """Back from it."""
        return values * self.scale + self.mean
