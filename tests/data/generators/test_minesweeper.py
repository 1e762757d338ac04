"""Laws of the boards, and equality with the public benchmark where its file is at hand."""

import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polynsd.data import heterophily, minesweeper
from polynsd.data.generators.minesweeper import cell_features, king_moves, neighbouring_mines
from polynsd.data.validation import check_arrays
from polynsd.errors import ConfigError

sides = st.integers(1, 7)


def neighbours(rows, cols, row, col):
    return [
        r * cols + c
        for r, c in product(range(row - 1, row + 2), range(col - 1, col + 2))
        if 0 <= r < rows and 0 <= c < cols and (r, c) != (row, col)
    ]


@settings(max_examples=40, deadline=None)
@given(sides, sides, st.integers(0, 100))
def test_board_agrees_with_counting_by_hand(rows, cols, seed):
    data = minesweeper(rows, cols, mine_fraction=0.4, hidden_fraction=0.3, seed=seed)
    edges = []
    for row, col in product(range(rows), range(cols)):
        node, around = row * cols + col, neighbours(rows, cols, row, col)
        edges += [[node, other] for other in around if other > node]
        shown = 1 + min(5, int(data.y[around].sum()))
        assert data.x[node].sum() == 1
        assert data.x[node, 0] == 1 or data.x[node, shown] == 1
    assert data.edge_index.T.tolist() == edges


@pytest.mark.parametrize(("mines", "hidden"), [(0.2, 0.5), (0.0, 1.0), (1.0, 0.0), (0.37, 0.11)])
def test_counts_are_exact(mines, hidden):
    data = minesweeper(13, 21, mines, hidden)
    assert int(data.y.sum()) == round(mines * 273)
    assert int(data.x[:, 0].sum()) == round(hidden * 273)


def test_default_board_has_the_size_of_the_public_one():
    data = minesweeper()
    assert data.x.shape == (10_000, 7)
    assert data.edge_index.shape == (2, 39_402)
    assert int(data.y.sum()) == 2_000
    assert data.name == "minesweeper"
    check_arrays(data)


def test_boards_are_determined_by_the_seed():
    first, again, other = minesweeper(seed=3), minesweeper(seed=3), minesweeper(seed=4)
    assert np.array_equal(first.x, again.x)
    assert np.array_equal(first.y, again.y)
    assert not np.array_equal(first.y, other.y)


def test_hiding_cells_does_not_move_mines():
    assert np.array_equal(minesweeper(hidden_fraction=0.1).y, minesweeper(hidden_fraction=0.9).y)


def test_a_single_cell_is_a_board_without_edges():
    data = minesweeper(1, 1)
    assert data.edge_index.shape == (2, 0)
    assert np.isnan(heterophily(data))


def test_large_boards_have_exact_counts():
    data = minesweeper(400, 500)
    assert data.num_edges == 400 * 499 + 399 * 500 + 2 * 399 * 499


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        ({"rows": 0}, "rows must be an integer of at least 1; got 0"),
        ({"cols": -2}, "cols must be an integer of at least 1; got -2"),
        ({"mine_fraction": 1.2}, "mine_fraction must lie in"),
        ({"hidden_fraction": -0.2}, "hidden_fraction must lie in"),
        ({"seed": 1.5}, "seed must be an integer"),
    ],
)
def test_bad_arguments_raise_one_clear_error(arguments, fragment):
    with pytest.raises(ConfigError, match=fragment):
        minesweeper(**arguments)


@pytest.mark.data
@pytest.mark.skipif("POLYNSD_DATA" not in os.environ, reason="POLYNSD_DATA is not set")
def test_public_board_follows_the_same_rules():
    public = np.load(Path(os.environ["POLYNSD_DATA"]) / "minesweeper.npz", allow_pickle=False)
    ours = np.stack(king_moves(100, 100))
    np.testing.assert_array_equal(
        ours[:, np.lexsort(ours[::-1])],
        public["edge_index"][:, np.lexsort(public["edge_index"][::-1])],
    )
    counts = neighbouring_mines(public["y"].reshape(100, 100) == 1).ravel()
    np.testing.assert_array_equal(cell_features(counts, public["x"][:, 0] == 1), public["x"])
    assert public["y"].sum() == 2_000
    assert public["x"][:, 0].sum() == 5_000
