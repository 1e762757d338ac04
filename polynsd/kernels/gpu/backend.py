"""The GPU backend: Triton kernels, fused as in `reference`, without atomics.

A step of the recurrence is one launch over the tasks of the graph and, where long rows were split,
a second small one. The forward pass works in two buffers that take turns; the backward pass in two
for T and two for B.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from polynsd.kernels.gpu import blocks as gpu_blocks
from polynsd.kernels.gpu import filter as gpu_filter
from polynsd.kernels.gpu import householder as gpu_householder
from polynsd.kernels.gpu import training as gpu_training
from polynsd.kernels.gpu import tuning
from polynsd.kernels.gpu.compiling import launch
from polynsd.kernels.ops import reference
from polynsd.kernels.ops.operator import Csr, Pattern
from polynsd.kernels.ops.training import BETA1, BETA2, EPSILON

LARGEST_BLOCK = 8  # libraries are good at larger ones, and unrolled loops are not


class _Shape(NamedTuple):
    """What the kernels are compiled for, and how they are launched."""

    R: int
    N: int
    H: int
    D: int
    C: int
    dense: bool
    block_d: int
    block_c: int
    tasks: int
    splits: int
    slots: int

    @property
    def chunks(self) -> int:
        return triton.cdiv(self.C, self.block_c)


def _shape(pattern: Pattern, diag: Tensor, off: Tensor, x: Tensor, phi: Tensor) -> _Shape:
    R, (_, N, D, C) = max(t.size(0) for t in (diag, off, x, phi)), x.shape
    block_d = triton.next_power_of_2(D)
    block_c = max(1, min(triton.next_power_of_2(C), 256 // block_d))
    tasks, splits = pattern.tasks.size(0), pattern.splits.size(0)
    slots = tasks - (N - splits)  # every row that is whole is one task
    return _Shape(R, N, off.size(1), D, C, off.size(-1) > 1, block_d, block_c, tasks, splits, slots)


def _groups(width: int, dtype: torch.dtype) -> dict[str, int]:
    """A row of numbers as groups that a thread can load at once: 16 bytes, or a part of them."""
    group = math.gcd(width, 16 // dtype.itemsize)
    return {"groups": width // group, "GROUP": group}


def _step(t: Tensor) -> int:
    """Rows from one replica to the next: 0 where they share the tensor."""
    return t.size(1) if t.size(0) > 1 else 0


def filter_forward(
    pattern: Pattern, diag: Tensor, off: Tensor, x: Tensor, phi: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(y, T_K, T_{K−1}); see `Backend`."""
    diag, off, x, phi = (t.contiguous() for t in (diag, off, x, phi))
    shape, K = _shape(pattern, diag, off, x, phi), phi.size(-1) - 1
    size = (shape.R, *x.shape[1:])
    if K == 0:
        return phi[..., None, None] * x.expand(size), x.new_empty(shape.R, 0), x.new_empty(shape.R, 0)
    y, buffers = x.new_empty(size), [x.new_empty(size) for _ in range(min(K, 2))]
    partial = x.new_empty(shape.R, shape.slots, shape.D, shape.C)
    current, previous = x, buffers[0]  # the first step does not read `previous`
    for k in range(K):
        following = buffers[k % 2]
        _forward_step(pattern, shape, diag, off, current, following, previous, y, phi, partial, k)
        current, previous = following, current
    return y, current, previous if K > 1 else x.new_empty(shape.R, 0)


def _forward_step(
    pattern: Pattern,
    shape: _Shape,
    diag: Tensor,
    off: Tensor,
    current: Tensor,
    following: Tensor,
    previous: Tensor,
    y: Tensor,
    phi: Tensor,
    partial: Tensor,
    k: int,
) -> None:
    fixed = {
        **_groups(shape.C, off.dtype), "D": shape.D, "DENSE": shape.dense,
        "BLOCK_D": shape.block_d, "BLOCK_C": shape.block_c,
    }  # fmt: skip
    steps = (_step(current), _step(previous), _step(phi))
    signals = (current, following, previous, y, phi, partial, k, shape.N, shape.slots)
    if shape.tasks and shape.C:
        choice = tuning.choose_tile("forward", shape.dense, shape.block_d * shape.block_c, off.dtype)
        launch(
            gpu_filter.forward_rows, (shape.tasks, shape.chunks, shape.R),
            pattern.tasks, pattern.col, diag, off, *signals, _step(diag), _step(off), *steps,
            **fixed, **choice,
        )  # fmt: skip
        if shape.splits:
            launch(
                gpu_filter.forward_splits, (shape.splits, shape.chunks, shape.R),
                pattern.splits, diag, *signals, _step(diag), *steps, **fixed, **tuning.SPLITS,
            )  # fmt: skip


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
    """(∂diag, ∂off, ∂x, ∂φ, drift) by running both recurrences from K down to 0."""
    diag, off, x, phi, g = (t.contiguous() for t in (diag, off, x, phi, g))
    shape, K = _shape(pattern, diag, off, g, phi), phi.size(-1) - 1
    empty = not (shape.N and shape.C)
    d_diag, d_off = (
        (g.new_zeros if K == 0 or empty else g.new_empty)(shape.R, *(t.shape[1:] if blocks_wanted else (0,)))
        for t in (diag, off)
    )
    B, drift = phi[:, K, None, None, None] * g, g.new_zeros(shape.R)
    if K == 0 or empty:
        d_phi = g.new_zeros(shape.R, K + 1) if empty else (x * g).sum((-3, -2, -1))[:, None]
        return d_diag, d_off, B, d_phi, drift
    d_phi = g.new_empty(shape.R, K + 1, shape.N, shape.chunks)  # shares of the nodes, to be summed in order
    assert d_phi[0].numel() < 2**31
    partial = g.new_empty(shape.R, 2, shape.slots, shape.D, shape.C)
    T_work, B_work = [torch.empty_like(g) for _ in range(min(K - 1, 2))], [B, torch.empty_like(g)]
    T, T_above, B_above = last[1] if K > 1 else x, last[0], B_work[1]
    for k in range(K - 1, -1, -1):
        if k == 0:
            drift, T = reference.relative_distance(T, x) if K > 2 else drift, x
        turn = (K - 1 - k) % 2
        T_below = T_work[turn] if k > 0 and K > 2 else T_above
        B_below = B_work[1 - turn]
        signals = (T, T_above, T_below, B, B_above, B_below, g, phi)
        _backward_step(pattern, shape, diag, off, signals, d_diag, d_off, d_phi, partial, k, K, blocks_wanted)
        T, T_above = T_below, T
        B, B_above = B_below, B
    return d_diag, d_off, B, d_phi.sum((-2, -1)), drift


def _backward_step(
    pattern: Pattern,
    shape: _Shape,
    diag: Tensor,
    off: Tensor,
    signals: tuple[Tensor, ...],
    d_diag: Tensor,
    d_off: Tensor,
    d_phi: Tensor,
    partial: Tensor,
    k: int,
    K: int,
    blocks_wanted: bool,
) -> None:
    fixed = {
        **_groups(shape.C, off.dtype), "D": shape.D, "DENSE": shape.dense, "NEEDS_T": k > 0 and K > 2,
        "BLOCKS": blocks_wanted, "BLOCK_D": shape.block_d, "BLOCK_C": shape.block_c,
    }  # fmt: skip
    choice = tuning.choose_tile("backward", shape.dense, shape.block_d * shape.block_c, off.dtype)
    T, phi = signals[0], signals[-1]
    steps = (_step(T), _step(phi), d_phi.stride(0))
    for chunk in range(shape.chunks):
        is_top = k == K - 1
        step = (k, 2.0 if k else 1.0, int(is_top), int(is_top and chunk == 0), chunk)
        launch(
            gpu_filter.backward_rows, (shape.tasks, shape.R),
            pattern.tasks, pattern.col, diag, off, *signals, d_diag, d_off, d_phi, partial, *step,
            shape.N, shape.H, shape.slots, shape.chunks, _step(diag), _step(off), *steps,
            **fixed, **choice,
        )  # fmt: skip
        if shape.splits:
            launch(
                gpu_filter.backward_splits, (shape.splits, shape.R),
                pattern.splits, diag, *signals, d_diag, d_phi, partial, *step,
                shape.N, shape.slots, shape.chunks, _step(diag), *steps,
                **fixed, **tuning.SPLITS,
            )  # fmt: skip


def tune(pattern: Pattern, diag: Tensor, off: Tensor, x: Tensor, phi: Tensor) -> dict[str, tuning.Tile]:
    """Measures the tile sizes for tensors like these and remembers the fastest."""
    shape = _shape(pattern, diag, off, x, phi)
    y, *last = filter_forward(pattern, diag, off, x, phi)
    runs = {
        "forward": lambda: filter_forward(pattern, diag, off, x, phi),
        "backward": lambda: filter_backward(pattern, diag, off, x, phi, (last[0], last[1]), y, True),
    }
    return tuning.tune(shape.dense, shape.block_d * shape.block_c, off.dtype, runs)


def take(values: Tensor, index: Tensor) -> Tensor:
    """[R, n, F] → [R, m, F]; PyTorch's own is slow for rows of a few numbers."""
    values = values.contiguous()
    R, n, F = values.shape
    out = values.new_empty(R, index.numel(), F)
    if out.numel():
        block = triton.next_power_of_2(F)
        rows = max(1, 1024 // block)
        launch(
            gpu_blocks.take, (triton.cdiv(index.numel(), rows), R), values, index, out, n, index.numel(),
            BLOCK_F=block, ROWS=rows, **_groups(F, values.dtype),
        )  # fmt: skip
    return out


def segment_sum(pattern: Pattern, values: Tensor, by_col: bool) -> Tensor:
    """[R, H, F] → [R, N, F]."""
    values = values.contiguous()
    R, H, F = values.shape
    N, (tasks, splits) = pattern.num_nodes, (pattern.tasks.size(0), pattern.splits.size(0))
    out, slots = values.new_empty(R, N, F), tasks - (N - splits)
    if not out.numel():
        return out
    partial = values.new_empty(R, slots, F)
    block = triton.next_power_of_2(F)
    tiles = {"BLOCK_F": block, "BLOCK_E": max(1, min(128, 1024 // block)), "num_warps": 2}
    tiles |= _groups(F, values.dtype)
    launch(
        gpu_blocks.sum_rows, (tasks, R), pattern.tasks, pattern.twin, values, out, partial, H, N, slots,
        BY_COL=by_col, **tiles,
    )  # fmt: skip
    if splits:
        launch(gpu_blocks.sum_splits, (splits, R), pattern.splits, out, partial, N, slots, **tiles)
    return out


def block_multiply(a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    """A B, either of them transposed first."""
    if a.size(-1) > LARGEST_BLOCK:
        return reference.block_multiply(a, b, transpose_a, transpose_b)
    a, b = a.contiguous(), b.contiguous()
    out, (n, d, _) = torch.empty_like(a), a.shape
    if out.numel():
        block = triton.next_power_of_2(d)
        rows = max(1, 1024 // block**2)
        launch(
            gpu_blocks.multiply, (triton.cdiv(n, rows),), a, b, out, n,
            TRANSPOSE_A=transpose_a, TRANSPOSE_B=transpose_b, D=d, BLOCK_D=block, ROWS=rows,
        )  # fmt: skip
    return out


def block_apply(block: Tensor, x: Tensor, transpose: bool) -> Tensor:
    """B x, or Bᵀ x; a program has a few nodes and a chunk of their channels."""
    if x.size(1) > LARGEST_BLOCK:
        return reference.block_apply(block, x, transpose)
    block, x = block.contiguous(), x.contiguous()
    out, (n, _, C), tile = torch.empty_like(x), x.shape, _signal_tile(x)
    if out.numel():
        grid = (triton.cdiv(n, tile["ROWS"]), triton.cdiv(C, tile["BLOCK_C"]))
        launch(gpu_blocks.apply, grid, block, x, out, n, TRANSPOSE=transpose, **tile)
    return out


def block_outer(left: Tensor, right: Tensor) -> Tensor:
    """Σ_c l_c r_cᵀ; a program has a few nodes and all their channels."""
    if left.size(1) > LARGEST_BLOCK:
        return reference.block_outer(left, right)
    left, right = left.contiguous(), right.contiguous()
    n, d, _ = left.shape
    out, tile = left.new_empty(n, d, d), _signal_tile(left, triton.next_power_of_2(d))
    if out.numel():
        launch(gpu_blocks.outer, (triton.cdiv(n, tile["ROWS"]),), left, right, out, n, **tile)
    return out


def _signal_tile(x: Tensor, copies: int = 1) -> dict[str, int]:
    """About a thousand numbers of so many copies of a signal: some rows, all of d, some channels."""
    d, C = x.shape[1:]
    block_d, block_c = triton.next_power_of_2(d), min(triton.next_power_of_2(max(C, 1)), 64)
    rows = max(1, 1024 // (copies * block_d * block_c))
    return {**_groups(C, x.dtype), "D": d, "BLOCK_D": block_d, "BLOCK_C": block_c, "ROWS": rows}


def householder(params: Tensor, d: int) -> Tensor:
    """H_1 … H_d."""
    if d > LARGEST_BLOCK:
        return reference.householder(params, d)
    params, out = params.contiguous(), params.new_empty(params.size(0), d, d)
    if out.numel():
        tile = _matrix_tile(d)
        grid = (triton.cdiv(out.size(0), tile["ROWS"]),)
        launch(gpu_householder.product, grid, params, out, out.size(0), M=params.size(1), **tile)
    return out


def householder_gradient(params: Tensor, Q: Tensor, G: Tensor) -> Tensor:
    """∂params given ∂Q = G."""
    d = Q.size(-1)
    if d > LARGEST_BLOCK:
        return reference.householder_gradient(params, Q, G)
    params, Q, G = (t.contiguous() for t in (params, Q, G))
    out = torch.empty_like(params)
    if out.numel():
        tile = _matrix_tile(d)
        grid = (triton.cdiv(Q.size(0), tile["ROWS"]),)
        launch(gpu_householder.gradient, grid, params, Q, G, out, Q.size(0), M=params.size(1), **tile)
    return out


def _matrix_tile(d: int) -> dict[str, int]:
    """About a thousand numbers of small matrices."""
    block = triton.next_power_of_2(d)
    return {"D": d, "BLOCK_D": block, "ROWS": max(1, 1024 // block**2)}


def symmetric_eigen(A: Tensor) -> tuple[Tensor, Tensor]:
    """Ten sweeps of cyclic Jacobi rotations in float64."""
    if A.size(-1) > LARGEST_BLOCK:
        return reference.symmetric_eigen(A)
    A = A.contiguous()
    n, d = A.shape[:2]
    values, vectors = A.new_empty(n, d), torch.empty_like(A)
    if A.numel():
        block = triton.next_power_of_2(d)
        rows = max(1, 256 // block**2)
        launch(
            gpu_blocks.jacobi, (triton.cdiv(n, rows),), A, values, vectors, n,
            SWEEPS=10, D=d, BLOCK_D=block, ROWS=rows, num_warps=1,
        )  # fmt: skip
    return values, vectors


def dropout(x: Tensor, key: Tensor, rate: Tensor) -> Tensor:
    """[r, n] → [R, n]."""
    x, out = x.contiguous(), x.new_empty(key.size(0), x.size(1))
    tensors = (x, key.contiguous(), rate.double().contiguous(), out)
    _launch_on_rows(gpu_training.dropout, out, *tensors, x.size(1), _step(x))
    return out


def csr_product(matrix: Csr, values: Tensor, z: Tensor) -> Tensor:
    """X z `[R, N, C]`; a program has a whole row."""
    values, z = values.contiguous(), z.contiguous()
    R, (_, F, C), N = max(values.size(0), z.size(0)), z.shape, matrix.rowptr.numel() - 1
    out, block = z.new_empty(R, N, C), min(triton.next_power_of_2(C), 128)
    if out.numel():
        tiles = {**_groups(C, z.dtype), "BLOCK_C": block, "BLOCK_E": max(1, 1024 // block), "num_warps": 2}
        launch(
            gpu_training.csr_product, (N, triton.cdiv(C, block), R),
            *matrix, values, z, out, N, F, _step(values), _step(z), **tiles,
        )  # fmt: skip
    return out


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
    tensors = (theta, gradient.contiguous(), mean, square, decay, scale, factors.contiguous())
    _launch_on_rows(gpu_training.adam, theta, *tensors, theta.size(1), BETA1, BETA2, EPSILON)


def copy_rows(target: Tensor, source: Tensor, wanted: Tensor) -> None:
    """target[r] = source[r] where wanted[r]."""
    _launch_on_rows(gpu_training.copy_rows, target, target, source, wanted.view(torch.uint8), target.size(1))


def _launch_on_rows(kernel: Any, rows: Tensor, *args: Any) -> None:
    if rows.numel():
        launch(kernel, (triton.cdiv(rows.size(1), 1024), rows.size(0)), *args, BLOCK=1024)
