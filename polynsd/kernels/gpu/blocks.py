"""Triton kernels beside the filter: sums at nodes, products and eigenvalues of small matrices.

As in `filter.py`, numbers of nodes, half-edges and matrices are arguments, and rows of F or C numbers come as
groups of GROUP.
"""

import triton
import triton.language as tl

ANY = ["n", "groups", "num_edges", "num_nodes", "num_slots", "num_values"]


@triton.jit(do_not_specialize=ANY)
def sum_rows(
    tasks, twin, values, out, partial, num_edges, num_nodes, num_slots, groups,
    BY_COL: tl.constexpr, GROUP: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """Σ_h values[h] (of the twins if BY_COL) over the half-edges of a task."""
    task, r = tl.program_id(0), tl.program_id(1).to(tl.int64)
    node, begin = tl.load(tasks + 4 * task).to(tl.int64), tl.load(tasks + 4 * task + 1)
    end, slot = tl.load(tasks + 4 * task + 2), tl.load(tasks + 4 * task + 3).to(tl.int64)
    f, F = tl.arange(0, BLOCK_F)[None, :], groups * GROUP
    total = tl.zeros([BLOCK_E, BLOCK_F], out.dtype.element_ty)
    for start in range(begin, end, BLOCK_E):
        h = start + tl.arange(0, BLOCK_E)[:, None]
        inside = h < end
        if BY_COL:
            h = tl.load(twin + h, mask=inside, other=0)
        place = (r * num_edges + h.to(tl.int64)) * F + f
        total += tl.load(values + place, mask=inside & (f < F), other=0)
    row = tl.sum(total, 0)
    g = tl.arange(0, BLOCK_F)
    if slot >= 0:
        tl.store(partial + (r * num_slots + slot) * F + g, row, mask=g < F)
    else:
        tl.store(out + (r * num_nodes + node) * F + g, row, mask=g < F)


@triton.jit(do_not_specialize=ANY)
def sum_splits(
    splits, out, partial, num_nodes, num_slots, groups,
    GROUP: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """The whole row from its pieces."""
    split, r = tl.program_id(0), tl.program_id(1).to(tl.int64)
    node = tl.load(splits + 3 * split).to(tl.int64)
    first, end = tl.load(splits + 3 * split + 1), tl.load(splits + 3 * split + 2)
    f, F = tl.arange(0, BLOCK_F)[None, :], groups * GROUP
    total = tl.zeros([BLOCK_E, BLOCK_F], out.dtype.element_ty)
    for start in range(first, end, BLOCK_E):
        slot = start + tl.arange(0, BLOCK_E)[:, None]
        place = (r * num_slots + slot.to(tl.int64)) * F + f
        total += tl.load(partial + place, mask=(slot < end) & (f < F), other=0)
    g = tl.arange(0, BLOCK_F)
    tl.store(out + (r * num_nodes + node) * F + g, tl.sum(total, 0), mask=g < F)


@triton.jit(do_not_specialize=ANY)
def take(
    values, index, out, num_values, num_places, groups,
    GROUP: tl.constexpr, BLOCK_F: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """out[h] = values[index[h]]."""
    r = tl.program_id(1).to(tl.int64)
    h = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    f, F = tl.arange(0, BLOCK_F)[None, :], groups * GROUP
    here = (h < num_places) & (f < F)
    source = tl.load(index + h, mask=h < num_places, other=0).to(tl.int64)
    value = tl.load(values + (r * num_values + source) * F + f, mask=here, other=0)
    tl.store(out + (r * num_places + h.to(tl.int64)) * F + f, value, mask=here)


@triton.jit(do_not_specialize=ANY)
def multiply(
    a, b, out, n, TRANSPOSE_A: tl.constexpr, TRANSPOSE_B: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """C_ij = Σ_k A_ik B_kj."""
    m = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None, None]
    i = tl.arange(0, BLOCK_D)[None, :, None]
    j = tl.arange(0, BLOCK_D)[None, None, :]
    total = tl.zeros([ROWS, BLOCK_D, BLOCK_D], out.dtype.element_ty)
    for k in tl.static_range(D):
        at_a = k * D + i if TRANSPOSE_A else i * D + k
        at_b = j * D + k if TRANSPOSE_B else k * D + j
        left = tl.load(a + m * (D * D) + at_a, mask=(m < n) & (i < D), other=0)
        total += left * tl.load(b + m * (D * D) + at_b, mask=(m < n) & (j < D), other=0)
    tl.store(out + m * (D * D) + i * D + j, total, mask=(m < n) & (i < D) & (j < D))


@triton.jit(do_not_specialize=ANY)
def apply(
    block, x, out, n, groups, TRANSPOSE: tl.constexpr, GROUP: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_C: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """y_ic = Σ_j B_ij x_jc."""
    m = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None, None]
    i = tl.arange(0, BLOCK_D)[None, :, None]
    c, C = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, None, :], groups * GROUP
    total = tl.zeros([ROWS, BLOCK_D, BLOCK_C], out.dtype.element_ty)
    for j in tl.static_range(D):
        at = j * D + i if TRANSPOSE else i * D + j
        left = tl.load(block + m * (D * D) + at, mask=(m < n) & (i < D), other=0)
        total += left * tl.load(x + (m * D + j) * C + c, mask=(m < n) & (c < C), other=0)
    tl.store(out + (m * D + i) * C + c, total, mask=(m < n) & (i < D) & (c < C))


@triton.jit(do_not_specialize=ANY)
def outer(
    left, right, out, n, groups,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_C: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """B_ij = Σ_c l_ic r_jc."""
    m = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None, None, None]
    i, j = tl.arange(0, BLOCK_D)[None, :, None, None], tl.arange(0, BLOCK_D)[None, None, :, None]
    C = groups * GROUP
    total = tl.zeros([ROWS, BLOCK_D, BLOCK_D, BLOCK_C], out.dtype.element_ty)
    for start in range(0, C, BLOCK_C):
        c = start + tl.arange(0, BLOCK_C)[None, None, None, :]
        a = tl.load(left + (m * D + i) * C + c, mask=(m < n) & (i < D) & (c < C), other=0)
        total += a * tl.load(right + (m * D + j) * C + c, mask=(m < n) & (j < D) & (c < C), other=0)
    m = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None, None]
    i, j = tl.arange(0, BLOCK_D)[None, :, None], tl.arange(0, BLOCK_D)[None, None, :]
    tl.store(out + (m * D + i) * D + j, tl.sum(total, 3), mask=(m < n) & (i < D) & (j < D))


@triton.jit
def _entry(A, i, j, p, q):
    """A_pq of every matrix."""
    return tl.sum(tl.sum(tl.where((i == p) & (j == q), A, 0.0), 2), 1)[:, None, None]


@triton.jit
def _rotate_columns(A, j, p, q, c, s):
    at_p = tl.sum(tl.where(j == p, A, 0.0), 2)[:, :, None]
    at_q = tl.sum(tl.where(j == q, A, 0.0), 2)[:, :, None]
    return tl.where(j == p, c * at_p - s * at_q, tl.where(j == q, s * at_p + c * at_q, A))


@triton.jit
def _rotate_rows(A, i, p, q, c, s):
    at_p = tl.sum(tl.where(i == p, A, 0.0), 1)[:, None, :]
    at_q = tl.sum(tl.where(i == q, A, 0.0), 1)[:, None, :]
    return tl.where(i == p, c * at_p - s * at_q, tl.where(i == q, s * at_p + c * at_q, A))


@triton.jit(do_not_specialize=ANY)
def jacobi(
    A, values, vectors, n, SWEEPS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr
):
    """Rotations JᵀAJ that annihilate A_pq in turn; the product of all J holds the eigenvectors."""
    m = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None, None]
    i = tl.arange(0, BLOCK_D)[None, :, None]
    j = tl.arange(0, BLOCK_D)[None, None, :]
    exists = (m < n) & (i < D) & (j < D)
    place = m * (D * D) + i * D + j
    M = tl.load(A + place, mask=exists, other=0).to(tl.float64)
    Q = tl.where((i == j) & (m >= 0), 1.0, 0.0).to(tl.float64)
    for _sweep in range(SWEEPS):
        for p in range(D - 1):
            for q in range(p + 1, D):
                middle = _entry(M, i, j, p, q)
                apart = _entry(M, i, j, q, q) - _entry(M, i, j, p, p)
                # tan of the angle: t² + 2θt − 1 = 0, θ = apart / (2 middle), the smaller root
                root = tl.abs(apart) + tl.sqrt(apart * apart + 4 * middle * middle)
                t = tl.where(apart >= 0, 2.0, -2.0) * middle / tl.where(root == 0, 1.0, root)
                c = 1 / tl.sqrt(t * t + 1)
                M = _rotate_rows(_rotate_columns(M, j, p, q, c, t * c), i, p, q, c, t * c)
                Q = _rotate_columns(Q, j, p, q, c, t * c)
    diagonal = tl.sum(tl.where(i == j, M, 0.0), 2)
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    k = tl.arange(0, BLOCK_D)[None, :]
    tl.store(values + row * D + k, diagonal, mask=(row < n) & (k < D))
    tl.store(vectors + place, Q, mask=exists)
