"""Edge weights of a user's tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polynsd.data.tables.columns import Column, finite_float32
from polynsd.errors import DataError, GraphError


def weights(column: Column) -> NDArray[np.float32]:
    """A column of edge weights: every one a finite number that is not negative."""
    numbers = column.numbers()
    if numbers is None:
        raise DataError(f"{column.place}: weights must be numbers. Correct them or choose another column.")
    missing = int(np.isnan(numbers).sum())
    if missing:
        raise DataError(f"{column.place}: every edge needs a weight; {missing} have none. Fill them in.")
    return non_negative(finite_float32(numbers, column.place), column.place)


def non_negative(weight: NDArray[np.float32], place: str) -> NDArray[np.float32]:
    """The weights, unless one is negative."""
    if (weight < 0).any():
        raise GraphError(
            f"{place}: weights must not be negative, because the Laplacian would not be positive "
            f"semidefinite; got {float(weight.min())}. Shift them, or keep the sign as an edge feature."
        )
    return weight
