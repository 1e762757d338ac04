"""The CPU backend: loops compiled by Numba, see `cpu_loops.py`.

Results depend neither on the number of threads nor on the run: shares of the work are a function of
the graph alone. The number of threads is PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

import numba
import torch
from torch import Tensor
from torch.nn.functional import pad

from polynsd.kernels import blocks, cpu_blocks, cpu_loops, reference
from polynsd.kernels.cpu_tiles import LANES
from polynsd.kernels.operator import Pattern
from polynsd.kernels.plain import coefficient

SHARE, MOST_SHARES = 2048, 256  # nodes and half-edges of a share, number of shares
LARGEST_BLOCK = 8  # products of larger matrices are the business of BLAS

_launching = Lock()  # not every threading layer of Numba may be entered twice


def filter_forward(
    pattern: Pattern, diag: Tensor, off: Tensor, x: Tensor, phi: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(y, T_K, T_{K−1}); see `Backend`."""
    R, K = max(t.size(0) for t in (diag, off, x, phi)), phi.size(-1) - 1
    if K == 0:
        return reference.filter_forward(pattern, diag, off, x, phi)
    signal = _signal(x)
    y, odd, even = (signal.new_empty(R, *signal.shape[1:]) for _ in range(3))
    operator = cpu_loops.Blocks(*_arrays(_block(t, signal) for t in (diag, off)))
    arrays = _arrays([signal, phi, y, odd, even])
    _launch(cpu_loops.filter_forward, _graph(pattern), operator, _rows(signal), *arrays)
    last, before = (odd, even) if K % 2 else (even, odd)
    y, last, before = (_unfolded(t, x) for t in (y, last, before))
    return y, last, before if K > 1 else x.new_empty(R, 0)


def filter_backward(
    pattern: Pattern,
    diag: Tensor,
    off: Tensor,
    x: Tensor,
    phi: Tensor,
    last: tuple[Tensor, Tensor],
    g: Tensor,
    blocks_wanted: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(∂diag, ∂off, ∂x, ∂φ); see `Backend`."""
    R, K = g.size(0), phi.size(-1) - 1
    if K == 0:
        return reference.filter_backward(pattern, diag, off, x, phi, last, g, blocks_wanted)
    graph, signal, cotangent = _graph(pattern), _signal(x), _signal(g)
    saved = [_signal(t) for t in (last if K > 1 else (last[0], x))]
    T, B = ([cotangent.new_zeros(cotangent.shape) for _ in range(2)] for _ in range(2))
    B[K % 2] = (coefficient(phi, K) * cotangent).contiguous()
    operator = [_block(t, signal) for t in (diag, off)]
    d_blocks = [t.new_zeros(R, *(t.shape[1:] if blocks_wanted else [0] * (t.dim() - 1))) for t in operator]
    d_phi = torch.zeros(R, graph.shares, K + 1, dtype=torch.float64)
    _launch(
        cpu_loops.filter_backward,
        graph,
        cpu_loops.Blocks(*_arrays(operator)),
        _rows(signal),
        *_arrays([signal, phi, *saved, cotangent]),
        _arrays(T),
        _arrays(B),
        cpu_loops.Blocks(*_arrays(d_blocks)),
        blocks_wanted,
        *_arrays([d_phi]),
    )
    d_diag, d_off = (
        _block_gradient(d, t) if blocks_wanted else g.new_empty(R, 0)
        for d, t in zip(d_blocks, (diag, off), strict=True)
    )
    return d_diag, d_off, _unfolded(B[0], x), d_phi.sum(1).to(g.dtype)


def take(values: Tensor, index: Tensor) -> Tensor:
    """[R, n, F] → [R, m, F]."""
    out = values.new_empty(values.size(0), index.numel(), values.size(2))
    source, target = (array.view(_unit(array)) for array in _arrays([values, out]))
    _launch(cpu_blocks.take, source, *_arrays([index]), target)
    return out


def segment_sum(pattern: Pattern, values: Tensor, by_col: bool) -> Tensor:
    """[R, H, F] → [R, N, F]."""
    out = values.new_empty(values.size(0), pattern.num_nodes, values.size(2))
    order = pattern.twin if by_col else pattern.twin[:0]
    _launch(cpu_blocks.segment_sum, _graph(pattern), *_arrays([order, values, out]))
    return out


def block_multiply(a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    """A B, either of them transposed first."""
    d = a.size(-1)
    if d > LARGEST_BLOCK:
        return reference.block_multiply(a, b, transpose_a, transpose_b)
    out = torch.empty_like(a, memory_format=torch.contiguous_format)
    left, right, product = _arrays([a, b, out])
    _launch(cpu_blocks.block_multiply, left, right, transpose_a, transpose_b, (0,) * d, product)
    return out


def symmetric_eigen(A: Tensor) -> tuple[Tensor, Tensor]:
    """By Jacobi's method."""
    values, vectors = A.new_empty(A.shape[:-1]), torch.empty_like(A, memory_format=torch.contiguous_format)
    _launch(cpu_blocks.symmetric_eigen, *_arrays([A, values, vectors]))
    return values, vectors


def _launch(loop: Callable[..., None], *args: Any) -> None:
    with _launching:
        numba.set_num_threads(min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))
        loop(*args)


def _arrays(tensors: Iterable[Tensor]) -> tuple[Any, ...]:
    return tuple(t.detach().contiguous().numpy() for t in tensors)


def _unit(array: Any) -> str:
    """The largest numbers that rows are made of, to move many small ones at once."""
    size = array.shape[-1] * array.itemsize
    return "c16" if size % 16 == 0 else "f8" if size % 8 == 0 else "f4"


def _graph(pattern: Pattern) -> cpu_loops.Graph:
    """With a number of shares that depends on the graph only."""
    work = pattern.num_nodes + pattern.col.numel()
    shares = min(max(work // SHARE, 1), MOST_SHARES)
    rowptr, col = _arrays([pattern.rowptr, pattern.col])
    return cpu_loops.Graph(rowptr, col, shares)


def _signal(x: Tensor) -> Tensor:
    """Fills whole vectors with channels; those of a single coordinate are taken for coordinates."""
    x = pad(x, (0, -x.size(-1) % LANES))
    return x if x.size(2) > 1 else x.reshape(*x.shape[:2], x.size(-1) // LANES, LANES)


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


def _rows(signal: Tensor) -> tuple[int, ...]:
    """As many coordinates as a tile can hold without a rest, told by a tuple's length."""
    return (0,) * next(n for n in (4, 3, 2, 1) if signal.size(2) % n == 0)
