"""Protocols: the sizes each promises, the published masks, and that nothing is made up."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polynsd.data import Graph, Masks
from polynsd.data.datasets.catalogue import load
from polynsd.data.datasets.entries import ENTRIES
from polynsd.data.protocols import get_split, get_splits, num_splits, platonov_rule
from polynsd.data.splits import stratified_split
from polynsd.errors import ConfigError, DataError

RULES = (
    "luan-60-20-20",
    "random-60-20-20",
    "city-10-10-80",
    "repeated-ten-fold",
    "stratified(0.6, 0.2, 0.2)",
)
NO_EDGES = np.zeros((2, 0), np.int32)

needs_data = pytest.mark.skipif("POLYNSD_DATA" not in os.environ, reason="POLYNSD_DATA is not set")
labels = st.lists(st.integers(-1, 3), min_size=60, max_size=120).map(lambda y: np.array(y + [0, 1, 2, 3] * 5))


def graph_of(y, masks=None):
    return Graph("small", NO_EDGES, len(y), y=None if y is None else np.asarray(y), masks=masks or {})


def masks_of(*sizes, num_nodes=100, num_splits=3):
    """Splits of these sizes, the nodes in order."""
    part_of = np.repeat(np.arange(len(sizes) + 1), [*sizes, num_nodes - sum(sizes)])
    return Masks(*(np.tile(part_of == part, (num_splits, 1)) for part in range(3)))


def sizes_of(split):
    return [int(part.sum()) for part in (split.train, split.val, split.test)]


def same_masks(split, masks, index):
    return split == masks.split(index)


@settings(max_examples=30, deadline=None)
@given(labels, st.sampled_from(RULES), st.integers(0, 50))
def test_rules_cover_exactly_the_labelled_nodes(y, protocol, index):
    split = get_split(graph_of(y), protocol, index)
    covered = split.train | split.val | split.test
    assert np.array_equal(covered.numpy(), y >= 0)


def test_luan_counts_the_classes_that_occur():
    split = get_split(graph_of([0] * 50 + [7] * 50), "luan-60-20-20", 0)
    assert sizes_of(split) == [60, 20, 20]


@settings(max_examples=30, deadline=None)
@given(labels, st.integers(0, 50))
def test_luan_training_parts_are_class_balanced(y, index):
    split = get_split(graph_of(y), "luan-60-20-20", index)
    num_labelled = (y >= 0).sum()
    quota = round(0.6 * num_labelled / 4)
    expected = np.minimum(np.bincount(y[y >= 0], minlength=4), quota)
    assert np.array_equal(np.bincount(y[split.train.numpy()], minlength=4), expected)
    assert int(split.val.sum()) == round(0.2 * num_labelled)


@pytest.mark.parametrize("protocol", RULES)
def test_the_index_determines_the_split(protocol):
    graph = graph_of(np.arange(90) % 3)
    splits = get_splits(graph, protocol)[:10]
    assert num_splits(graph, protocol) == (50 if protocol == "repeated-ten-fold" else 10)
    assert len({split.fingerprint for split in splits}) == 10
    assert get_split(graph, protocol, 7) == splits[7]
    assert get_splits(graph, protocol, 12)[:10] == splits


def test_plain_rules_are_the_published_permutations():
    graph = graph_of(np.zeros(183, dtype=np.int64))
    order = np.random.RandomState(3).permutation(183)
    split = get_split(graph, "random-60-20-20", 3)
    assert sizes_of(split) == [109, 36, 38]
    assert set(split.train.nonzero().view(-1).tolist()) == set(order[:109].tolist())
    assert set(split.val.nonzero().view(-1).tolist()) == set(order[109:145].tolist())
    assert sizes_of(get_split(graph, "city-10-10-80", 0)) == [18, 18, 147]


def test_stratified_takes_any_fractions_and_the_index_as_seed():
    graph = graph_of(np.arange(90) % 3)
    split = get_split(graph, "stratified(0.5, 0.25, 0.25)", 4)
    assert split == stratified_split(torch.from_numpy(graph.y), (0.5, 0.25, 0.25), seed=4)


def test_plain_rules_divide_regression_targets_that_are_known():
    y = np.linspace(0, 1, 50, dtype=np.float32)
    y[:10] = np.nan
    split = get_split(graph_of(y), "random-60-20-20", 0)
    assert sizes_of(split) == [24, 8, 8]
    assert not (split.train | split.val | split.test)[:10].any()


@pytest.mark.parametrize(
    ("protocol", "key", "sizes"),
    [
        ("geom-gcn", "default", (48, 32, 20)),
        ("geom-gcn", "default", (46, 34, 20)),
        ("platonov", "default", (50, 25, 25)),
        ("stored", "default", (60, 20, 20)),
        ("public", "public", (6, 30, 40)),
    ],
)
def test_stored_masks_are_read_as_they_are(protocol, key, sizes):
    masks = masks_of(*sizes)
    graph = graph_of(np.zeros(100, dtype=np.int64), {key: masks})
    assert num_splits(graph, protocol) == 3
    assert all(same_masks(split, masks, index) for index, split in enumerate(get_splits(graph, protocol)))


def test_unlabelled_nodes_leave_stored_masks():
    y = np.zeros(100, dtype=np.int64)
    y[[0, 50, 99]] = -1
    graph = graph_of(y, {"default": masks_of(48, 32, 20)})
    assert sizes_of(get_split(graph, "geom-gcn", 0)) == [47, 31, 19]


@pytest.mark.parametrize(("protocol", "shares"), [("geom-gcn", "48/32/20"), ("platonov", "50/25/25")])
def test_masks_of_another_protocol_are_refused(protocol, shares):
    graph = graph_of(np.zeros(100, dtype=np.int64), {"default": masks_of(60, 20, 20)})
    with pytest.raises(DataError, match=f"{shares}; the masks of 'small' divide them 60/20/20.*'stored'"):
        get_split(graph, protocol, 0)


def test_missing_masks_are_an_error_that_names_what_is_there_and_a_rule():
    graph = graph_of(np.zeros(100, dtype=np.int64), {"public": masks_of(6, 30, 40)})
    with pytest.raises(
        DataError, match=r"reads the masks 'default'; .* has 'public'. Ask for a rule by name"
    ):
        get_split(graph, "geom-gcn", 0)
    with pytest.raises(DataError, match=r"has none"):
        num_splits(graph_of(graph.y), "stored")


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda g: get_split(g, "geomgcn", 0),
            ConfigError,
            "unknown protocol 'geomgcn'.*Did you mean 'geom-gcn'",
        ),
        (lambda g: num_splits(g, "luan"), ConfigError, "unknown protocol 'luan'; choose from"),
        (
            lambda g: get_split(g, "geom-gcn", 3),
            DataError,
            "there are 3 splits, numbered from 0; got index 3",
        ),
        (lambda g: get_splits(g, "geom-gcn", 4), DataError, "there are 3 splits"),
        (
            lambda g: get_split(g, "random-60-20-20", -1),
            ConfigError,
            "index must be an integer of at least 0",
        ),
        (lambda g: get_splits(g, "stored", 0), ConfigError, "count must be an integer of at least 1"),
        (lambda g: get_split(g, "stratified", 0), ConfigError, "takes three fractions.*got none"),
        (
            lambda g: get_split(g, "stratified(0.6,0.2)", 0),
            ConfigError,
            "takes three fractions.*got 0.6, 0.2",
        ),
        (lambda g: get_split(g, "stratified(a, b, c)", 0), ConfigError, "takes three fractions.*got a, b, c"),
        (lambda g: get_split(g, "stratified(0.9, 0.2, 0.2)", 0), ConfigError, "sum to at most 1"),
        (lambda g: get_split(g, "random-60-20-20(3)", 0), ConfigError, "takes no arguments"),
    ],
)
def test_what_is_refused(call, error, text):
    graph = graph_of(np.zeros(100, dtype=np.int64), {"default": masks_of(48, 32, 20)})
    with pytest.raises(error, match=text):
        call(graph)


@pytest.mark.parametrize("protocol", ["luan-60-20-20", "stratified(0.6, 0.2, 0.2)"])
def test_class_rules_need_classes(protocol):
    with pytest.raises(DataError, match=r"'small' has no class labels. Use 'random-60-20-20'"):
        get_split(graph_of(np.zeros(50, dtype=np.float32)), protocol, 0)


def test_splits_need_labels():
    graph = Graph("bare", NO_EDGES, 10)
    with pytest.raises(DataError, match="needs labels; 'bare' has none"):
        get_split(graph, "random-60-20-20", 0)


def test_the_platonov_rule_is_stratified_and_leaves_out_the_unlabelled():
    pytest.importorskip("sklearn")
    y = np.repeat([-1, 0, 1], [5, 40, 80])
    split = platonov_rule(y, 1)
    assert sizes_of(split) == [60, 30, 30]
    assert np.bincount(y[split.train.numpy()]).tolist() == [20, 40]
    assert not split.train[:5].any()


def test_the_platonov_rule_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.model_selection", None)
    with pytest.raises(ConfigError, match="pip install scikit-learn"):
        platonov_rule(np.arange(100) % 2, 0)


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("name", ["minesweeper", "tolokers", "roman_empire"])
def test_the_platonov_rule_draws_the_published_masks(name):
    pytest.importorskip("sklearn")
    graph = load(name, download=False)
    stored = get_splits(graph, "platonov")
    assert [platonov_rule(graph.y, index) for index in range(10)] == stored


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("name", ["huangpu", "pasadena", "citylike_liege"])
def test_the_city_rule_draws_the_stored_masks(name):
    graph = load(name, download=False)
    assert get_splits(graph, "city-10-10-80") == get_splits(graph, "stored")


@pytest.mark.data
@needs_data
@pytest.mark.parametrize(
    ("name", "luan", "plain"),
    [
        ("texas", [85, 37, 61], [109, 36, 38]),
        ("cornell", [85, 37, 61], [109, 36, 38]),
        ("wisconsin", [121, 50, 80], [150, 50, 51]),
        ("film", [4501, 1520, 1579], [4560, 1520, 1520]),
        ("cornell_fixed", [99, 37, 47], [109, 36, 38]),
    ],
)
def test_sizes_of_the_60_20_20_rules(name, luan, plain):
    graph = load(name, download=False)
    for index in (0, 9):
        assert sizes_of(get_split(graph, "luan-60-20-20", index)) == luan
        assert sizes_of(get_split(graph, "random-60-20-20", index)) == plain


SPLIT_SIZES = {
    "texas": [87, 59, 37],
    "cornell": [87, 59, 37],
    "cornell_fixed": [87, 59, 37],
    "wisconsin": [120, 80, 51],
    "film": [3648, 2432, 1520],
    "squirrel": [2496, 1664, 1041],
    "chameleon": [1092, 729, 456],
    "pubmed": [9463, 6310, 3944],
    "cora": [1192, 796, 497],
    "minesweeper": [5000, 2500, 2500],
    "tolokers": [5879, 2939, 2940],
    "roman_empire": [11331, 5665, 5666],
}


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("name", SPLIT_SIZES)
def test_sizes_of_the_ten_published_splits(name):
    splits = get_splits(load(name, download=False), ENTRIES[name].protocols[0])
    assert [sizes_of(split) for split in splits] == [SPLIT_SIZES[name]] * 10
    assert len({split.fingerprint for split in splits}) == 10


@pytest.mark.data
@needs_data
@pytest.mark.parametrize(
    ("name", "ranges"),
    [
        ("chameleon_filtered", [(409, 440), (268, 310), (159, 194)]),
        ("squirrel_filtered", [(1047, 1085), (691, 739), (416, 483)]),
    ],
)
def test_sizes_of_the_filtered_splits_vary(name, ranges):
    graph = load(name, download=False)
    sizes = np.array([sizes_of(split) for split in get_splits(graph, "geom-gcn")])
    assert list(zip(sizes.min(axis=0), sizes.max(axis=0), strict=True)) == ranges
    assert (sizes.sum(axis=1) == graph.num_nodes).all()


@pytest.mark.data
@needs_data
def test_citeseer_splits_leave_out_the_nodes_without_label():
    graph = load("citeseer", download=False)
    splits = get_splits(graph, "geom-gcn")
    whole, partial = np.array([1596, 1065, 666]), np.array([1017, 679, 424])
    for index, split in enumerate(splits):
        missing = (partial if index in (4, 5) else whole) - sizes_of(split)
        assert (missing >= 0).all()
        assert missing.sum() <= 15
        assert not (split.train | split.val | split.test)[torch.from_numpy(graph.y == -1)].any()


@pytest.mark.data
@needs_data
@pytest.mark.parametrize(("name", "train"), [("cora", 140), ("citeseer", 120), ("pubmed", 60)])
def test_sizes_of_the_public_split(name, train):
    graph = load(name, download=False)
    assert num_splits(graph, "public") == 1
    assert sizes_of(get_split(graph, "public", 0)) == [train, 500, 1000]


@pytest.mark.data
@needs_data
def test_every_protocol_of_every_archive_works():
    for file in Path(os.environ["POLYNSD_DATA"]).glob("*.npz"):
        graph = load(file.stem, download=False)
        assert all(get_splits(graph, protocol, 1) for protocol in ENTRIES[file.stem].protocols)


def test_ten_folds_test_every_node_once_and_repeats_differ():
    y = np.arange(57) % 4
    splits = get_splits(graph_of(y), "repeated-ten-fold")
    assert len(splits) == 50
    for repeat in range(5):
        tested = sum(split.test.int() for split in splits[10 * repeat : 10 * repeat + 10])
        assert (tested == 1).all()
    assert splits[0] != splits[10]
    assert sizes_of(splits[0]) == [33, 18, 6]
    assert all(np.bincount(y[split.train.numpy()], minlength=4).min() >= 6 for split in splits)
