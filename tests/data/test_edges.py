"""Every undirected edge once, checked against a dictionary, and an account of all the others."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polynsd.data.edges import EdgeReport, merge_edges

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=30)


@settings(deadline=None, max_examples=200)
@given(PAIRS)
def test_merging_agrees_with_a_dictionary(pairs):
    array = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    weight = np.arange(len(pairs), dtype=np.float32)
    edges = merge_edges(array, 6, weight, np.stack([weight, -weight], axis=1))
    copies = {}
    for (u, v), value in zip(pairs, weight, strict=True):
        if u != v:
            copies.setdefault((min(u, v), max(u, v)), []).append(value)
    means = [np.mean(copies[edge]) for edge in sorted(copies)]
    assert list(map(tuple, edges.edge_index.T.tolist())) == sorted(copies)
    np.testing.assert_allclose(edges.weight, means)
    np.testing.assert_allclose(edges.attr, np.stack([means, np.negative(means)], axis=1))
    report = edges.report
    assert report.given == report.kept + report.self_loops + report.duplicates + report.reverses
    directed = {pair for pair in pairs if pair[0] != pair[1]}
    assert report.reverses == len(directed) - len(copies)
    assert report.averaged == sum(len(values) > 1 for values in copies.values())
    bare = merge_edges(array, 6)
    np.testing.assert_array_equal(bare.edge_index, edges.edge_index)
    assert bare.weight is bare.attr is None


def test_equal_copies_are_not_averaged():
    weight = np.array([0.1, 0.1, 0.1], dtype=np.float32)
    edges = merge_edges(np.array([[0, 1, 0], [1, 0, 1]]), 2, weight)
    assert edges.weight.tolist() == weight[:1].tolist()
    assert edges.report == EdgeReport(given=3, kept=1, duplicates=1, reverses=1)
    assert str(edges.report) == (
        "3 edges given, 1 kept: 0 self-loops dropped, 1 duplicates and 1 reverses merged"
    )


def test_an_edge_whose_weight_or_feature_differs_counts_once():
    pairs = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    weight, attr = np.array([[1, 2, 3, 3], [1, 2, 4, 5]], dtype=np.float32)
    edges = merge_edges(pairs, 3, weight, attr[:, None])
    assert (edges.weight.tolist(), edges.attr.tolist()) == ([1.5, 3], [[1.5], [4.5]])
    assert edges.report.averaged == 2
