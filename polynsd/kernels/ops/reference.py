"""The reference backend: plain PyTorch, any device, any dtype; the oracle of every other backend.

    y = Σ_k φ_k T_k(A) x,   T_{k+1} = 2 A T_k − T_{k−1}

has a backward pass whose memory does not grow with the degree K. Only T_K and T_{K−1} are kept; the
recurrence runs backwards from them (T_{k−1} = 2 A T_k − T_{k+1}) beside Clenshaw's adjoint
recurrence:

    B_k = φ_k g + 2 A B_{k+1} − B_{k+2},          ∂x   = φ_0 g + A B_1 − B_2,
    ∂φ_k = ⟨T_k, g⟩,                               ∂A  = Σ_{k<K} a_k B_{k+1} T_kᵀ on the pattern of A,

with a_0 = 1 and a_k = 2 otherwise. A pass over the edges per k does it all: it multiplies T_k and
B_{k+1} and adds their outer product to ∂A.

Rounding errors grow like |U_k| ≤ k + 1 on a spectrum in [−1, 1], so T_0 comes back with an error of about
K² ε; outside they grow like T_k itself. What comes back for T_0 = x therefore tells what the reversal is
worth, and is returned as its drift.

Beside the backend there are two other ways to compute the filter, both through ordinary autograd:
`autograd_filter` keeps every T_k, serves second derivatives and is the yardstick of what constant memory
saves; `assembled_filter` is the published way, one sparse matrix of scalars, used only under
`polynsd.kernels.use("assembled")`.
"""

import torch
from torch import Tensor

from polynsd.kernels.ops import blocks
from polynsd.kernels.ops.operator import BlockOperator, Csr, Pattern
from polynsd.kernels.ops.training import BETA1, BETA2, EPSILON, hash32


def block_product(pattern: Pattern, diag: Tensor, off: Tensor, x: Tensor) -> Tensor:
    """A x for x `[..., N, d, C]`: gather, multiply, scatter."""
    messages = _times(off, x.index_select(-3, pattern.col))  # [..., H, d, C]
    y = _times(diag, x)
    lead = torch.broadcast_shapes(y.shape[:-3], messages.shape[:-3])
    y, messages = (t.expand(*lead, *t.shape[-3:]) for t in (y, messages))
    return y.index_add(-3, pattern.row, messages)


def autograd_filter(pattern: Pattern, diag: Tensor, off: Tensor, x: Tensor, phi: Tensor) -> Tensor:
    """Σ_k φ_k T_k(A) x for φ `[..., K + 1]`; autograd keeps every T_k, so it differentiates twice."""
    return _recurrence(pattern, diag, off, x, phi)[0]


def _recurrence(
    pattern: Pattern, diag: Tensor, off: Tensor, x: Tensor, phi: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(Σ_k φ_k T_k x, T_K x, T_{K−1} x)."""
    previous, current = x, x
    y = coefficient(phi, 0) * x
    for k in range(1, phi.size(-1)):
        step = block_product(pattern, diag, off, current)
        previous, current = current, step if k == 1 else 2 * step - previous
        y = y + coefficient(phi, k) * current
    return y, current, previous


def coefficient(phi: Tensor, k: int) -> Tensor:
    """φ_k, to multiply signals with."""
    return phi[..., k, None, None, None]


def filter_forward(
    pattern: Pattern, diag: Tensor, off: Tensor, x: Tensor, phi: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(y, T_K, T_{K−1}); see `Backend`."""
    R, K = max(t.size(0) for t in (diag, off, x, phi)), phi.size(-1) - 1
    x = x.expand(R, *x.shape[1:])
    y, current, previous = _recurrence(pattern, diag, off, x, phi)
    return y, current if K > 0 else x.new_empty(R, 0), previous if K > 1 else x.new_empty(R, 0)


def filter_backward(
    pattern: Pattern,
    diag: Tensor,
    off: Tensor,
    x: Tensor,
    phi: Tensor,
    last: tuple[Tensor, Tensor],
    g: Tensor,
    blocks_wanted: bool,
    terms: list[Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(∂diag, ∂off, ∂x, ∂φ, drift) by running both recurrences from K down to 0.

    With `terms`, T_0 … T_K, nothing is reversed.
    """
    R, K = g.size(0), phi.size(-1) - 1
    x = x.expand(R, *x.shape[1:])
    d_diag, d_off = (
        g.new_zeros(R, *t.shape[1:]) if blocks_wanted else g.new_empty(R, 0) for t in (diag, off)
    )
    chain = (*last, x) if K > 1 else (last[0], x) if K else (x,)  # T_K, T_{K-1}, …
    T_above, T = chain[0], chain[min(1, K)]  # T_{k+1}, T_k for k = K - 1
    B, B_above = coefficient(phi, K) * g, torch.zeros_like(g)  # B_{k+1}, B_{k+2}
    d_phi = [_inner(T_above, g)]
    reverses, drift = K > 2 and terms is None, g.new_zeros(R)
    for k in range(K - 1, -1, -1):
        if k == 0 and reverses:
            drift = relative_distance(T, x)
        T = x if k == 0 else T if terms is None else terms[k]
        d_phi.append(_inner(T, g))
        factor = 2 if k else 1
        if blocks_wanted:
            d_diag += factor * blocks.outer(B, T, diag)
            d_off += factor * blocks.outer(
                B.index_select(-3, pattern.row), T.index_select(-3, pattern.col), off
            )
        shifted_T, shifted_B = _products(pattern, diag, off, T if k and reverses else None, B)
        T, T_above = T if shifted_T is None else 2 * shifted_T - T_above, T
        B, B_above = coefficient(phi, k) * g + factor * shifted_B - B_above, B
    return d_diag, d_off, B, torch.stack(d_phi[::-1], -1), drift


def relative_distance(T: Tensor, x: Tensor) -> Tensor:
    """‖T − x‖ / ‖x‖ `[R]`."""
    norm = torch.linalg.vector_norm
    return norm(T - x, dim=(1, 2, 3)) / norm(x, dim=(1, 2, 3))


def chebyshev_terms(pattern: Pattern, diag: Tensor, off: Tensor, x: Tensor, K: int) -> list[Tensor]:
    """T_0 x … T_K x."""
    terms = [x]
    for k in range(K):
        step = block_product(pattern, diag, off, terms[-1])
        terms.append(2 * step - terms[-2] if k else step)
    return terms


def take(values: Tensor, index: Tensor) -> Tensor:
    """[R, n, F] → [R, m, F]."""
    return values.index_select(1, index)


def segment_sum(pattern: Pattern, values: Tensor, by_col: bool) -> Tensor:
    """[R, H, F] → [R, N, F]; on a GPU by a reduction without atomics, so that it is reproducible."""
    if values.is_cuda:
        ordered = values.index_select(1, pattern.twin) if by_col else values
        rowptr = pattern.rowptr.long()
        sums = [torch.segment_reduce(t, "sum", offsets=rowptr, axis=0, unsafe=True) for t in ordered]
        return torch.stack(sums)
    out = values.new_zeros(values.size(0), pattern.num_nodes, values.size(2))
    return out.index_add(1, pattern.col if by_col else pattern.row, values)


def block_multiply(a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    """A B, either of them transposed first."""
    return (a.mT if transpose_a else a) @ (b.mT if transpose_b else b)


def block_apply(block: Tensor, x: Tensor, transpose: bool) -> Tensor:
    """B x, or Bᵀ x."""
    return (block.mT if transpose else block) @ x


def block_outer(left: Tensor, right: Tensor) -> Tensor:
    """Σ_c l_c r_cᵀ."""
    return left @ right.mT


def householder(params: Tensor, d: int) -> Tensor:
    """H_1 … H_d; see `householder.py`."""
    W, tau = _reflections(params, d)
    Q = torch.eye(d, dtype=params.dtype, device=params.device).expand_as(W)
    for k in range(d):
        w = W[..., k, None]
        Q = Q - tau[..., k, None, None] * (Q @ w) @ w.mT
    return Q


def householder_gradient(params: Tensor, Q: Tensor, G: Tensor) -> Tensor:
    """∂params given ∂Q = G."""
    d = Q.size(-1)
    W, tau = _reflections(params, d)
    S, columns = Q.mT @ G - G.mT @ Q, []
    for k in range(d - 1, -1, -1):
        w, factor = W[..., k, None], tau[..., k, None, None]
        p = S @ w
        columns.append(-factor * p)
        S = S + factor * (w @ p.mT - p @ w.mT)
    i, j = torch.tril_indices(d, d, -1, device=params.device)
    return torch.cat(columns[::-1], -1)[:, i, j]


def _reflections(params: Tensor, d: int) -> tuple[Tensor, Tensor]:
    """W `[n, d, d]` with w_k as columns, τ `[n, d]`."""
    i, j = torch.tril_indices(d, d, -1, device=params.device)
    lower = params.new_zeros(params.size(0), d * d).index_copy(-1, i * d + j, params)
    W = lower.reshape(-1, d, d) + torch.eye(d, dtype=params.dtype, device=params.device)
    return W, 2 / W.square().sum(-2)


def symmetric_eigen(A: Tensor) -> tuple[Tensor, Tensor]:
    """LAPACK's, or the GPU's counterpart, which fails on very many matrices at a time."""
    if A.device.type == "mps":  # which has none
        values, vectors = torch.linalg.eigh(A.cpu())
        return values.to(A.device), vectors.to(A.device)
    pairs = [torch.linalg.eigh(part) for part in A.split(2**16)]
    return torch.cat([values for values, _ in pairs]), torch.cat([vectors for _, vectors in pairs])


def dropout(x: Tensor, key: Tensor, rate: Tensor) -> Tensor:
    """`[r, n]`, keys `[R]`, rates `[R]` → `[R, n]`; see `training.py`."""
    position = torch.arange(x.size(1), device=x.device)
    bits = hash32(hash32(position ^ key[:, None]) + key[:, None])
    scale = torch.where(rate < 1, 1 / (1 - rate), 0.0).to(x.dtype)[:, None]
    return torch.where(bits >= (rate * 2.0**32)[:, None], x * scale, 0.0)


def csr_product(matrix: Csr, values: Tensor, z: Tensor) -> Tensor:
    """X z `[R, N, C]`: gather, multiply, scatter."""
    counts = matrix.rowptr.diff().long()
    row = torch.repeat_interleave(counts, output_size=matrix.col.numel())
    messages = values.index_select(1, matrix.entry)[..., None] * z.index_select(1, matrix.col)
    return messages.new_zeros(messages.size(0), counts.numel(), z.size(2)).index_add(1, row, messages)


def adam(
    theta: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    decay: Tensor,
    scale: Tensor,
    factors: Tensor,
) -> None:
    """Adam's step in place; see `training.py`."""
    step, correction = factors.to(theta.dtype)[..., None].unbind(1)
    g = torch.addcmul(gradient, decay, theta)
    mean.lerp_(g, 1 - BETA1)
    square.mul_(BETA2).addcmul_(g, g, value=1 - BETA2)
    theta.addcdiv_(-step * scale * mean, square.sqrt() * correction + EPSILON)


def copy_rows(target: Tensor, source: Tensor, wanted: Tensor) -> None:
    """Without a look at which rows are wanted."""
    target.copy_(torch.where(wanted[:, None], source, target))


def _times(block: Tensor, x: Tensor) -> Tensor:
    """B x as PyTorch computes it; `blocks.apply` would ask the active backend."""
    return block * x if blocks.is_elementwise(block) else block @ x


def _products(
    pattern: Pattern, diag: Tensor, off: Tensor, T: Tensor | None, B: Tensor
) -> tuple[Tensor | None, Tensor]:
    """A T and A B as one product on the signals side by side."""
    if T is None:
        return None, block_product(pattern, diag, off, B)
    T_part, B_part = block_product(pattern, diag, off, torch.cat([T, B], -1)).chunk(2, -1)
    return T_part, B_part


def _inner(T: Tensor, g: Tensor) -> Tensor:
    return (T * g).sum((-3, -2, -1))


def assembled_product(A: BlockOperator, x: Tensor) -> Tensor:
    """A x with an assembled matrix, for x `[..., N, d, C]`.

    Every scalar entry of every block is an entry of one (N d) × (N d) matrix in COO form; a product gathers
    a row of the signal per entry, multiplies and scatters, and autograd keeps it all.
    """
    rows, cols, values = _coo_matrix(A, x.size(-2))
    return _coo_product(rows, cols, values, x.flatten(-3, -2)).unflatten(-2, x.shape[-3:-1])


def assembled_filter(A: BlockOperator, phi: Tensor, x: Tensor) -> Tensor:
    """Σ_k φ_k T_k(A) x with an assembled matrix."""
    rows, cols, values = _coo_matrix(A, x.size(-2))
    previous = current = x.flatten(-3, -2)
    y = coefficient(phi, 0) * x
    for k in range(1, phi.size(-1)):
        step = _coo_product(rows, cols, values, current)
        previous, current = current, step if k == 1 else 2 * step - previous
        y = y + coefficient(phi, k) * current.unflatten(-2, x.shape[-3:-1])
    return y


def _coo_product(rows: Tensor, cols: Tensor, values: Tensor, x: Tensor) -> Tensor:
    messages = values[..., None] * x.index_select(-2, cols)
    return messages.new_zeros(*messages.shape[:-2], *x.shape[-2:]).index_add(-2, rows, messages)


def _coo_matrix(A: BlockOperator, d: int) -> tuple[Tensor, Tensor, Tensor]:
    """Row and column numbers `[nnz]` and values `[..., nnz]`; a diagonal block gives d entries."""
    nodes = torch.arange(A.pattern.num_nodes, device=A.diag.device)
    rows, cols = (d * torch.cat([nodes, t.long()])[:, None] for t in (A.pattern.row, A.pattern.col))
    inner = torch.arange(d, device=rows.device)
    if blocks.is_elementwise(A.diag) and blocks.is_elementwise(A.off):
        diag, off = (t.squeeze(-1).expand(*t.shape[:-2], d) for t in (A.diag, A.off))
        rows, cols = rows + inner, cols + inner
    else:
        diag, off = (blocks.to_dense(t, d).flatten(-2) for t in (A.diag, A.off))
        rows, cols = rows + inner.repeat_interleave(d), cols + inner.repeat(d)
    lead = torch.broadcast_shapes(diag.shape[:-2], off.shape[:-2])
    values = torch.cat([t.expand(*lead, *t.shape[-2:]) for t in (diag, off)], -2)
    return rows.flatten(), cols.flatten(), values.flatten(-2)
