"""Products of reflections and their gradient in Triton; see `ops/householder.py`.

No argument of a kernel may be called `params`: Triton's launcher has a variable of that name.
"""

import triton
import triton.language as tl


@triton.jit
def _reflection(numbers, m, i, k, n, M: tl.constexpr, D: tl.constexpr):
    """w_k of every matrix: 1 at k, numbers below."""
    below = tl.load(numbers + m * M + i * (i - 1) // 2 + k, mask=(m < n) & (i > k) & (i < D), other=0)
    return tl.where(i == k, 1.0, below).to(numbers.dtype.element_ty)


@triton.jit(do_not_specialize=["n"])
def product(numbers, out, n, M: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr):
    """Q = H_1 … H_d; see `ops/householder.py`."""
    m = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None, None]
    i, j = tl.arange(0, BLOCK_D)[None, :, None], tl.arange(0, BLOCK_D)[None, None, :]
    Q = tl.where((i == j) & (m >= 0), 1.0, 0.0).to(out.dtype.element_ty)
    for k in range(D):
        w = _reflection(numbers, m, j, k, n, M, D)
        along = tl.sum(Q * w, 2)[:, :, None]
        Q -= 2 / tl.sum(w * w, 2)[:, :, None] * along * w
    tl.store(out + (m * D + i) * D + j, Q, mask=(m < n) & (i < D) & (j < D))


@triton.jit(do_not_specialize=["n"])
def gradient(
    numbers, Q, G, out, n, M: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr
):
    """∂w_k = −τ_k S_k w_k for k = d, …, 1; see `ops/householder.py`."""
    m = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None, None]
    i, j = tl.arange(0, BLOCK_D)[None, :, None], tl.arange(0, BLOCK_D)[None, None, :]
    S = tl.zeros([ROWS, BLOCK_D, BLOCK_D], out.dtype.element_ty)
    for r in range(D):
        row = (m * D + r) * D
        q_i = tl.load(Q + row + i, mask=(m < n) & (i < D), other=0)
        q_j = tl.load(Q + row + j, mask=(m < n) & (j < D), other=0)
        g_i = tl.load(G + row + i, mask=(m < n) & (i < D), other=0)
        g_j = tl.load(G + row + j, mask=(m < n) & (j < D), other=0)
        S += q_i * g_j - g_i * q_j
    for step in range(D):
        k = D - 1 - step
        w_i, w_j = _reflection(numbers, m, i, k, n, M, D), _reflection(numbers, m, j, k, n, M, D)
        tau = 2 / tl.sum(w_j * w_j, 2)[:, :, None]
        p_i, p_j = tl.sum(S * w_j, 2)[:, :, None], -tl.sum(S * w_i, 1)[:, None, :]  # S is skew
        below = (m < n) & (i > k) & (i < D)
        tl.store(out + m * M + i * (i - 1) // 2 + k, -tau * p_i, mask=below)
        S += tau * (w_i * p_j - p_i * w_j)
