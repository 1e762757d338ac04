"""What scikit-learn expects of an estimator: its errors, its checks, its kinds of parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn.exceptions
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from polynsd.errors import DataError, PolyNSDError, ShapeError, require_at_least

SEEDS = 2**31


class NotFittedError(PolyNSDError, sklearn.exceptions.NotFittedError):  # type: ignore[misc]
    """`predict` and the like need a model that `fit` or `load` has made."""


def check_table(estimator: Any, X: Any, reset: bool) -> Any:
    """A plain table of numbers `[n, F]`, an array or a CSR matrix; sets or compares `n_features_in_`."""
    return validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype=np.float64)


def count_features(estimator: Any, count: int, reset: bool) -> None:
    """Sets `n_features_in_`, or raises unless there are as many features as in `fit`."""
    if reset:
        estimator.n_features_in_ = count
    elif count != estimator.n_features_in_:
        raise ShapeError(
            f"X has {count} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input; give the columns it was fitted with."
        )


def check_table_labels(y: Any, is_regression: bool) -> NDArray[Any]:
    """The labels of a plain table, one for every row."""
    if y is None:
        raise DataError(
            "a table of features needs labels; requires y to be passed, but the target y is None."
        )
    values = column_or_1d(y, warn=True)
    has_gaps = values.dtype.kind == "O" and not all(map(is_given, values))
    if has_gaps or (values.dtype.kind == "f" and not np.isfinite(values).all()):
        raise DataError("Input y contains NaN or infinity; in a table without edges every row needs a label.")
    if is_regression:
        return np.asarray(values, dtype=np.float64)
    check_classification_targets(values)
    return values


def is_given(value: Any) -> bool:
    """Whether a label is one: not None, NaN or pandas' NA."""
    return value is not None and str(value) != "<NA>" and bool(value == value)


def as_python(value: Any) -> Any:
    """NumPy's scalars as Python's numbers; everything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def draw_seed(random_state: Any) -> int:
    """The seed that a parameter means: itself, one drawn from a RandomState, or a fresh one for None."""
    if random_state is None:
        return int(np.random.default_rng().integers(SEEDS))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(SEEDS, dtype=np.int64))
    require_at_least("random_state", random_state, 0)
    return int(random_state)
