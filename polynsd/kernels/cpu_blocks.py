"""Between nodes and half-edges, and products and eigenvalues of many small matrices, on a CPU."""

import numpy as np
from numba import prange

from polynsd.kernels.cpu_loops import compiled, first_node, inlined, loop
from polynsd.kernels.cpu_tiles import add_product, load_block, store, zeros_like

SWEEPS = 30  # Jacobi's method converges quadratically: 5 to 8 do in practice
EPSILON = float(np.finfo(np.float64).eps)
NEGLIGIBLE = 1e-3 * EPSILON


@compiled
def take(values, index, out):
    """out[r, m] = values[r, index[m]]."""
    R, shares = out.shape[0], number_of_shares(out[0])
    for task in prange(R * shares):
        r, number = divmod(np.intp(task), shares)
        take_share(number, values[r], index, out[r])


@loop
def take_share(number, values, index, out):
    """Copies the rows of a share."""
    for m in range(*bounds(number, out)):
        for f in range(out.shape[1]):
            out[m, f] = values[index[m], f]


@compiled
def segment_sum(graph, order, values, out):
    """out[r, v] = Σ values[r, order[h]] over the half-edges h of v, added up in float64."""
    for task in prange(out.shape[0] * graph.shares):
        sum_share(task, graph, order, values, out)


@loop
def sum_share(task, graph, order, values, out):
    """Sums at the nodes of a share."""
    r, number = divmod(np.intp(task), graph.shares)
    source, target = values[r], out[r]
    total = np.empty(values.shape[2], np.float64)
    for v in range(first_node(graph, number), first_node(graph, number + 1)):
        total[:] = 0
        for h in range(graph.rowptr[v], graph.rowptr[v + 1]):
            row = order[h] if order.size else h
            for f in range(total.size):
                total[f] += source[row, f]
        for f in range(total.size):
            target[v, f] = total[f]


@compiled
def block_multiply(a, b, transpose_a, transpose_b, size, out):
    """Products of `[n, d, d]`; `size` is a tuple of length d."""
    for share in prange(number_of_shares(out)):
        multiply_share(share, a, b, transpose_a, transpose_b, size, out)


@loop
def multiply_share(share, a, b, transpose_a, transpose_b, size, out):
    """Products of a share of the matrices."""
    d = len(size)
    down_a, across_a = (1, d) if transpose_a else (d, 1)
    down_b, across_b = (1, d) if transpose_b else (d, 1)
    for n in range(*bounds(share, out)):
        right = load_block(b, n * d * d, down_b, across_b, size)
        store(out, n * d * d, d, add_product(a, n * d * d, down_a, across_a, right, zeros_like(right)))


@compiled
def symmetric_eigen(A, values, vectors):
    """Jacobi's method in float64 on the lower triangles, eigenvalues ascending; NaN where it fails."""
    for share in prange(number_of_shares(vectors)):
        eigen_share(share, A, values, vectors)


@loop
def eigen_share(share, A, values, vectors):
    """Eigenvalues and eigenvectors of a share of the matrices."""
    d = A.shape[1]
    S, Q, order = np.empty((d, d)), np.empty((d, d)), np.empty(d, np.intp)
    for n in range(*bounds(share, vectors)):
        scale = load_scaled(A[n], S)
        if not (np.isfinite(scale) and diagonalised(S, Q)):
            values[n], vectors[n] = np.nan, np.nan
            continue
        sort(S, order)
        for j in range(d):
            values[n, j] = scale * S[order[j], order[j]]
            for i in range(d):
                vectors[n, i, j] = Q[order[j], i]


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


@inlined
def number_of_shares(out):
    """Into which a result `[n, ...]` is divided, whatever the number of threads."""
    return max(1, min(64, out.size // 1024))


@inlined
def bounds(share, out):
    """First and end of a share of the n."""
    n, shares = out.shape[0], number_of_shares(out)
    return n * np.intp(share) // shares, n * (np.intp(share) + 1) // shares
