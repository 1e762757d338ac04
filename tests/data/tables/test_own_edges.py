"""Every undirected edge once, checked against a dictionary, and an account of all the others."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polynsd.data.tables.columns import Column
from polynsd.data.tables.edges import EdgeReport, merge, weights
from polynsd.errors import DataError, GraphError

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=30)


@settings(deadline=None, max_examples=200)
@given(PAIRS)
def test_merging_agrees_with_a_dictionary(pairs):
    array = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    values = np.arange(len(pairs), dtype=np.float32)[:, None]
    edges = merge(array, 6, values)
    copies = {}
    for (u, v), value in zip(pairs, values[:, 0], strict=True):
        if u != v:
            copies.setdefault((min(u, v), max(u, v)), []).append(value)
    assert list(map(tuple, edges.edge_index.T.tolist())) == sorted(copies)
    np.testing.assert_allclose(edges.values[:, 0], [np.mean(copies[edge]) for edge in sorted(copies)])
    report = edges.report
    assert report.given == report.kept + report.self_loops + report.duplicates + report.reverses
    directed = {pair for pair in pairs if pair[0] != pair[1]}
    assert report.reverses == len(directed) - len(copies)
    assert report.averaged == sum(len(values) > 1 for values in copies.values())
    np.testing.assert_array_equal(merge(array, 6).edge_index, edges.edge_index)


def test_equal_copies_are_not_averaged():
    values = np.array([[0.1], [0.1], [0.1]], dtype=np.float32)
    edges = merge(np.array([[0, 1, 0], [1, 0, 1]]), 2, values)
    assert edges.values.tolist() == values[:1].tolist()
    assert edges.report == EdgeReport(given=3, kept=1, duplicates=1, reverses=1)
    assert str(edges.report) == (
        "3 edges given, 1 kept: 0 self-loops dropped, 1 duplicates and 1 reverses merged"
    )


@pytest.mark.parametrize(
    ("values", "error", "fragment"),
    [
        ([1.0, -2.0], GraphError, "must not be negative.*got -2.0"),
        ([1.0, None], DataError, "1 have none"),
        ([1.0, float("inf")], DataError, "must be finite"),
        (["x", "y"], DataError, "must be numbers"),
    ],
)
def test_weights_that_cannot_be(values, error, fragment):
    with pytest.raises(error, match=fragment):
        weights(Column("w", pa.array(values)))
