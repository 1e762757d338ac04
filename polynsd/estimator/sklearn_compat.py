"""scikit-learn's base classes and checks where it is installed, and small stand-ins where it is not.

Also what its users pass as parameters: NumPy scalars and random states.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polynsd.errors import DataError, PolyNSDError, ShapeError, require_at_least, unknown_name

__all__ = ["BaseEstimator", "ClassifierMixin", "NotFittedError", "RegressorMixin"]

SEEDS = 2**31

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.exceptions import NotFittedError as _SklearnNotFitted
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import column_or_1d, validate_data

    HAS_SKLEARN = True
except ImportError:
    HAS_SKLEARN = False
    _SklearnNotFitted = ValueError

    class BaseEstimator:  # type: ignore[no-redef]
        """Parameters are the arguments of `__init__`."""

        @classmethod
        def _get_param_names(cls) -> list[str]:
            return sorted(name for name in inspect.signature(cls).parameters if name != "self")

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            return {name: getattr(self, name) for name in self._get_param_names()}

        def set_params(self, **params: Any) -> BaseEstimator:
            """Changes parameters; an unknown one is an error."""
            for name, value in params.items():
                if name not in self._get_param_names():
                    raise unknown_name("parameter", name, self._get_param_names())
                setattr(self, name, value)
            return self

        def __repr__(self) -> str:
            signature = inspect.signature(type(self)).parameters
            changed = {n: v for n, v in self.get_params().items() if v != signature[n].default}
            return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in changed.items())})"

    class ClassifierMixin:  # type: ignore[no-redef]
        """Stands in for the mixin of scikit-learn."""

    class RegressorMixin:  # type: ignore[no-redef]
        """Stands in for the mixin of scikit-learn."""


class NotFittedError(PolyNSDError, _SklearnNotFitted):  # type: ignore[misc]
    """`predict` and the like need a model that `fit` or `load` has made."""


def check_table(estimator: Any, X: Any, reset: bool) -> Any:
    """A plain table of numbers `[n, F]`, an array or a CSR matrix; sets or compares `n_features_in_`."""
    if HAS_SKLEARN:
        return validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype=np.float64)
    is_sparse = hasattr(X, "tocsr")
    table = X.tocsr().astype(np.float64) if is_sparse else np.asarray(X, dtype=np.float64)
    if table.ndim != 2 or 0 in table.shape:
        raise ShapeError(f"X must be a table of numbers [n, F] with rows and columns; got {table.shape}.")
    if not np.isfinite(table.data if is_sparse else table).all():
        raise DataError("X must be finite; it contains NaN or inf. Fill or drop such rows.")
    count_features(estimator, table.shape[1], reset)
    return table


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
    values = column_or_1d(y, warn=True) if HAS_SKLEARN else np.asarray(y).reshape(-1)
    is_finite = np.isfinite(values).all() if values.dtype.kind == "f" else True
    if not is_finite:
        raise DataError("Input y contains NaN or infinity; in a table without edges every row needs a label.")
    if is_regression:
        return np.asarray(values, dtype=np.float64)
    if HAS_SKLEARN:
        check_classification_targets(values)
    return values


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
