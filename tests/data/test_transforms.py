"""Feature rules: their equations, that sparse stays sparse, and what they refuse."""

import os
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from torch_geometric.data import Data
from torch_geometric.transforms import NormalizeFeatures

from polynsd.data.datasets.catalogue import load
from polynsd.data.datasets.entries import ENTRIES
from polynsd.data.graph import Graph
from polynsd.data.splits import Split, random_split
from polynsd.data.transforms import RULES, applied_rules, apply
from polynsd.errors import ConfigError, DataError

NODES = 12
counts = arrays(np.int64, (NODES, 5), elements=st.integers(0, 9)).map(lambda x: as_words(x))
reals = arrays(np.float32, (NODES, 3), elements=st.floats(-50, 50, width=16))


def as_words(x):
    """Counts of words, at least one of which does not occur in the first text."""
    x[0, 0] = 0
    return x.astype(np.float32)


def graph_of(x, name="small"):
    return Graph(name=name, edge_index=np.zeros((2, 0), np.int32), num_nodes=x.shape[0], x=x)


def dense(graph):
    return graph.x.toarray() if sparse.issparse(graph.x) else graph.x


def one_part_each(train, num_nodes):
    masks = torch.zeros(3, num_nodes, dtype=torch.bool)
    masks[0, train] = True
    rest = (~masks[0]).nonzero().view(-1)
    masks[1, rest[0]] = masks[2, rest[1]] = True
    return Split(*masks)


@settings(max_examples=30, deadline=None)
@given(counts)
def test_row_normalize_makes_rows_sum_to_one_and_leaves_empty_rows(x):
    sums = dense(apply("row-normalize", graph_of(x))).sum(axis=1)
    assert np.allclose(sums, x.any(axis=1), atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(counts)
def test_the_two_row_rules_agree_on_counts(x):
    by_sum, by_reference = (dense(apply(rule, graph_of(x))) for rule in ("row-normalize", "nsd-normalize"))
    assert np.array_equal(by_sum, by_reference)


@settings(max_examples=30, deadline=None)
@given(st.one_of(counts, reals))
def test_nsd_normalize_is_the_reference_transform(x):
    reference = NormalizeFeatures()(Data(x=torch.from_numpy(x.copy()))).x.numpy()
    assert np.allclose(dense(apply("nsd-normalize", graph_of(x))), reference, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(counts)
def test_sparse_and_dense_agree_and_rows_stay_sparse(x):
    split = random_split(NODES, seed=1)
    for rule in RULES:
        full = apply(rule, graph_of(x), split)
        thin = apply(rule, graph_of(sparse.csr_matrix(x)), split)
        assert np.array_equal(dense(thin), dense(full))
        assert sparse.issparse(thin.x) == (not rule.startswith("standardize"))
        assert full.x.dtype == thin.x.dtype == np.float32


def test_the_shift_of_negative_sparse_features_makes_them_dense():
    x = np.array([[0, -1], [2, 0]], dtype=np.float32)
    shifted = apply("nsd-normalize", graph_of(sparse.csr_matrix(x)))
    assert np.allclose(shifted.x, [[1, 0], [0.75, 0.25]])


@settings(max_examples=30, deadline=None)
@given(reals, st.sets(st.integers(0, NODES - 1), min_size=2, max_size=8))
def test_standardize_uses_the_training_nodes_only(x, train):
    nodes = sorted(train)
    split = one_part_each(nodes, NODES)
    done = apply("standardize(train)", graph_of(x), split).x
    assert np.allclose(done[nodes].mean(axis=0), 0, atol=1e-3)
    varies = x[nodes].std(axis=0) > 1e-3
    assert np.allclose(done[nodes].std(axis=0)[varies], 1, atol=1e-3)
    changed = x.copy()
    others = np.setdiff1d(np.arange(NODES), nodes)
    changed[others] += 7
    assert np.array_equal(apply("standardize(train)", graph_of(changed), split).x[nodes], done[nodes])


def test_columns_that_are_constant_in_training_are_only_centred():
    x = np.full((NODES, 1), 0.1, dtype=np.float32)
    x[-1] = 0.6
    done = apply("standardize(train)", graph_of(x), one_part_each(range(8), NODES)).x
    assert np.allclose(done[:-1], 0, atol=1e-6)
    assert done[-1] == pytest.approx(0.5)


def test_the_rules_that_were_applied_are_recorded_in_order():
    graph = graph_of(np.ones((4, 2), dtype=np.float32))
    assert apply("raw", graph) is graph
    assert applied_rules(graph) == ()
    twice = apply("nsd-normalize", apply("row-normalize", graph))
    assert applied_rules(twice) == ("row-normalize", "nsd-normalize")
    assert np.array_equal(graph.x, np.ones((4, 2)))
    assert twice.name == graph.name


def test_graphs_without_columns_pass():
    for rule in RULES:
        empty = apply(rule, graph_of(np.zeros((NODES, 0), dtype=np.float32)), random_split(NODES))
        assert empty.x.shape == (NODES, NODES if rule == "adjacency" else 0)


@settings(max_examples=30, deadline=None)
@given(reals)
def test_standardize_has_mean_zero_and_deviation_one_over_all_nodes(x):
    done = apply("standardize", graph_of(x)).x
    assert np.allclose(done.mean(axis=0), 0, atol=1e-3)
    varies = x.std(axis=0) > 1e-3
    assert np.allclose(done.std(axis=0)[varies], 1, atol=1e-3)
    assert np.array_equal(done[:, ~(x.std(axis=0) > 0)], 0 * x[:, ~(x.std(axis=0) > 0)])  # only centred


EDGES = np.array([[0, 0, 1, 5], [1, 2, 2, 9]], dtype=np.int32)  # every edge once; most nodes have none


@settings(max_examples=30, deadline=None)
@given(counts)
def test_adjacency_appends_the_symmetric_matrix_of_zeros_and_ones(x):
    A = np.zeros((NODES, NODES), dtype=np.float32)
    for u, v in EDGES.T:
        A[u, v] = A[v, u] = 1
    names = tuple("abcde")
    for features in (x, sparse.csr_matrix(x)):
        graph = Graph("small", EDGES, NODES, x=features, feature_names=names)
        done = apply("adjacency", graph)
        assert sparse.issparse(done.x)
        assert np.array_equal(dense(done), np.hstack([x, A]))
        assert done.feature_names is None  # the old ones are too few
        assert graph.feature_names == apply("row-normalize", graph).feature_names == names


def test_joined_rules_are_applied_in_turn_and_recorded_one_by_one():
    x = np.arange(2 * NODES, dtype=np.float32).reshape(NODES, 2)
    graph = Graph("small", EDGES, NODES, x=x)
    joined = apply("row-normalize+adjacency", graph)
    assert np.array_equal(dense(joined), dense(apply("adjacency", apply("row-normalize", graph))))
    assert applied_rules(joined) == ("row-normalize", "adjacency")
    assert not np.array_equal(dense(joined), dense(apply("adjacency+row-normalize", graph)))
    assert applied_rules(apply("raw+standardize", graph)) == ("standardize",)
    assert apply("raw+raw", graph) is graph


@pytest.mark.parametrize(
    ("rule", "graph", "error", "text"),
    [
        ("row-sum", graph_of(np.ones((4, 1))), ConfigError, "unknown preprocessing 'row-sum'; choose from"),
        ("standardise", graph_of(np.ones((4, 1))), ConfigError, r"Did you mean 'standardize'"),
        (
            "standardize(trian)",
            graph_of(np.ones((4, 1))),
            ConfigError,
            r"Did you mean 'standardize\(train\)'",
        ),
        ("raw+row-sum", graph_of(np.ones((4, 1))), ConfigError, "unknown preprocessing 'row-sum'"),
        ("raw+", graph_of(np.ones((4, 1))), ConfigError, "unknown preprocessing ''"),
        ("adjacency", Graph("bare", np.zeros((2, 0), np.int32), 4), DataError, "'bare' has none"),
        ("standardize(train)", graph_of(np.ones((4, 1))), ConfigError, "training nodes; pass a split"),
        (
            "row-normalize",
            graph_of(-np.ones((4, 1))),
            DataError,
            "non-negative.* has -1. Use raw or standard",
        ),
        ("row-normalize", graph_of(np.full((4, 1), np.nan)), DataError, "has nan"),
        ("row-normalize", Graph("bare", np.zeros((2, 0), np.int32), 4), DataError, "'bare' has none"),
    ],
)
def test_what_is_refused(rule, graph, error, text):
    with pytest.raises(error, match=text):
        apply(rule, graph)


def test_a_split_of_another_graph_is_refused():
    with pytest.raises(DataError, match="one of 9 nodes; 'small' has 4"):
        apply("standardize(train)", graph_of(np.ones((4, 1), dtype=np.float32)), random_split(9))


@pytest.mark.data
@pytest.mark.skipif("POLYNSD_DATA" not in os.environ, reason="POLYNSD_DATA is not set")
@pytest.mark.parametrize("name", ["texas", "cornell_fixed", "film", "squirrel", "cora", "citeseer", "pubmed"])
def test_the_row_rules_agree_on_the_graphs_the_reference_was_written_for(name):
    graph = load(name, download=False)
    assert ENTRIES[name].preprocessing == "row-normalize"
    by_sum, by_reference = (apply(rule, graph).x for rule in ("row-normalize", "nsd-normalize"))
    assert np.array_equal(by_sum.data, by_reference.data)


def test_large_sparse_features_are_never_made_dense(monkeypatch):
    monkeypatch.setattr(sparse.csr_matrix, "toarray", lambda *_: sys.exit("made dense"))
    rows, columns = np.arange(1000), np.arange(1000) * 10**6
    wide = sparse.csr_matrix((np.full(1000, 2, np.float32), (rows, columns)), shape=(1000, 10**9))
    for rule in ("row-normalize", "nsd-normalize", "adjacency"):
        assert apply(rule, graph_of(wide)).x.nnz == wide.nnz
