"""scikit-learn is not needed: small stand-ins take its place."""

import importlib.util
import sys

import numpy as np
import pytest

from polynsd import ConfigError, DataError, ShapeError
from polynsd.estimator import sklearn_compat


@pytest.fixture
def plain(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    spec = importlib.util.spec_from_file_location("without_sklearn", sklearn_compat.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not module.HAS_SKLEARN
    return module


@pytest.fixture
def estimator(plain):
    class Toy(plain.ClassifierMixin, plain.BaseEstimator):
        def __init__(self, width=3, rate="auto"):
            self.width, self.rate = width, rate

    return Toy


def test_parameters_are_read_changed_and_printed(estimator):
    toy = estimator(width=5)
    assert toy.get_params() == {"width": 5, "rate": "auto"}
    assert estimator(**toy.get_params()).get_params() == toy.get_params()
    assert toy.set_params(rate=2).rate == 2
    assert repr(toy) == "Toy(rate=2, width=5)"
    with pytest.raises(ConfigError, match="Did you mean 'width'"):
        toy.set_params(widht=1)


def test_tables_are_checked(plain, estimator):
    toy = estimator()
    assert plain.check_table(toy, [[1, 2], [3, 4]], reset=True).dtype == np.float64
    assert toy.n_features_in_ == 2
    with pytest.raises(ShapeError, match="expecting 2 features"):
        plain.check_table(toy, [[1, 2, 3]], reset=False)
    with pytest.raises(ShapeError, match="table of numbers"):
        plain.check_table(toy, [1, 2], reset=True)
    with pytest.raises(DataError, match="finite"):
        plain.check_table(toy, [[np.nan]], reset=True)


def test_labels_are_checked(plain):
    assert plain.check_table_labels(["a", "b"], False).tolist() == ["a", "b"]
    assert plain.check_table_labels([1, 2], True).dtype == np.float64
    with pytest.raises(DataError, match="every row needs a label"):
        plain.check_table_labels([1.0, np.inf], True)
    with pytest.raises(DataError, match="needs labels"):
        plain.check_table_labels(None, True)


def test_not_fitted_is_an_error_of_both_kinds(plain):
    assert issubclass(plain.NotFittedError, ValueError)
