"""The polynomial filter on a CPU: one pass over the nodes per step k.

The mathematics is that of `ops/reference.py`. A step visits a node, gathers what it needs from its
neighbours into tiles (see `tiles.py`) and finishes the recurrence there and then, so that no
message is ever stored. Of T_{k−1} only a node's own row is read, and T_{k+1} may overwrite it: two
signals suffice. A half-edge belongs to its row, so ∂off is written without races.

Signals are `[N, d, C]` with C a multiple of `LANES`, blocks `[N | H, d]` (diagonals) or
`[N | H, d, d]`. A task is one share of the nodes of one replica.
"""

from functools import cache
from typing import Any, NamedTuple

import torch

from polynsd.kernels.cpu.compile import DOUBLE, INDEX, NUMBER, SHARES, first_node, inlined, loop, replica
from polynsd.kernels.cpu.tiles import (
    LANES,
    add_diagonal,
    add_dots,
    add_item,
    add_outer,
    add_product,
    combine,
    dot,
    item,
    load,
    prefetch,
    store,
    zeros,
)

# tensors and sizes, in this order
ROWPTR, COL, DIAG, OFF, PHI, X, Y, T_EVEN, T_ODD = range(9)
LAST, BEFORE, G, T, _, B, _, D_DIAG, D_OFF, D_PHI = range(6, 16)  # T and B stand for two signals each
STALK, CHANNELS, DEGREE, BLOCKS_WANTED = range(2, 6)  # the number of nodes and SHARES come first

AHEAD = 4  # half-edges between asking for a neighbour and reading it


class PatternPointers(NamedTuple):
    """Where the blocks are."""

    rowptr: Any
    col: Any


class Blocks(NamedTuple):
    """Of an operator, or of its gradient."""

    diag: Any
    off: Any


class Window(NamedTuple):
    """The part of a node's signal that a tile holds: len(rows) of d coordinates, LANES of C channels."""

    i: int
    c: int
    d: int
    C: int
    rows: Any
    is_dense: bool  # the blocks are matrices


class Forward(NamedTuple):
    """Step k: T_k from T_{k−1} and T_{k−2}."""

    k: int
    T: Any
    below: Any
    below_2: Any  # x where k = 1
    y: Any
    phi: Any


class Backward(NamedTuple):
    """Step k: T_{k−1} and B_k from those above."""

    k: int
    reverses: bool  # T_{k−1} is not known yet
    T: Any
    T_above: Any
    T_below: Any
    B_above: Any
    B: Any  # B_{k+2} before, B_k after
    g: Any
    phi: Any
    d_phi: Any  # [K + 1] in float64, of this share


@cache
def forward(dtype: torch.dtype, n: int, is_dense: bool) -> Any:
    """Fills y and, for k = 1 … K, the signals T_odd and T_even in turn; tiles have n rows."""
    like, rows = NUMBER[dtype], (0,) * n

    @loop
    def share(task, k, tensors, sizes):
        r, number = divmod(task, item(sizes, SHARES))
        T = T_EVEN + k % 2
        below, below_2 = X if k == 1 else T_EVEN + (k + 1) % 2, X if k <= 2 else T
        step = Forward(
            k,
            replica(tensors, T, r, like),
            replica(tensors, below, r, like),
            replica(tensors, below_2, r, like),
            replica(tensors, Y, r, like),
            replica(tensors, PHI, r, like),
        )
        graph = PatternPointers(replica(tensors, ROWPTR, 0, INDEX), replica(tensors, COL, 0, INDEX))
        blocks = Blocks(replica(tensors, DIAG, r, like), replica(tensors, OFF, r, like))
        d, C = item(sizes, STALK), item(sizes, CHANNELS)
        first, end = first_node(graph.rowptr, sizes, number), first_node(graph.rowptr, sizes, number + 1)
        for v in range(first, end):
            for c in range(0, C, LANES):
                for i in range(0, d, n):
                    forward_tile(graph, blocks, step, v, Window(i, c, d, C, rows, is_dense))

    return share


@inlined
def forward_tile(graph, blocks, step, v, window):
    """T_k = 2 A T_{k−1} − T_{k−2} and y += φ_k T_k."""
    tile = add_block(blocks.diag, v, step.below, v, window, zeros(step.T, window.rows))
    for h in range(item(graph.rowptr, v), item(graph.rowptr, v + 1)):
        tile = add_block(blocks.off, h, step.below, item(graph.col, h), window, tile)
    below_2 = own(step.below_2, v, window)
    if step.k == 1:
        y = combine(item(step.phi, 0), below_2, item(step.phi, 1), tile)
    else:
        tile = combine(2, tile, -1, below_2)
        y = combine(1, own(step.y, v, window), item(step.phi, step.k), tile)
    write(step.T, v, window, tile)
    write(step.y, v, window, y)


@cache
def backward(dtype: torch.dtype, n: int, is_dense: bool) -> Any:
    """Fills ∂blocks, ∂φ `[R, shares, K + 1]`, in B[0] ∂x and, where K > 2, in T[0] T_0, for k = K − 1 … 0.

    LAST is T_K; BEFORE is T_{K−1}, or x where K = 1. T are two signals to work in. B are two, of
    which B[K % 2] = φ_K g and the other is zero, as are ∂blocks and ∂φ.
    """
    like, rows = NUMBER[dtype], (0,) * n

    @loop
    def share(task, k, tensors, sizes):
        K = item(sizes, DEGREE)
        r, number = divmod(task, item(sizes, SHARES))
        step = Backward(
            k,
            k > 0 and K > 2,
            replica(tensors, term(k, K), r, like),
            replica(tensors, term(k + 1, K), r, like),
            replica(tensors, T + (k + 1) % 2, r, like),
            replica(tensors, B + (k + 1) % 2, r, like),
            replica(tensors, B + k % 2, r, like),
            replica(tensors, G, r, like),
            replica(tensors, PHI, r, like),
            replica(tensors, D_PHI, task, DOUBLE),
        )
        graph = PatternPointers(replica(tensors, ROWPTR, 0, INDEX), replica(tensors, COL, 0, INDEX))
        blocks = Blocks(replica(tensors, DIAG, r, like), replica(tensors, OFF, r, like))
        gradient = Blocks(replica(tensors, D_DIAG, r, like), replica(tensors, D_OFF, r, like))
        wanted, d, C = item(sizes, BLOCKS_WANTED), item(sizes, STALK), item(sizes, CHANNELS)
        first, end = first_node(graph.rowptr, sizes, number), first_node(graph.rowptr, sizes, number + 1)
        for v in range(first, end):
            for c in range(0, C, LANES):
                for i in range(0, d, n):
                    window = Window(i, c, d, C, rows, is_dense)
                    backward_tile(graph, blocks, gradient, wanted, step, v, window)

    return share


@inlined
def term(k, K):
    """Which tensor is T_k."""
    if k == 0:
        return X
    if k == K:
        return LAST
    return BEFORE if k == K - 1 else T + k % 2


@inlined
def backward_tile(graph, blocks, gradient, wanted, step, v, window):
    """T_{k−1} = 2 A T_k − T_{k+1}, B_k = φ_k g + a_k A B_{k+1} − B_{k+2} and ∂A += a_k B_{k+1} T_kᵀ."""
    a = 2 if step.k > 0 else 1
    B_above, nothing = own(step.B_above, v, window), zeros(step.T, window.rows)
    AT = add_block(blocks.diag, v, step.T, v, window, nothing)
    AB = add_block(blocks.diag, v, step.B_above, v, window, nothing)
    if wanted:
        add_gradient(gradient.diag, v, a, B_above, step.T, v, window)
    first, end = item(graph.rowptr, v), item(graph.rowptr, v + 1)
    for h in range(first, end):
        u, ahead = item(graph.col, h), item(graph.col, min(h + AHEAD, end - 1))
        prefetch(step.B_above, place(ahead, window.i, window), window.C, window.rows)
        AB = add_block(blocks.off, h, step.B_above, u, window, AB)
        if wanted or step.reverses:
            prefetch(step.T, place(ahead, window.i, window), window.C, window.rows)
        if step.reverses:
            AT = add_block(blocks.off, h, step.T, u, window, AT)
        if wanted:
            add_gradient(gradient.off, h, a, B_above, step.T, u, window)
    g, T_above = own(step.g, v, window), own(step.T_above, v, window)
    add_item(step.d_phi, step.k + 1, dot(T_above, g))
    if step.k == 0:
        add_item(step.d_phi, 0, dot(own(step.T, v, window), g))
    if step.reverses:
        write(step.T_below, v, window, combine(2, AT, -1, T_above))
    rest = combine(item(step.phi, step.k), g, -1, own(step.B, v, window))
    write(step.B, v, window, combine(a, AB, 1, rest))


@inlined
def add_block(block, b, x, u, window, tile):
    """The tile plus the window's rows of block b times x_u."""
    i, _, d, _, rows, is_dense = window
    if not is_dense:
        return add_diagonal(block, b * d + i, read(x, u, i, window), tile)
    for j in range(0, d, len(rows)):
        tile = add_product(block, (b * d + i) * d + j, d, 1, read(x, u, j, window), tile)
    return tile


@inlined
def add_gradient(block, b, a, B, x, u, window):
    """Adds a B x_uᵀ to the window's rows of the gradient of block b."""
    i, _, d, _, rows, is_dense = window
    if not is_dense:
        add_dots(block, b * d + i, a, B, read(x, u, i, window))
    else:
        for j in range(0, d, len(rows)):
            add_outer(block, (b * d + i) * d + j, d, a, B, read(x, u, j, window))


@inlined
def place(v, i, window):
    """Of x[v, i, c] among the numbers of a signal x."""
    return (v * window.d + i) * window.C + window.c


@inlined
def read(x, v, i, window):
    """The tile of x_v from row i on."""
    return load(x, place(v, i, window), window.C, window.rows)


@inlined
def own(x, v, window):
    """The tile of x_v in the window."""
    return read(x, v, window.i, window)


@inlined
def write(x, v, window, tile):
    """x_v = tile, in the window."""
    store(x, place(v, window.i, window), window.C, tile)
