"""The polynomial filter on a CPU: one pass over the nodes per step, all steps in one function.

The mathematics is that of `reference.py`. A step visits a node, gathers what it needs from its
neighbours into tiles (see `cpu_tiles.py`) and finishes the recurrence there and then, so that no
message is ever stored. Of T_{k−1} only a node's own row is read, and T_{k+1} may overwrite it: two
signals suffice. A half-edge belongs to its row, so ∂off is written without races.

Signals are `[R | 1, N, d, C]` with C a multiple of `LANES`; blocks are `[R | 1, N | H, d]`
(diagonals) or `[R | 1, N | H, d, d]`. `rows` is a tuple whose length divides d.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from polynsd.kernels.cpu_tiles import (
    LANES,
    add_diagonal,
    add_dots,
    add_outer,
    add_product,
    combine,
    dot,
    load,
    store,
    zeros,
)

OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz"}}
HELPER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
loop = njit(**HELPER, **OPTIONS)
inlined = njit(forceinline=True, **HELPER, **OPTIONS)


def compiled(function):
    """A parallel function, compiled at its first call; later processes find it in Numba's cache."""
    try:
        return njit(parallel=True, cache=True, **OPTIONS)(function)
    except RuntimeError:  # no folder may be written to
        return njit(parallel=True, **OPTIONS)(function)


class Graph(NamedTuple):
    """Where the blocks are, and in how many shares the nodes are visited."""

    rowptr: Any
    col: Any
    shares: int


class Blocks(NamedTuple):
    """Of all replicas, or of one."""

    diag: Any
    off: Any


class Window(NamedTuple):
    """The part of every node's signal that tiles hold: len(rows) of d coordinates, LANES of C channels."""

    i: int
    c: int
    d: int
    C: int
    rows: Any


class Forward(NamedTuple):
    """Step k of the forward pass of one replica: T_k from T_{k−1} and T_{k−2}."""

    k: int
    T: Any
    below: Any
    below_2: Any
    y: Any
    x: Any
    phi: Any


class Backward(NamedTuple):
    """Step k of the backward pass of one replica: T_{k−1} and B_k from those above."""

    k: int
    T: Any
    T_above: Any
    T_below: Any
    B_above: Any
    B: Any  # B_{k+2} before, B_k after
    g: Any
    phi: Any
    d_blocks: Blocks
    blocks_wanted: bool
    d_phi: Any  # [K + 1] in float64, of this share


@compiled
def filter_forward(graph, blocks, rows, x, phi, y, odd, even):
    """Fills y, and the odd and the even signal with T_K and T_{K−1}, K ≥ 1."""
    tasks = y.shape[0] * graph.shares
    for k in range(1, phi.shape[1]):
        T, below = (odd, even) if k % 2 else (even, odd)
        signals = (T, x if k == 1 else below, x if k <= 2 else T, y)
        if tasks == 1:  # a small graph is not worth waking a thread
            forward_share(0, graph, blocks, rows, x, phi, signals, k)
        else:
            for task in prange(tasks):
                forward_share(task, graph, blocks, rows, x, phi, signals, k)


@loop
def forward_share(task, graph, blocks, rows, x, phi, signals, k):
    """Step k at the nodes of a share."""
    r, number = divmod(np.intp(task), graph.shares)
    T, below, below_2, y = signals
    step = Forward(
        k, replica(T, r), replica(below, r), replica(below_2, r), y[r], replica(x, r), replica(phi, r)
    )
    own = Blocks(replica(blocks.diag, r), replica(blocks.off, r))
    _, d, C = step.T.shape
    for v in range(first_node(graph, number), first_node(graph, number + 1)):
        for c in range(0, C, LANES):
            for i in range(0, d, len(rows)):
                forward_tile(graph, own, step, v, Window(i, c, d, C, rows))


@inlined
def forward_tile(graph, blocks, step, v, window):
    """T_k = 2 A T_{k−1} − T_{k−2} and y += φ_k T_k."""
    tile = add_block(blocks.diag, v, step.below, v, window, zeros(step.x, window.rows))
    for h in range(graph.rowptr[v], graph.rowptr[v + 1]):
        tile = add_block(blocks.off, h, step.below, graph.col[h], window, tile)
    if step.k == 1:
        y = combine(step.phi[0], read(step.x, v, window), step.phi[1], tile)
    else:
        tile = combine(2, tile, -1, read(step.below_2, v, window))
        y = combine(1, read(step.y, v, window), step.phi[step.k], tile)
    write(step.T, v, window, tile)
    write(step.y, v, window, y)


@compiled
def filter_backward(graph, blocks, rows, x, phi, last, before, g, T, B, d_blocks, blocks_wanted, d_phi):
    """Fills ∂blocks, ∂φ `[R, shares, K + 1]` and, in B[0], ∂x.

    `last` is T_K; `before` is T_{K−1}, or x where K = 1. T are two signals to work in. B are two, of
    which B[K % 2] = φ_K g and the other is zero, as are ∂blocks and ∂φ.
    """
    K = phi.shape[1] - 1
    tasks = g.shape[0] * graph.shares
    for k in range(K - 1, -1, -1):
        T_k, T_above = term(k, K, x, last, before, T), term(k + 1, K, x, last, before, T)
        signals = (T_k, T_above, T[(k + 1) % 2], B[(k + 1) % 2], B[k % 2], g)
        if tasks == 1:
            backward_share(0, graph, blocks, rows, phi, signals, k, d_blocks, blocks_wanted, d_phi)
        else:
            for task in prange(tasks):
                backward_share(task, graph, blocks, rows, phi, signals, k, d_blocks, blocks_wanted, d_phi)


@inlined
def term(k, K, x, last, before, T):
    """T_k where it is to be found."""
    if k == 0:
        return x
    if k == K:
        return last
    return before if k == K - 1 else T[k % 2]


@loop
def backward_share(task, graph, blocks, rows, phi, signals, k, d_blocks, blocks_wanted, d_phi):
    """Step k at the nodes of a share."""
    r, number = divmod(np.intp(task), graph.shares)
    T, T_above, T_below, B_above, B, g = signals
    d_own = Blocks(d_blocks.diag[r], d_blocks.off[r])
    step = Backward(
        k, replica(T, r), replica(T_above, r), T_below[r], B_above[r], B[r], g[r], replica(phi, r),
        d_own, blocks_wanted, d_phi[r, number],
    )  # fmt: skip
    own = Blocks(replica(blocks.diag, r), replica(blocks.off, r))
    _, d, C = step.T.shape
    for v in range(first_node(graph, number), first_node(graph, number + 1)):
        for c in range(0, C, LANES):
            for i in range(0, d, len(rows)):
                backward_tile(graph, own, step, v, Window(i, c, d, C, rows))


@inlined
def backward_tile(graph, blocks, step, v, window):
    """T_{k−1} = 2 A T_k − T_{k+1}, B_k = φ_k g + a_k A B_{k+1} − B_{k+2} and ∂A += a_k B_{k+1} T_kᵀ."""
    a = 2 if step.k > 0 else 1
    B = read(step.B_above, v, window)
    nothing = zeros(step.T, window.rows)
    AT = add_block(blocks.diag, v, step.T, v, window, nothing)
    AB = add_block(blocks.diag, v, step.B_above, v, window, nothing)
    if step.blocks_wanted:
        add_gradient(step.d_blocks.diag, v, a, B, step.T, v, window)
    for h in range(graph.rowptr[v], graph.rowptr[v + 1]):
        u = graph.col[h]
        AT = add_block(blocks.off, h, step.T, u, window, AT)
        AB = add_block(blocks.off, h, step.B_above, u, window, AB)
        if step.blocks_wanted:
            add_gradient(step.d_blocks.off, h, a, B, step.T, u, window)
    g, T_above = read(step.g, v, window), read(step.T_above, v, window)
    step.d_phi[step.k + 1] += dot(T_above, g)
    if step.k == 0:
        step.d_phi[0] += dot(read(step.T, v, window), g)
    if step.k > 1:
        write(step.T_below, v, window, combine(2, AT, -1, T_above))
    rest = combine(step.phi[step.k], g, -1, read(step.B, v, window))
    write(step.B, v, window, combine(a, AB, 1, rest))


@inlined
def add_block(block, b, x, u, window, tile):
    """The tile plus the window's rows of block b times x_u."""
    i, _, d, _, rows = window
    if block.ndim == 2:
        return add_diagonal(block, b * d + i, read(x, u, window), tile)
    for j in range(0, d, len(rows)):
        tile = add_product(block, (b * d + i) * d + j, d, 1, read(x, u, at_row(window, j)), tile)
    return tile


@inlined
def add_gradient(block, b, a, B, T, u, window):
    """Adds a B T_uᵀ to the window's rows of the gradient of block b."""
    i, _, d, _, rows = window
    if block.ndim == 2:
        add_dots(block, b * d + i, a, B, read(T, u, window))
    else:
        for j in range(0, d, len(rows)):
            add_outer(block, (b * d + i) * d + j, d, a, B, read(T, u, at_row(window, j)))


@inlined
def at_row(window, j):
    """The window with other rows."""
    return Window(j, window.c, window.d, window.C, window.rows)


@inlined
def read(x, v, window):
    """The tile of x_v."""
    i, c, d, C, rows = window
    return load(x, (v * d + i) * C + c, C, rows)


@inlined
def write(x, v, window, tile):
    """x_v = tile, in the window."""
    i, c, d, C, _ = window
    store(x, (v * d + i) * C + c, C, tile)


@inlined
def replica(t, r):
    """The r-th, or the one that all share."""
    return t[r if t.shape[0] > 1 else 0]


@inlined
def first_node(graph, number):
    """Where a share begins: shares have about equally many nodes and half-edges together."""
    rowptr = graph.rowptr
    low, high = 0, rowptr.size - 1
    target = (rowptr[high] + high) * number // graph.shares
    while low < high:
        middle = (low + high) // 2
        if rowptr[middle] + middle < target:
            low = middle + 1
        else:
            high = middle
    return low
