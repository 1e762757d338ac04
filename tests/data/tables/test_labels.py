"""Classes under the owner's names, targets, and rows to predict."""

import numpy as np
import pandas as pd
import pytest

from polynsd.data.tables.labels import read_labels
from polynsd.data.tables.table import Table
from polynsd.errors import ConfigError, DataError


def labels(values, task="auto", is_text=False):
    table = Table("nodes", pd.DataFrame({"l": values}, dtype=object), frozenset("l" * is_text))
    return read_labels(table.column("l"), task)


@pytest.mark.parametrize(
    ("values", "is_text", "y", "names"),
    [
        (["b", "a", None], False, [1, 0, -1], ("a", "b")),
        ([10, 9, None], False, [1, 0, -1], ("9", "10")),
        ([1.0, 0.0, None], False, [1, 0, -1], ("0", "1")),
        ([True, None, False], False, [1, -1, 0], ("False", "True")),
        (["10", "9", ""], True, [1, 0, -1], ("9", "10")),
        (["007", "7", "NA"], True, [0, 0, -1], ("7",)),
        (["1.0", "2.0", "nan"], True, [0, 1, -1], ("1", "2")),
        (["none", "flu", "?"], True, [-1, 0, -1], ("flu",)),
        (["10", "2", "1", "01", "1.0", "-1", "1e1"], True, [2, 1, 0, 0, 0, -1, 2], ("1", "2", "10")),
        ([-1, 3, 5], False, [-1, 0, 1], ("3", "5")),
        ([-1.0, 3.0, None], False, [-1, 0, -1], ("3",)),
        ([2**60, 2**60 + 1, -1], False, [0, 1, -1], (str(2**60), str(2**60 + 1))),
        ([None, None], False, [-1, -1], ()),
        (["", ""], True, [-1, -1], ()),
    ],
)
def test_classes(values, is_text, y, names):
    read = labels(values, is_text=is_text)
    assert (read.task, read.y.tolist(), read.class_names) == ("classification", y, names)
    assert read.y.dtype == np.int64
    assert read.num_missing == y.count(-1)


@pytest.mark.parametrize(
    ("values", "task", "is_text"),
    [
        ([0.5, 2.0, None], "auto", False),
        (["0.5", "2", ""], "auto", True),
        ([1, 2, None], "regression", False),
        (["1", "2", "NA"], "regression", True),
    ],
)
def test_targets(values, task, is_text):
    read = labels(values, task, is_text)
    assert (read.task, read.class_names, read.num_missing) == ("regression", None, 1)
    assert read.y.dtype == np.float32
    assert np.isnan(read.y[2])


def test_fractions_may_be_classes_when_said():
    assert labels([0.5, 1.0], "classification").class_names == ("0.5", "1")


def test_what_cannot_be_decided_or_read():
    with pytest.raises(ConfigError, match=r"1001 different whole numbers.*task="):
        labels(list(range(1001)))
    with pytest.raises(DataError, match="targets must be numbers"):
        labels(["a"], "regression")
    for task in ("auto", "classification"):
        with pytest.raises(DataError, match="must be finite"):
            labels([1.5, float("inf")], task)
        with pytest.raises(DataError, match="must be finite"):
            labels(["1", "inf", "2"], task, is_text=True)
