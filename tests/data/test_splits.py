"""Laws of splits: disjoint, complete, reproducible, and never invented."""

import hashlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from polynsd.data import (
    Split,
    data_splits,
    random_split,
    split_by_group,
    split_by_time,
    stratified_split,
)
from polynsd.errors import ConfigError, DataError

fractions = st.sampled_from(
    [(0.6, 0.2, 0.2), (0.5, 0.25, 0.25), (0.7, 0.2, 0.1), (0.1, 0.1, 0.8), (0.2, 0.2, 0.2)]
)
LABELS = torch.arange(50) % 3


def mask(*nodes, size=6):
    chosen = torch.zeros(size, dtype=torch.bool)
    chosen[list(nodes)] = True
    return chosen


def parts(split):
    return torch.stack([split.train, split.val, split.test])


@settings(max_examples=50, deadline=None)
@given(st.integers(20, 200), fractions, st.integers(0, 99))
def test_random_parts_are_floors_and_the_rest(num_nodes, shares, seed):
    split = random_split(num_nodes, shares, seed)
    percent = [round(100 * share) for share in shares]
    train, val, covered = (p * num_nodes // 100 for p in (*percent[:2], sum(percent)))
    assert parts(split).sum(dim=1).tolist() == [train, val, covered - train - val]
    assert parts(split).sum(dim=0).max() == 1


def test_fractions_are_exact_where_floating_point_is_not():
    assert repr(random_split(100, (0.29, 0.01, 0.7))) == ("Split(train=29, val=1, test=70, num_nodes=100)")


def test_plain_sizes_of_small_benchmarks():
    assert parts(random_split(183)).sum(dim=1).tolist() == [109, 36, 38]
    assert parts(random_split(251)).sum(dim=1).tolist() == [150, 50, 51]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=5).filter(lambda sizes: max(sizes) >= 3),
    st.integers(0, 5),
    fractions,
    st.integers(0, 99),
)
def test_every_class_of_three_is_in_every_part(sizes, unlabelled, shares, seed):
    y = torch.tensor([-1] * unlabelled + [c for c, size in enumerate(sizes) for _ in range(size)])
    split = stratified_split(y, shares, seed)
    assert not parts(split)[:, y == -1].any()
    for label, size in enumerate(sizes):
        counts = parts(split)[:, y == label].sum(dim=1)
        assert counts.sum() <= size
        assert sum(shares) < 0.99 or counts.sum() == size
        assert size < 3 or bool((counts >= 1).all())


def test_stratified_parts_keep_the_class_shares():
    y = torch.arange(4).repeat_interleave(torch.tensor([100, 200, 50, 10]))
    split = stratified_split(y)
    assert torch.bincount(y[split.train]).tolist() == [60, 120, 30, 6]
    assert torch.bincount(y[split.val]).tolist() == [20, 40, 10, 2]
    assert torch.bincount(y[split.test]).tolist() == [20, 40, 10, 2]


@pytest.mark.parametrize(
    "draw",
    [lambda seed: random_split(50, seed=seed), lambda seed: stratified_split(LABELS, seed=seed)],
)
def test_seeds_determine_the_split(draw):
    assert draw(3) == draw(3)
    assert hash(draw(3)) == hash(draw(3))
    assert draw(3) != draw(4)


def test_fingerprint_is_stable_and_names_the_content():
    split = Split(mask(0, 1), mask(2), mask(5))
    assert split.fingerprint == Split(mask(0, 1), mask(2), mask(5)).fingerprint
    bits = bytes([0b11000000, 0b00100000, 0b00000100])
    assert split.fingerprint == hashlib.sha256(b"6" + bits).hexdigest()
    assert split.fingerprint != Split(mask(0, 1), mask(5), mask(2)).fingerprint
    larger = (mask(0, 1, size=7), mask(2, size=7), mask(5, size=7))
    assert split.fingerprint != Split(*larger).fingerprint
    assert split != "split"


def test_repr_counts_nodes():
    assert repr(Split(mask(0, 1), mask(2), mask(5))) == "Split(train=2, val=1, test=1, num_nodes=6)"


@pytest.mark.parametrize(
    ("masks", "fragment"),
    [
        ((mask(0, 1, 2), mask(2, 1), mask(5)), "train and val share 2 nodes"),
        ((mask(0), mask(1, 3), mask(3)), "val and test share 1 nodes"),
        ((mask(0), mask(1), mask()), "test is empty"),
        ((mask(0), mask(1, size=7), mask(2)), "train has 6 nodes, val 7"),
        ((mask(0), torch.tensor([1, 2]), mask(3)), "val must be a bool tensor"),
        ((mask(0)[None], mask(1), mask(3)), r"train must be a bool tensor.*\[1, 6\]"),
        ((mask(0), mask(1), [True]), "test must be a bool tensor.*a list"),
    ],
)
def test_broken_masks_raise_one_clear_error(masks, fragment):
    with pytest.raises(DataError, match=fragment):
        Split(*masks)


@pytest.mark.parametrize(
    "shares", [(0.6, 0.2, 0.3), (0.6, 0.0, 0.4), (0.9, -0.1, 0.2), (0.5, 0.5), (0.5, 0.2, np.nan)]
)
@pytest.mark.parametrize("draw", [random_split, stratified_split])
def test_bad_fractions_are_an_error(shares, draw):
    with pytest.raises(ConfigError, match="three positive numbers"):
        draw(10 if draw is random_split else torch.arange(10) % 2, shares)


def test_a_graph_too_small_for_the_fractions_is_an_error():
    with pytest.raises(DataError, match="val is empty"):
        random_split(3)
    with pytest.raises(DataError, match="labels must be at least -1"):
        stratified_split(torch.tensor([0, 1, -2]))
    with pytest.raises(ConfigError, match="num_nodes must be an integer"):
        random_split(0)


def graph_with(train, val, test):
    return Data(x=torch.zeros(6, 1), train_mask=train, val_mask=val, test_mask=test)


def test_masks_of_a_graph_are_read_column_by_column():
    single = data_splits(graph_with(mask(0), mask(1), mask(2)))
    assert single == [Split(mask(0), mask(1), mask(2))]
    stacked = [torch.stack([mask(i), mask(i + 3)], dim=1) for i in range(3)]
    assert data_splits(graph_with(*stacked)) == [*single, Split(mask(3), mask(4), mask(5))]


def test_one_test_mask_serves_all_splits():
    train, val = (torch.stack([mask(i), mask(i + 2)], dim=1) for i in range(2))
    first, second = data_splits(graph_with(train, val, mask(5)))
    assert torch.equal(first.test, second.test)


def test_missing_masks_are_never_invented():
    with pytest.raises(DataError, match=r"no val_mask, test_mask.*random_split.*stratified_split"):
        data_splits(Data(x=torch.zeros(6, 1), train_mask=mask(0)))


@pytest.mark.parametrize(
    ("masks", "fragment"),
    [
        ([torch.zeros(2, 6, dtype=torch.bool)] * 3, r"train_mask must have shape \[6\].*Transpose"),
        ([torch.tensor([0, 1]), mask(1), mask(2)], "train_mask must have shape"),
        ([torch.arange(6), mask(1), mask(2)], "train_mask must be boolean; got int64. Turn node numbers"),
        (
            [torch.ones(6, 2).bool(), torch.ones(6, 3).bool(), torch.ones(6, 3).bool()],
            r"same number of splits; got \[2, 3, 3\]",
        ),
    ],
)
def test_masks_of_the_wrong_form_are_an_error(masks, fragment):
    with pytest.raises(DataError, match=fragment):
        data_splits(graph_with(*masks))


def test_groups_stay_together():
    groups = np.repeat(np.arange(20), 5)
    groups[:5] = -1  # five nodes without a group
    labelled = np.arange(100) % 2 == 0
    test = split_by_group(groups, labelled, 0.2, seed=3)
    assert not (test & ~labelled).any()
    assert 8 <= test.sum() <= 12
    for group in range(1, 20):
        assert len(set(test[(groups == group) & labelled])) == 1
    assert (test != split_by_group(groups, labelled, 0.2, seed=4)).any()
    assert split_by_group(np.array([0, 0, 1, 1, 1]), np.ones(5, bool), 0.1).tolist() == [1, 1, 0, 0, 0]
    with pytest.raises(DataError, match="two groups"):
        split_by_group(np.zeros(9, np.int64), np.ones(9, bool), 0.2)


def test_the_latest_nodes_are_held_out_together():
    times = np.array([3.0, 1, 2, 2, 2, 5, np.nan])
    labelled = ~np.isnan(times)
    assert split_by_time(times, labelled, 0.3).tolist() == [1, 0, 0, 0, 0, 1, 0]
    assert split_by_time(times, labelled, 0.6).tolist() == [1, 0, 1, 1, 1, 1, 0]
    with pytest.raises(DataError, match="1 have none"):
        split_by_time(times, np.ones(7, bool), 0.3)
    with pytest.raises(DataError, match="two different times"):
        split_by_time(np.ones(4), np.ones(4, bool), 0.3)
    with pytest.raises(ConfigError, match="between 0 and 1"):
        split_by_time(times, labelled, 1.0)
