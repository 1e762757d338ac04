"""The CPU backend: loops compiled by Numba, see `cpu_run.py`, `cpu_filter.py` and `cpu_blocks.py`.

Results depend neither on the number of threads nor on the run, because the shares into which work is
divided are a function of its size alone. The number of threads is PyTorch's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from polynsd.kernels.cpu import blocks as cpu_blocks
from polynsd.kernels.cpu import filter as cpu_filter
from polynsd.kernels.cpu import householder as cpu_householder
from polynsd.kernels.cpu import training as cpu_training
from polynsd.kernels.cpu.compile import run
from polynsd.kernels.cpu.tiles import LANES
from polynsd.kernels.ops import blocks, reference
from polynsd.kernels.ops.operator import Csr, Pattern
from polynsd.kernels.ops.reference import coefficient

SHARE, MOST_SHARES = 1024, 256  # nodes and half-edges, or numbers, of a share; shares
LARGEST_BLOCK = 8  # products of larger matrices are the business of BLAS
ONCE = range(1)


def filter_forward(
    pattern: Pattern, diag: Tensor, off: Tensor, x: Tensor, phi: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(y, T_K, T_{K−1}); see `Backend`."""
    R, K = max(t.size(0) for t in (diag, off, x, phi)), phi.size(-1) - 1
    if K == 0:
        return reference.filter_forward(pattern, diag, off, x, phi)
    signal, shares = _signal(x), _shares(pattern.num_nodes + pattern.col.numel())
    y, *T = (signal.new_empty(R, *signal.shape[1:]) for _ in range(3))
    operator = [_block(t, signal) for t in (diag, off)]
    loop = cpu_filter.forward(x.dtype, _rows(signal), diag.size(-1) > 1)
    tensors = [pattern.rowptr, pattern.col, *operator, phi, signal, y, *T]
    run(loop, R * shares, range(1, K + 1), tensors, [signal.size(1), shares, *signal.shape[2:]])
    last, before = _unfolded(T[K % 2], x), _unfolded(T[(K + 1) % 2], x)
    return _unfolded(y, x), last, before if K > 1 else x.new_empty(R, 0)


def filter_backward(
    pattern: Pattern,
    diag: Tensor,
    off: Tensor,
    x: Tensor,
    phi: Tensor,
    last: tuple[Tensor, Tensor],
    g: Tensor,
    blocks_wanted: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(∂diag, ∂off, ∂x, ∂φ, drift); see `Backend`."""
    R, K = g.size(0), phi.size(-1) - 1
    if K == 0:
        return reference.filter_backward(pattern, diag, off, x, phi, last, g, blocks_wanted)
    signal, cotangent, shares = _signal(x), _signal(g), _shares(pattern.num_nodes + pattern.col.numel())
    operator = [_block(t, signal) for t in (diag, off)]
    saved = [_signal(t) for t in (last if K > 1 else (last[0], x))]
    T, B = ([torch.empty_like(cotangent) for _ in range(2)] for _ in range(2))
    B[K % 2], B[(K + 1) % 2] = coefficient(phi, K) * cotangent, torch.zeros_like(cotangent)
    d_blocks = [t.new_zeros(R, *t.shape[1:]) if blocks_wanted else t.new_empty(R, 0) for t in operator]
    d_phi = torch.zeros(R * shares, K + 1, dtype=torch.float64)
    loop = cpu_filter.backward(x.dtype, _rows(signal), diag.size(-1) > 1)
    given = [pattern.rowptr, pattern.col, *operator, phi, signal, *saved, cotangent]
    sizes = [signal.size(1), shares, *signal.shape[2:], K, int(blocks_wanted)]
    run(loop, R * shares, range(K - 1, -1, -1), [*given, *T, *B, *d_blocks, d_phi], sizes)
    if blocks_wanted:
        d_blocks = [_block_gradient(d, t) for d, t in zip(d_blocks, (diag, off), strict=True)]
    drift = reference.relative_distance(T[0], signal) if K > 2 else g.new_zeros(R)
    d_diag, d_off = d_blocks
    return d_diag, d_off, _unfolded(B[0], x), d_phi.reshape(R, shares, K + 1).sum(1).to(g.dtype), drift


def take(values: Tensor, index: Tensor) -> Tensor:
    """[R, n, F] → [R, m, F]."""
    R, n, F = values.shape
    out = values.new_empty(R, index.numel(), F)
    row = F * values.element_size()
    unit = next(size for size in (16, 8, 4) if row % size == 0)
    shares = _shares(index.numel() * F)
    sizes = [out.size(1), shares, row // unit, n]
    run(cpu_blocks.take(unit), R * shares, ONCE, [values, index.int(), out], sizes)
    return out


def segment_sum(pattern: Pattern, values: Tensor, by_col: bool) -> Tensor:
    """[R, H, F] → [R, N, F]."""
    R, H, F = values.shape
    N = pattern.num_nodes
    out = values.new_empty(R, N, F)
    shares = _shares(N + H)
    tensors = [pattern.rowptr, pattern.twin, values, out]
    run(cpu_blocks.segment_sum(values.dtype), R * shares, ONCE, tensors, [N, shares, F, H, int(by_col)])
    return out


def block_multiply(a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    """A B, either of them transposed first."""
    n, d, _ = a.shape
    if d > LARGEST_BLOCK:
        return reference.block_multiply(a, b, transpose_a, transpose_b)
    out = torch.empty_like(a, memory_format=torch.contiguous_format)
    shares = _shares(out.numel())
    sizes = [n, shares, d, int(transpose_a), int(transpose_b)]
    run(cpu_blocks.block_multiply(a.dtype, d), shares, ONCE, [a[None], b[None], out[None]], sizes)
    return out


def block_apply(block: Tensor, x: Tensor, transpose: bool) -> Tensor:
    """B x, or Bᵀ x."""
    (n, d, C), signal = x.shape, _whole_vectors(x)
    if d > LARGEST_BLOCK:
        return reference.block_apply(block, x, transpose)
    out = torch.empty_like(signal, memory_format=torch.contiguous_format)
    shares = _shares(out.numel())
    sizes = [n, shares, signal.size(2), int(transpose)]
    run(cpu_blocks.block_apply(x.dtype, d), shares, ONCE, [block[None], signal[None], out[None]], sizes)
    return out[..., :C].contiguous()


def block_outer(left: Tensor, right: Tensor) -> Tensor:
    """Σ_c l_c r_cᵀ."""
    n, d, _ = left.shape
    if d > LARGEST_BLOCK:
        return reference.block_outer(left, right)
    left, right = _whole_vectors(left), _whole_vectors(right)
    out = left.new_zeros(n, d, d)
    shares = _shares(left.numel())
    tensors = [left[None], right[None], out[None]]
    run(cpu_blocks.block_outer(left.dtype, d), shares, ONCE, tensors, [n, shares, left.size(2)])
    return out


def householder(params: Tensor, d: int) -> Tensor:
    """H_1 … H_d."""
    if d > LARGEST_BLOCK:
        return reference.householder(params, d)
    out = params.new_empty(params.size(0), d, d)
    shares = _shares(out.numel())
    tensors = [params[None], out[None]]
    run(cpu_householder.product(out.dtype, d), shares, ONCE, tensors, [out.size(0), shares])
    return out


def householder_gradient(params: Tensor, Q: Tensor, G: Tensor) -> Tensor:
    """∂params given ∂Q = G."""
    if Q.size(-1) > LARGEST_BLOCK:
        return reference.householder_gradient(params, Q, G)
    out = torch.empty_like(params, memory_format=torch.contiguous_format)
    shares = _shares(Q.numel())
    tensors = [t[None] for t in (params, Q, G, out)]
    run(cpu_householder.gradient(Q.dtype, Q.size(-1)), shares, ONCE, tensors, [Q.size(0), shares])
    return out


def symmetric_eigen(A: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors by Jacobi's method."""
    n, d, _ = A.shape
    values, vectors = A.new_empty(n, d), torch.empty_like(A, memory_format=torch.contiguous_format)
    shares = _shares(A.numel())
    run(
        cpu_blocks.symmetric_eigen(A.dtype),
        shares,
        ONCE,
        [A[None], values[None], vectors[None]],
        [n, shares, d],
    )
    return values, vectors


def dropout(x: Tensor, key: Tensor, rate: Tensor) -> Tensor:
    """[r, n] → [R, n]."""
    out = x.new_empty(key.size(0), x.size(1))
    _run_on_rows(cpu_training.dropout(x.dtype), out, [x, key, rate.double(), out])
    return out


def csr_product(matrix: Csr, values: Tensor, z: Tensor) -> Tensor:
    """X z `[R, N, C]`."""
    R, C, N = max(values.size(0), z.size(0)), z.size(2), matrix.rowptr.numel() - 1
    z = _whole_vectors(z)
    n = next(n for n in (4, 3, 2, 1) if z.size(2) % (n * LANES) == 0)
    out, shares = z.new_empty(R, N, z.size(2)), _shares(N + matrix.col.numel())
    sizes = [N, shares, z.size(2), z.size(1)]
    run(cpu_training.csr_product(z.dtype, n), R * shares, ONCE, [*matrix, values, z, out], sizes)
    return out[..., :C]


def adam(
    theta: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    decay: Tensor,
    scale: Tensor,
    factors: Tensor,
) -> None:
    """Adam's step in place; see `ops/training.py`."""
    tensors = [theta, gradient, mean, square, decay, scale, factors]
    _run_on_rows(cpu_training.adam(theta.dtype), theta, tensors)


def copy_rows(target: Tensor, source: Tensor, wanted: Tensor) -> None:
    """target[r] = source[r] where wanted[r]."""
    _run_on_rows(cpu_training.copy_rows(target.dtype), target, [target, source, wanted.view(torch.uint8)])


def _run_on_rows(loop: Any, rows: Tensor, tensors: list[Tensor]) -> None:
    R, n = rows.shape
    run(loop, R * _shares(n), ONCE, tensors, [n, _shares(n)])


def _shares(work: int) -> int:
    return min(max(work // SHARE, 1), MOST_SHARES)


def _signal(x: Tensor) -> Tensor:
    """Fills whole vectors with channels; those of a single coordinate are taken for coordinates."""
    x = _whole_vectors(x).contiguous()
    return x if x.size(2) > 1 else x.reshape(*x.shape[:2], x.size(-1) // LANES, LANES)


def _whole_vectors(x: Tensor) -> Tensor:
    """Channels up to a multiple of LANES; `pad` alone would copy what needs none."""
    rest = -x.size(-1) % LANES
    return pad(x, (0, rest)) if rest else x


def _unfolded(signal: Tensor, like: Tensor) -> Tensor:
    """The inverse of `_signal`."""
    d, C = like.shape[2:]
    width = signal.size(2) * signal.size(3) // d
    return signal.reshape(*signal.shape[:2], d, width)[..., :C].contiguous()


def _block(block: Tensor, signal: Tensor) -> Tensor:
    """Diagonals as vectors, one number per coordinate of the signal."""
    return block.squeeze(-1).expand(-1, -1, signal.size(2)) if blocks.is_elementwise(block) else block


def _block_gradient(gradient: Tensor, like: Tensor) -> Tensor:
    if not blocks.is_elementwise(like):
        return gradient
    return (gradient if like.size(-2) > 1 else gradient.sum(-1, keepdim=True)).unsqueeze(-1)


def _rows(signal: Tensor) -> int:
    """As many coordinates as a tile can hold without a rest."""
    return next(n for n in (4, 3, 2, 1) if signal.size(2) % n == 0)
