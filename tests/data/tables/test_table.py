"""Columns as numbers and as categories, typed and untyped."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from polynsd.data.tables.table import Table
from polynsd.errors import ConfigError, DataError
from polynsd.optional import load_table_package


def text(*values):
    return Table("t", pd.DataFrame({"c": values}, dtype="string"), frozenset("c")).column("c")


def typed(values):
    values = pd.Series(pd.arrays.ArrowExtensionArray(values)) if isinstance(values, pa.Array) else values
    values = pd.Series(values, dtype=object) if isinstance(values, list) else values
    return Table("t", pd.DataFrame({"c": values})).column("c")


def categories(column):
    codes, names = column.categories
    return codes.tolist(), names


def test_text_is_numbers_only_if_all_of_it_is():
    np.testing.assert_array_equal(text("1", "-2.5", "1e3", "", "NA", "NaN").numbers[:3], [1, -2.5, 1000])
    assert np.isnan(text("1", "", "NA", "null", "<NA>").numbers[1:]).all()
    assert text("1", "two").numbers is None
    assert np.isnan(text("None", "?", "NONE").numbers).all()


def test_typed_text_is_no_number():
    assert typed(["1", "2"]).numbers is None
    assert typed([True, False]).numbers is None


@pytest.mark.parametrize(
    "values",
    [[1, None, 3], [1.0, None, 3.0], pd.array([1, None, 3], "Int64"), pa.array([1, None, 3], pa.uint8())],
)
def test_typed_numbers(values):
    np.testing.assert_array_equal(typed(values).numbers, [1, np.nan, 3])


def test_typed_dates_are_days():
    dates = [pd.Timestamp("1970-01-02 12:00"), None, pd.Timestamp("1969-12-31")]
    np.testing.assert_array_equal(typed(pd.Series(dates)).numbers, [1.5, np.nan, -1])
    assert typed(pa.array([3], pa.date32())).numbers.tolist() == [3]
    assert typed(pd.Series(pd.to_timedelta(["36h"]))).numbers.tolist() == [1.5]
    assert typed(pa.array([3], pa.date32())).is_date


def test_categories_are_sorted_under_their_own_names():
    assert categories(text("b", "a", "", "b")) == ([1, 0, -1, 1], ("a", "b"))
    assert categories(text("10", "9", "007")) == ([2, 1, 0], ("007", "9", "10"))
    assert categories(typed(["10", "9"])) == ([1, 0], ("9", "10"))
    assert categories(typed([True, False, None])) == ([1, 0, -1], ("False", "True"))
    assert categories(typed([3.0, float("nan"), 1.0, 0.5])) == ([2, -1, 1, 0], ("0.5", "1", "3"))
    assert categories(typed(["x", None])) == ([0, -1], ("x",))


def test_marks_of_missing_values_in_typed_text():
    marked = ["x", "", " ", "NA", "none", "?", "null"]
    assert categories(typed(marked)) == ([0, *[-1] * 6], ("x",))
    assert categories(typed(pd.Series(marked, dtype="string"))) == ([0, *[-1] * 6], ("x",))


def test_only_ordered_categoricals_keep_their_order():
    values, order = ["low", "high", None, "low"], ["low", "mid", "high"]
    assert categories(typed(pd.Categorical(values, order, ordered=True)))[1] == ("low", "high")
    assert categories(typed(pd.Categorical(values, order)))[1] == ("high", "low")
    assert categories(typed(pa.array(values).dictionary_encode()))[0] == [1, 0, -1, 1]


@pytest.mark.parametrize(
    ("values", "fragment"),
    [
        ([1, "a"], "must have one type"),
        ([2**70], "must have one type"),
        ([[1, 2]], "got list"),
        (["\ud800"], "must have one type"),
    ],
)
def test_unsupported_values(values, fragment):
    with pytest.raises(DataError, match=f"t, column 'c'.*{fragment}"):
        typed(values)


def test_a_missing_package_names_the_extra():
    with pytest.raises(ConfigError, match=r"package 'no_such_package'.*pip install 'polynsd\[data\]'"):
        load_table_package("no_such_package.part")
