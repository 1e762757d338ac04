"""Many models on many datasets: scipy, Demšar's numbers, and bars that mean what they say."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from polynsd.errors import ConfigError, DataError, ShapeError
from polynsd.stats import critical_difference, friedman, rank_models, signed_rank
from polynsd.stats.ranking import dataset_ranks, maximal_runs, pairwise_wilcoxon


def drifting(datasets=12, models=6, drift=0.8, seed=0):
    draw = np.random.default_rng(seed)
    return draw.normal(size=(datasets, models)) - drift * np.arange(models)


def by_name(table):
    return {f"model {j}": column for j, column in enumerate(table.T)}


@given(arrays(np.float64, (7, 4), elements=st.integers(0, 5).map(float)))
def test_friedman_is_scipys_with_ties(table):
    ours = friedman(table)
    if np.ptp(table, axis=1).any():
        assert ours.chi_square == pytest.approx(stats.friedmanchisquare(*table.T).statistic)
    else:
        assert (ours.chi_square, ours.p) == (0, 1)


def test_iman_davenport_of_the_published_example():
    """Demšar (2006): N = 14, k = 4, χ² = 9.28 gives F = 3.69 with 3 and 39 degrees of freedom."""
    f = 13 * 9.28 / (14 * 3 - 9.28)
    assert f == pytest.approx(3.69, abs=0.005)
    ours = friedman(drifting(14, 4))
    assert ours.f == pytest.approx(13 * ours.chi_square / (14 * 3 - ours.chi_square))
    assert ours.p == pytest.approx(stats.f.sf(ours.f, 3, 39))


def test_the_same_order_everywhere_is_certain():
    result = friedman(np.tile([3.0, 2.0, 1.0], (5, 1)))
    assert (result.chi_square, result.f, result.p) == (pytest.approx(10), math.inf, 0)


def test_critical_difference_of_the_published_example():
    """Demšar (2006): q = 2.569 and CD = 1.25 at α = 0.05, 1.12 at 0.1, with N = 14 and k = 4."""
    assert critical_difference(4, 14) == pytest.approx(2.569 * math.sqrt(4 * 5 / (6 * 14)), abs=1e-3)
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert critical_difference(4, 14, alpha=0.1) == pytest.approx(1.12, abs=0.005)


@given(arrays(np.float64, (6, 5), elements=st.integers(0, 9).map(float)))
def test_ranks_of_a_dataset_add_up(table):
    assert np.allclose(dataset_ranks(table).sum(axis=1), 5 * 6 / 2)
    assert np.array_equal(dataset_ranks(table), dataset_ranks(3 * table - 7))


def test_ranking_is_sorted_and_complete():
    table = drifting()
    ranking = rank_models(by_name(table[:, ::-1]))
    assert sorted(ranking.models) == sorted(by_name(table))
    assert list(ranking.ranks) == sorted(ranking.ranks)
    assert ranking.ranks[0] == dataset_ranks(table).mean(axis=0).min()
    assert sum(ranking.ranks) == pytest.approx(6 * 7 / 2)


def test_nemenyi_bars_join_what_is_closer_than_the_critical_difference():
    ranking = rank_models(by_name(drifting()))
    ranks, limit = ranking.ranks, ranking.critical_difference
    joined = {pair for first, last in ranking.cliques for pair in combinations(range(first, last + 1), 2)}
    assert joined == {(i, j) for i, j in combinations(range(6), 2) if ranks[j] - ranks[i] < limit}
    assert 0 < len(joined) < 15


def test_wilcoxon_bars_join_only_pairs_that_no_test_tells_apart():
    table = drifting(drift=1.2)
    ranking = rank_models(by_name(table), post_hoc="wilcoxon-holm")
    assert ranking.critical_difference is None
    order = [int(name.split()[1]) for name in ranking.models]
    p = pairwise_wilcoxon(table[:, order])
    assert np.array_equal(p, p.T)
    assert (np.diag(p) == 1).all()
    assert p[0, 1] >= signed_rank(table[:, order[0]] - table[:, order[1]]).p
    joined = {pair for first, last in ranking.cliques for pair in combinations(range(first, last + 1), 2)}
    assert all(p[pair] > 0.05 for pair in joined)
    assert 0 < len(joined) < 15


@given(arrays(np.bool_, (6, 6)))
def test_runs_are_maximal(alike):
    alike = alike | alike.T | np.eye(6, dtype=bool)
    runs = maximal_runs(alike)
    good = [
        (i, j) for i, j in combinations(range(6), 2) if alike[i : j + 1, i : j + 1].all()
    ]  # every run there is
    assert set(runs) == {
        run for run in good if not any(o != run and o[0] <= run[0] and run[1] <= o[1] for o in good)
    }
    assert list(runs) == sorted(runs)


def test_equal_models_share_one_bar():
    ranking = rank_models({name: [0.5, 0.6, 0.7] for name in "abc"})
    assert (ranking.ranks, ranking.cliques, ranking.friedman.p) == ((2, 2, 2), ((0, 2),), 1)


@pytest.mark.parametrize(
    ("scores", "options", "error", "words"),
    [
        ({"a": [1, 2]}, {}, ConfigError, "number of models must be"),
        ({"a": [1], "b": [2]}, {}, ConfigError, "number of datasets must be"),
        ({"a": [1, 2], "b": [1, 2, 3]}, {}, ShapeError, r"same datasets; got a: \[2\], b: \[3\]"),
        ({"a": [[1, 2]], "b": [[1, 2]]}, {}, ShapeError, "one score for each"),
        ({"a": [1, 2], "GAT": [1, np.nan]}, {}, DataError, r"scores of GAT must be finite; got nan at \[1\]"),
        ({"a": [1, 2], "b": [1, 2]}, {"post_hoc": "nemeny"}, ConfigError, "Did you mean 'nemenyi'"),
        ({"a": [1, 2], "b": [1, 2]}, {"alpha": 5}, ConfigError, "alpha must lie in"),
    ],
)
def test_what_cannot_be_ranked_is_refused(scores, options, error, words):
    with pytest.raises(error, match=words):
        rank_models(scores, **options)
