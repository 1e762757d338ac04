"""Minesweeper boards of any size, built by the rules of the public benchmark graph.

Cells of a grid are joined to their eight neighbours; the task is to find the mines (y = 1). An
open cell shows how many of its neighbours are mines, a hidden cell shows nothing. Mines can be
open cells too: openness says nothing about y. With the default arguments the graph has the size of
the public one, but another random board; for published numbers use the public file and its masks.
"""

import numpy as np

from polynsd.data.edges import merge_edges
from polynsd.data.generators.common import (
    BoolArray,
    FloatArray,
    IntArray,
    random_streams,
    require_probability,
)
from polynsd.data.graph import Graph
from polynsd.errors import require_at_least

LARGEST_COUNT = 5  # counts of five and more share the last column


def minesweeper(
    rows: int = 100,
    cols: int = 100,
    mine_fraction: float = 0.2,
    hidden_fraction: float = 0.5,
    seed: int = 0,
) -> Graph:
    """A board of rows·cols cells, cell (r, c) being node r·cols + c.

    Args:
        rows: Height of the board.
        cols: Width of the board.
        mine_fraction: Exactly round(mine_fraction·N) cells are mines.
        hidden_fraction: Exactly round(hidden_fraction·N) cells hide their count.
        seed: The same arguments and seed give the same board.

    Returns:
        A graph with `x` [N, 7], where column 0 marks hidden cells and columns 1 to 6 are the one-hot count
        0, 1, 2, 3, 4, five or more of the others, and `y` [N], which is 1 for a mine.
    """
    require_at_least("rows", rows, 1)
    require_at_least("cols", cols, 1)
    require_probability("mine_fraction", mine_fraction)
    require_probability("hidden_fraction", hidden_fraction)
    mine_rng, hidden_rng = random_streams(seed, 2)
    mines = random_subset(rows * cols, mine_fraction, mine_rng)
    hidden = random_subset(rows * cols, hidden_fraction, hidden_rng)
    counts = neighbouring_mines(mines.reshape(rows, cols)).ravel()
    return Graph(
        name="minesweeper",
        edge_index=merge_edges(king_moves(rows, cols), rows * cols).edge_index,
        num_nodes=rows * cols,
        x=cell_features(counts, hidden).astype(np.float32),
        y=mines.astype(np.int64),
    )


def random_subset(size: int, fraction: float, rng: np.random.Generator) -> BoolArray:
    """A mask of exactly round(fraction·size) random entries."""
    mask = np.zeros(size, dtype=np.bool_)
    mask[rng.permutation(size)[: round(fraction * size)]] = True
    return mask


def neighbouring_mines(mines: BoolArray) -> IntArray:
    """For every cell of the board [rows, cols], the mines among its up to eight neighbours."""
    padded = np.pad(mines.astype(np.int64), 1)
    columns = padded[:-2] + padded[1:-1] + padded[2:]  # [rows, cols + 2]
    squares: IntArray = columns[:, :-2] + columns[:, 1:-1] + columns[:, 2:]
    return squares - mines


def cell_features(counts: IntArray, hidden: BoolArray) -> FloatArray:
    """Features [N, 7] from the counts [N]; a hidden cell shows column 0 and nothing else."""
    column = np.where(hidden, 0, 1 + np.minimum(counts, LARGEST_COUNT))
    return np.eye(2 + LARGEST_COUNT)[column]


def king_moves(rows: int, cols: int) -> IntArray:
    """All edges [2, E], each once: to the east, south-west, south and south-east."""
    cell = np.arange(rows * cols).reshape(rows, cols)
    source = cell[:, :-1], cell[:-1, 1:], cell[:-1], cell[:-1, :-1]
    target = cell[:, 1:], cell[1:, :-1], cell[1:], cell[1:, 1:]
    return np.stack([np.concatenate([end.ravel() for end in ends]) for ends in (source, target)])
