"""Between nodes and half-edges, and products and eigenvalues of many small matrices, on a CPU."""

from functools import cache
from typing import Any

import numpy as np
import torch
from numba import carray

from polynsd.kernels.cpu.compile import (
    COUNT,
    INDEX,
    NUMBER,
    SHARES,
    first,
    first_node,
    inlined,
    loop,
    replica,
)
from polynsd.kernels.cpu.tiles import (
    LANES,
    add_outer,
    add_product,
    item,
    load,
    load_block,
    store,
    zeros_like,
)

WIDTH = 2  # in the sizes

UNITS = {4: np.float32(0), 8: np.float64(0), 16: np.complex128(0)}
SWEEPS = 30  # Jacobi's method converges quadratically: 5 to 8 do in practice
EPSILON = float(np.finfo(np.float64).eps)
NEGLIGIBLE = 1e-3 * EPSILON


@cache
def take(unit: int) -> Any:
    """Out[r, m] = values[r, index[m]]; rows are moved in units of 4, 8 or 16 bytes.

    Tensors: values, index, out. Sizes: rows of out, shares, units in a row, rows of values.
    """
    like = UNITS[unit]

    @loop
    def share(task, k, tensors, sizes):
        r, number = divmod(task, item(sizes, SHARES))
        values = carray(replica(tensors, 0, r, like), (item(sizes, 3), item(sizes, WIDTH)))
        index = replica(tensors, 1, 0, INDEX)
        out = carray(replica(tensors, 2, r, like), (item(sizes, COUNT), item(sizes, WIDTH)))
        for m in range(first(sizes, number), first(sizes, number + 1)):
            for f in range(out.shape[1]):
                out[m, f] = values[item(index, m), f]

    return share


@cache
def segment_sum(dtype: torch.dtype) -> Any:
    """Out[r, v] = Σ values[r, order[h]] over the half-edges h of v, added up in float64.

    Tensors: rowptr, order, values, out. Sizes: N, shares, numbers in a row, H, whether there is an order.
    """
    like = NUMBER[dtype]

    @loop
    def share(task, k, tensors, sizes):
        r, number = divmod(task, item(sizes, SHARES))
        rowptr, order = replica(tensors, 0, 0, INDEX), replica(tensors, 1, 0, INDEX)
        values = carray(replica(tensors, 2, r, like), (item(sizes, 3), item(sizes, WIDTH)))
        out = carray(replica(tensors, 3, r, like), (item(sizes, COUNT), item(sizes, WIDTH)))
        total = np.empty(item(sizes, WIDTH), np.float64)
        for v in range(first_node(rowptr, sizes, number), first_node(rowptr, sizes, number + 1)):
            total[:] = 0
            for h in range(item(rowptr, v), item(rowptr, v + 1)):
                row = item(order, h) if item(sizes, 4) else h
                for f in range(total.size):
                    total[f] += values[row, f]
            for f in range(total.size):
                out[v, f] = total[f]

    return share


@cache
def block_multiply(dtype: torch.dtype, d: int) -> Any:
    """Products of `[n, d, d]`.

    Tensors: a, b, product. Sizes: n, shares, d, whether a is transposed first, whether b is.
    """
    like, size = NUMBER[dtype], (0,) * d

    @loop
    def share(task, k, tensors, sizes):
        a, b, out = replica(tensors, 0, 0, like), replica(tensors, 1, 0, like), replica(tensors, 2, 0, like)
        down_a, across_a = (1, d) if item(sizes, 3) else (d, 1)
        down_b, across_b = (1, d) if item(sizes, 4) else (d, 1)
        for n in range(first(sizes, task), first(sizes, task + 1)):
            right = load_block(b, n * d * d, down_b, across_b, size)
            product = add_product(a, n * d * d, down_a, across_a, right, zeros_like(right))
            store(out, n * d * d, d, product)

    return share


@cache
def block_apply(dtype: torch.dtype, d: int) -> Any:
    """Products of `[n, d, d]` and `[n, d, C]`, C a multiple of LANES.

    Tensors: blocks, x, product. Sizes: n, shares, C, whether blocks are transposed first.
    """
    like, rows = NUMBER[dtype], (0,) * d

    @loop
    def share(task, k, tensors, sizes):
        block, x, out = (
            replica(tensors, 0, 0, like),
            replica(tensors, 1, 0, like),
            replica(tensors, 2, 0, like),
        )
        C = item(sizes, WIDTH)
        down, across = (1, d) if item(sizes, 3) else (d, 1)
        for n in range(first(sizes, task), first(sizes, task + 1)):
            for c in range(0, C, LANES):
                right = load(x, n * d * C + c, C, rows)
                product = add_product(block, n * d * d, down, across, right, zeros_like(right))
                store(out, n * d * C + c, C, product)

    return share


@cache
def block_outer(dtype: torch.dtype, d: int) -> Any:
    """Adds l rᵀ of `[n, d, C]`, C a multiple of LANES, to `[n, d, d]`.

    Tensors: left, right, sum. Sizes: n, shares, C.
    """
    like, rows = NUMBER[dtype], (0,) * d

    @loop
    def share(task, k, tensors, sizes):
        left, right, out = (
            replica(tensors, 0, 0, like),
            replica(tensors, 1, 0, like),
            replica(tensors, 2, 0, like),
        )
        C = item(sizes, WIDTH)
        for n in range(first(sizes, task), first(sizes, task + 1)):
            for c in range(0, C, LANES):
                start = n * d * C + c
                add_outer(out, n * d * d, d, 1, load(left, start, C, rows), load(right, start, C, rows))

    return share


@cache
def symmetric_eigen(dtype: torch.dtype) -> Any:
    """Jacobi's method in float64 on the lower triangles, eigenvalues ascending; NaN where it fails.

    Tensors: A, values, vectors. Sizes: n, shares, d.
    """
    like = NUMBER[dtype]

    @loop
    def share(task, k, tensors, sizes):
        count, d = item(sizes, COUNT), item(sizes, WIDTH)
        A = carray(replica(tensors, 0, 0, like), (count, d, d))
        values = carray(replica(tensors, 1, 0, like), (count, d))
        vectors = carray(replica(tensors, 2, 0, like), (count, d, d))
        S, Q, order = np.empty((d, d)), np.empty((d, d)), np.empty(d, np.intp)
        for n in range(first(sizes, task), first(sizes, task + 1)):
            scale = load_scaled(A[n], S)
            if not (np.isfinite(scale) and diagonalised(S, Q)):
                values[n], vectors[n] = np.nan, np.nan
                continue
            sort(S, order)
            for j in range(d):
                values[n, j] = scale * S[order[j], order[j]]
                for i in range(d):
                    vectors[n, i, j] = Q[order[j], i]

    return share


@inlined
def load_scaled(A, S):
    """S = A / scale has entries of at most 1, so that no square over- or underflows."""
    scale = 0.0
    for i in range(A.shape[0]):
        for j in range(i + 1):
            size = abs(np.float64(A[i, j]))
            if size > scale or np.isnan(size):
                scale = size
    for i in range(A.shape[0]):
        for j in range(i + 1):
            S[i, j] = S[j, i] = A[i, j] / scale if scale else 0.0
    return scale


@inlined
def diagonalised(S, Q):
    """Rotates S to a diagonal and collects the rotations; False where that does not end."""
    d = S.shape[0]
    Q[:] = 0
    for i in range(d):
        Q[i, i] = 1
    for _ in range(SWEEPS):
        if is_diagonal(S):
            return True
        for p in range(d - 1):
            for q in range(p + 1, d):
                if abs(S[p, q]) > NEGLIGIBLE:
                    rotate(S, Q, p, q)
    return is_diagonal(S)


@inlined
def is_diagonal(S):
    """Whether the entries off the diagonal are rounding errors; no entry is above 1."""
    total = 0.0
    for i in range(S.shape[0]):
        for j in range(i):
            total += S[i, j] ** 2
    return total <= EPSILON**2


@inlined
def rotate(S, Q, p, q):
    """S ← JᵀSJ and Q ← JᵀQ with the smaller angle that makes S_pq zero."""
    theta = (S[q, q] - S[p, p]) / (2 * S[p, q])
    t = np.copysign(1.0, theta) / (abs(theta) + np.sqrt(theta * theta + 1))
    c = 1 / np.sqrt(t * t + 1)
    s = t * c
    S_pp, S_qq = S[p, p] - t * S[p, q], S[q, q] + t * S[p, q]
    for k in range(S.shape[0]):
        S[p, k], S[q, k] = c * S[p, k] - s * S[q, k], s * S[p, k] + c * S[q, k]
        Q[p, k], Q[q, k] = c * Q[p, k] - s * Q[q, k], s * Q[p, k] + c * Q[q, k]
    for k in range(S.shape[0]):
        S[k, p], S[k, q] = S[p, k], S[q, k]
    S[p, p], S[q, q], S[p, q], S[q, p] = S_pp, S_qq, 0, 0


@inlined
def sort(S, order):
    """The order in which the diagonal ascends, by insertion."""
    for j in range(order.size):
        i = j
        while i > 0 and S[order[i - 1], order[i - 1]] > S[j, j]:
            order[i] = order[i - 1]
            i -= 1
        order[i] = j
