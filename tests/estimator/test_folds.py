"""Folds: who trains and who judges."""

import numpy as np
import pytest

from polynsd import ConfigError, DataError
from polynsd.data.splits import split_by_group
from polynsd.estimator.folds import FEW, LARGE, MANY, SOME, TINY, Folds, hold_out, make_folds


def labels(*sizes):
    return np.repeat(np.arange(len(sizes)), sizes)


@pytest.mark.parametrize(
    ("sizes", "count"),
    [((3, 3), 10), ((20, 9, 2), 10), ((TINY, 30), 5), ((FEW, 50), SOME), ((MANY, 50), 1)],
)
def test_every_fold_divides_the_labelled_nodes_and_holds_all_classes(sizes, count):
    y = labels(*sizes, 40)
    labelled = y < len(sizes)
    folds = make_folds(labelled, y, 0.2, seed=3)
    assert len(folds) == count
    assert not (folds.train & folds.val).any()
    np.testing.assert_array_equal(folds.train | folds.val, np.tile(labelled, (count, 1)))
    for train, val in zip(folds.train, folds.val, strict=True):
        assert set(y[train]) == set(y[labelled])
        assert val.any()
    if count >= 5:  # all in turn
        assert set(folds.val.sum(0)[labelled]) == {count // 5}


def test_large_graphs_with_few_labels_have_fewer_folds():
    y = np.zeros(LARGE, dtype=np.int64)
    y[:50] = 1
    assert len(make_folds(np.arange(LARGE) < 300, y, 0.2, seed=0)) == SOME


@pytest.mark.parametrize("num_groups", [3, 12, 150])
@pytest.mark.parametrize("count", [80, 600])
def test_groups_are_never_divided_and_all_nodes_are_judged_once(num_groups, count):
    rng = np.random.default_rng(num_groups)
    y, groups = (rng.random(count) < 0.3).astype(int), rng.integers(-1, num_groups, count)
    labelled = rng.random(count) < 0.8
    folds = make_folds(labelled, y, 0.2, seed=0, groups=groups)
    np.testing.assert_array_equal(folds.val.sum(0), labelled)
    np.testing.assert_array_equal(folds.train, labelled & ~folds.val)
    for train, val in zip(folds.train, folds.val, strict=True):
        assert not set(groups[train]) & set(groups[val]) - {-1}
    if num_groups == 150:  # small groups: parts are alike
        assert len(folds) == 5
        assert np.ptp(folds.val.sum(1)) <= 0.05 * count
        assert np.ptp((folds.val & (y == 1)).sum(1)) <= 0.05 * count


def test_many_nodes_in_groups_are_held_out_once():
    y, groups = np.arange(MANY) % 2, np.arange(MANY) // 20
    folds = make_folds(np.ones(MANY, bool), y, 0.2, seed=0, groups=groups)
    np.testing.assert_array_equal(folds.val, [split_by_group(groups, folds.used, 0.2, 0)])


def test_one_group_cannot_be_divided():
    with pytest.raises(DataError, match="at least two groups"):
        make_folds(np.ones(9, bool), np.arange(9) % 2, 0.2, seed=0, groups=np.zeros(9, int))


def test_the_only_node_of_a_class_trains_in_every_fold():
    y = labels(10, 10, 1)
    folds = make_folds(np.ones(21, bool), y, 0.2, seed=0)
    assert folds.train[:, -1].all()
    assert not folds.judged[-1]


def test_a_held_out_share_is_one_of_every_class():
    y = labels(50, 10, 2, 1)
    chosen = hold_out(np.ones(63, bool), y, 0.2, seed=0)
    assert np.bincount(y[chosen], minlength=4).tolist() == [10, 2, 1, 0]


def test_out_of_fold_values_come_from_the_models_that_have_not_seen_a_node():
    val = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0]], dtype=bool)
    values = np.arange(12.0).reshape(3, 4, 1)
    found = Folds(~val, val).out_of_fold(values)
    assert found[:, 0].tolist() == [(0 + 8) / 2, 5, 0, 0]


def test_too_few_nodes_are_refused():
    with pytest.raises(DataError, match="Label more nodes"):
        make_folds(np.ones(3, bool), np.arange(3), 0.2, seed=0)
    with pytest.raises(ConfigError, match="between 0 and 1"):
        make_folds(np.ones(9, bool), np.zeros(9, int), 1.0, seed=0)
