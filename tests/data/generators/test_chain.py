"""Laws of the chain of words: trees, degrees, roles, and the shape of the public graph."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse import csgraph

from polynsd.data.generators.chain import chain_edges, projective_heads, role_table, roles_of, syntax_chain
from polynsd.errors import ConfigError


@pytest.fixture(scope="module")
def text():
    return syntax_chain()


def homophily(edge_index, y):
    return np.mean(y[edge_index[0]] == y[edge_index[1]])


def hops_from(edge_index, num_nodes, start):
    matrix = sparse.csr_matrix((np.ones(edge_index.shape[1]), edge_index), shape=(num_nodes,) * 2)
    return csgraph.shortest_path(matrix, directed=False, unweighted=True, indices=start)


def by_recursion(weight, first, last):
    """(word, head) pairs of the Cartesian tree of weight[first:last], and its root."""
    root = max(range(first, last), key=lambda word: weight[word])
    pairs = []
    for part in ((first, root), (root + 1, last)):
        if part[0] < part[1]:
            below, child = by_recursion(weight, *part)
            pairs += [*below, (child, root)]
    return pairs, root


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(0, 1000))
def test_heads_are_the_cartesian_trees_of_the_sentences(sizes, seed):
    weight = np.random.default_rng(seed).random(sum(sizes))
    expected, first = np.empty(weight.size, dtype=int), 0
    for size in sizes:
        pairs, root = by_recursion(weight, first, first + size)
        for word, head in [*pairs, (root, root)]:
            expected[word] = head
        first += size
    sentence = np.repeat(np.arange(len(sizes)), sizes)
    np.testing.assert_array_equal(projective_heads(weight, sentence), expected)


def test_every_sentence_has_one_root_and_heads_inside(text):
    sentence, head = text.extras["sentence"], text.extras["head"]
    roots = head == np.arange(text.num_nodes)
    np.testing.assert_array_equal(np.bincount(sentence[roots]), np.ones(sentence[-1] + 1))
    np.testing.assert_array_equal(sentence[head], sentence)
    sizes = np.bincount(sentence)
    assert sizes[:-1].min() >= 5
    assert sizes.max() <= 35


def test_edges_are_the_chain_and_the_dependencies():
    head = np.array([2, 0, 2, 2, 3])
    np.testing.assert_array_equal(chain_edges(head), [[0, 0, 1, 2, 3], [1, 2, 2, 3, 4]])


def test_shape_is_that_of_the_public_graph(text):
    assert 2.7 < 2 * text.num_edges / text.num_nodes < 3.0
    assert 0.01 < homophily(text.edge_index, text.y) < 0.1
    hops = hops_from(text.edge_index, text.num_nodes, 0)
    assert np.isfinite(hops).all()
    assert hops.max() > 4000


def test_arrays_are_what_a_graph_promises(text):
    assert text.x.shape == (20_000, 50)
    assert text.x.dtype == np.float32
    assert text.y.dtype == np.int64
    np.testing.assert_array_equal(np.unique(text.y), np.arange(18))
    assert (text.edge_index[0] < text.edge_index[1]).all()
    assert text.to_pyg().train_mask.shape == (20_000, 10)


def test_roles_need_the_head(text):
    """The type alone leaves the role open; type, type of head and side settle it."""
    types, head = text.extras["type"], text.extras["head"]
    word = np.arange(text.num_nodes)
    head_type = np.where(head == word, 99, types[head])
    seen = np.stack([types, head_type, head < word, text.y])
    assert np.unique(seen, axis=1).shape[1] == np.unique(seen[:3], axis=1).shape[1]
    best = sum(np.bincount(text.y[types == kind]).max() for kind in range(16))
    assert 0.4 < best / text.num_nodes < 0.7


def test_role_table_offers_three_roles_per_type():
    table = role_table(48, np.random.default_rng(0))
    assert [np.unique(row).size for row in table] == [3] * 16
    assert np.unique(table).size == 48
    np.testing.assert_array_equal(roles_of(np.array([3]), np.array([0]), table), table[3, 16, :1])


def test_neighbouring_words_of_a_sentence_differ_in_type(text):
    same = np.diff(text.extras["sentence"]) == 0
    assert np.all(np.diff(text.extras["type"])[same] != 0)


def test_features_are_the_types_without_noise():
    text = syntax_chain(500, feature_noise=0.0)
    distinct = np.unique(np.column_stack([text.extras["type"], text.x]), axis=0)
    assert len(distinct) == np.unique(text.extras["type"]).size


def test_splits_are_stratified(text):
    masks = text.masks["default"]
    assert len(masks) == 10
    np.testing.assert_array_equal(masks.train.astype(int) + masks.val + masks.test, 1)
    sizes = np.bincount(text.y)
    for part, share in ((masks.train, 0.5), (masks.val, 0.25), (masks.test, 0.25)):
        for mask in part:
            assert np.abs(np.bincount(text.y[mask]) - share * sizes).max() <= 1.5


def test_graphs_are_determined_by_their_arguments():
    first, again, other = (syntax_chain(1000, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.x, again.x)
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.y, other.y)
    loud = syntax_chain(1000, feature_noise=9.0, seed=3)
    np.testing.assert_array_equal(first.y, loud.y)
    np.testing.assert_array_equal(first.edge_index, loud.edge_index)


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        ({"num_nodes": 99}, "num_nodes must be an integer of at least 100"),
        ({"num_classes": 1}, "num_classes must be an integer of at least 2"),
        ({"num_classes": 49}, "at most 48 roles; got num_classes=49"),
        ({"num_features": 0}, "num_features must be an integer of at least 1"),
        ({"feature_noise": -1.0}, "standard deviation"),
        ({"feature_noise": float("nan")}, "standard deviation"),
        ({"seed": -1}, "seed must be an integer"),
    ],
)
def test_bad_arguments_raise_one_clear_error(arguments, fragment):
    with pytest.raises(ConfigError, match=fragment):
        syntax_chain(**arguments)


@pytest.mark.data
@pytest.mark.skipif("POLYNSD_DATA" not in os.environ, reason="POLYNSD_DATA is not set")
def test_public_graph_is_matched_at_its_size():
    public = np.load(Path(os.environ["POLYNSD_DATA"]) / "roman_empire.npz", allow_pickle=False)
    num_nodes = public["y"].size
    ours = syntax_chain(num_nodes)
    assert ours.num_edges == pytest.approx(public["edge_index"].shape[1], rel=0.03)
    assert homophily(ours.edge_index, ours.y) == pytest.approx(
        homophily(public["edge_index"], public["y"]), abs=0.02
    )
    far = [hops_from(edges, num_nodes, 0).max() for edges in (ours.edge_index, public["edge_index"])]
    assert far[0] == pytest.approx(far[1], rel=0.1)
