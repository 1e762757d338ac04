"""Triton kernels of the two fused steps of the filter; `backend.py` launches them.

A program works on one task (`schedule.py`): a row, or a piece of a long row. It holds a tile of
BLOCK_E half-edges × d × BLOCK_C channels, adds up products over its half-edges and, if the row is
whole, finishes the node at once; pieces leave their sums in `partial`, which a second kernel adds in
order. Signals are `[R, N, d, C]`, blocks `[r, ·, d]` or, if DENSE, `[r, ·, d, d]`; of a tensor that all
replicas share, the next replica is 0 nodes or half-edges away.

A kernel is compiled anew for other values of its constants only: d, the kind of blocks, and the tile. The
step k, the numbers of nodes, replicas and channels are arguments. C comes as a number of groups of GROUP
channels, because the compiler must know how many of them may be loaded at once.
"""

import triton
import triton.language as tl

ANY = [
    "k", "num_nodes", "num_edges", "num_slots", "num_chunks", "groups", "chunk", "is_top", "is_new",
    "diag_step", "off_step", "current_step", "previous_step", "T_step", "phi_step", "d_phi_step",
]  # fmt: skip
UNALIGNED = ["phi"]


@triton.jit
def _places(c0, C, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_C: tl.constexpr):
    """Offsets of the entries [d, c] of a node's stalk, and which of them exist."""
    i = tl.arange(0, BLOCK_D)[:, None]
    c = c0 + tl.arange(0, BLOCK_C)[None, :]
    return i * C + c, (i < D) & (c < C)


@triton.jit
def _block_times(
    block, node, signal, c0, C,
    D: tl.constexpr, DENSE: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """B_v x_v."""
    i = tl.arange(0, BLOCK_D)[:, None]
    c = c0 + tl.arange(0, BLOCK_C)[None, :]
    stalk = signal + node * (D * C) + c
    if DENSE:
        result = tl.zeros([BLOCK_D, BLOCK_C], signal.dtype.element_ty)
        for j in tl.static_range(D):
            x = tl.load(stalk + j * C, mask=c < C, other=0)
            result += tl.load(block + node * (D * D) + i * D + j, mask=i < D, other=0) * x
    else:
        x = tl.load(stalk + i * C, mask=(i < D) & (c < C), other=0)
        result = tl.load(block + node * D + i, mask=i < D, other=0) * x
    return result


@triton.jit
def _sum_of_slots(
    partial, first, end, c0, C,
    D: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """The whole row from its pieces."""
    place, exists = _places(c0, C, D, BLOCK_D, BLOCK_C)
    total = tl.zeros([BLOCK_E, BLOCK_D, BLOCK_C], partial.dtype.element_ty)
    for start in range(first, end, BLOCK_E):
        slot = (start + tl.arange(0, BLOCK_E)).to(tl.int64)[:, None, None]
        here = (slot < end) & exists[None, :, :]
        total += tl.load(partial + slot * (D * C) + place[None, :, :], mask=here, other=0)
    return tl.sum(total, 0)


@triton.jit
def _finish_forward(
    row, node, c0, diag, current, following, previous, y, phi, k, C,
    D: tl.constexpr, DENSE: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """T_{k+1} = 2 A T_k − T_{k−1} and y += φ_{k+1} T_{k+1} at a node; T_1 = A T_0."""
    place, exists = _places(c0, C, D, BLOCK_D, BLOCK_C)
    place += node * (D * C)
    step = row + _block_times(diag, node, current, c0, C, D, DENSE, BLOCK_D, BLOCK_C)
    if k == 0:
        total = tl.load(phi) * tl.load(current + place, mask=exists, other=0)
    else:
        step = 2 * step - tl.load(previous + place, mask=exists, other=0)
        total = tl.load(y + place, mask=exists, other=0)
    tl.store(following + place, step, mask=exists)
    tl.store(y + place, total + tl.load(phi + k + 1) * step, mask=exists)


@triton.jit(do_not_specialize=ANY, do_not_specialize_on_alignment=UNALIGNED)
def forward_rows(
    tasks, col, diag, off, current, following, previous, y, phi, partial, k, num_nodes, num_slots,
    diag_step, off_step, current_step, previous_step, phi_step, groups,
    GROUP: tl.constexpr, D: tl.constexpr, DENSE: tl.constexpr,
    BLOCK_E: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """One step of the recurrence for every row that is whole; partial sums for the others."""
    task, c0, r = tl.program_id(0), tl.program_id(1) * BLOCK_C, tl.program_id(2).to(tl.int64)
    node, begin = tl.load(tasks + 4 * task).to(tl.int64), tl.load(tasks + 4 * task + 1)
    end, slot = tl.load(tasks + 4 * task + 2), tl.load(tasks + 4 * task + 3).to(tl.int64)
    C = groups * GROUP
    size: tl.constexpr = D * D if DENSE else D
    signals = r * num_nodes * (D * C)
    current += r * current_step * (D * C)
    off += r * off_step * size
    e = tl.arange(0, BLOCK_E)[:, None, None]
    i = tl.arange(0, BLOCK_D)[None, :, None]
    c = c0 + tl.arange(0, BLOCK_C)[None, None, :]
    total = tl.zeros([BLOCK_E, BLOCK_D, BLOCK_C], y.dtype.element_ty)
    for start in range(begin, end, BLOCK_E):
        inside = start + e < end
        h = (start + e).to(tl.int64)
        stalk = current + tl.load(col + h, mask=inside, other=0).to(tl.int64) * (D * C) + c
        if DENSE:
            for j in tl.static_range(D):
                x = tl.load(stalk + j * C, mask=inside & (c < C), other=0)
                total += tl.load(off + h * (D * D) + i * D + j, mask=inside & (i < D), other=0) * x
        else:
            x = tl.load(stalk + i * C, mask=inside & (i < D) & (c < C), other=0)
            total += tl.load(off + h * D + i, mask=inside & (i < D), other=0) * x
    row = tl.sum(total, 0)
    if slot >= 0:
        place, exists = _places(c0, C, D, BLOCK_D, BLOCK_C)
        tl.store(partial + (r * num_slots + slot) * (D * C) + place, row, mask=exists)
    else:
        _finish_forward(
            row, node, c0, diag + r * diag_step * size, current, following + signals,
            previous + r * previous_step * (D * C), y + signals, phi + r * phi_step, k,
            C, D, DENSE, BLOCK_D, BLOCK_C,
        )  # fmt: skip


@triton.jit(do_not_specialize=ANY, do_not_specialize_on_alignment=UNALIGNED)
def forward_splits(
    splits, diag, current, following, previous, y, phi, partial, k, num_nodes, num_slots,
    diag_step, current_step, previous_step, phi_step, groups,
    GROUP: tl.constexpr, D: tl.constexpr, DENSE: tl.constexpr,
    BLOCK_E: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """The same step for the rows that were split."""
    split, c0, r = tl.program_id(0), tl.program_id(1) * BLOCK_C, tl.program_id(2).to(tl.int64)
    node = tl.load(splits + 3 * split).to(tl.int64)
    first, end = tl.load(splits + 3 * split + 1), tl.load(splits + 3 * split + 2)
    C = groups * GROUP
    size: tl.constexpr = D * D if DENSE else D
    signals = r * num_nodes * (D * C)
    row = _sum_of_slots(partial + r * num_slots * (D * C), first, end, c0, C, D, BLOCK_E, BLOCK_D, BLOCK_C)
    _finish_forward(
        row, node, c0, diag + r * diag_step * size, current + r * current_step * (D * C), following + signals,
        previous + r * previous_step * (D * C), y + signals, phi + r * phi_step, k,
        C, D, DENSE, BLOCK_D, BLOCK_C,
    )  # fmt: skip


@triton.jit
def _add(pointer, value, mask, is_new):
    """Writes the value, or adds it to what is there."""
    if is_new == 0:
        value += tl.load(pointer, mask=mask, other=0)
    tl.store(pointer, value, mask=mask)


@triton.jit
def _finish_backward(
    row_T, row_B, node, c0, num_nodes, num_chunks, diag, T, T_above, T_below, B, B_above, B_below, g, phi,
    d_diag, d_phi, k, factor, is_top, is_new, C,
    D: tl.constexpr, DENSE: tl.constexpr, NEEDS_T: tl.constexpr, BLOCKS: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """T_{k−1} = 2 A T_k − T_{k+1}, B_k = φ_k g + a_k A B_{k+1} − B_{k+2}, and the node's share of ∂A, ∂φ."""
    place, exists = _places(c0, C, D, BLOCK_D, BLOCK_C)
    place += node * (D * C)
    here = node * num_chunks + c0 // BLOCK_C
    gradient = tl.load(g + place, mask=exists, other=0)
    T_v = tl.load(T + place, mask=exists, other=0)
    tl.store(d_phi + k * num_nodes * num_chunks + here, tl.sum(tl.sum(T_v * gradient, 1), 0))
    if is_top:
        T_K = tl.load(T_above + place, mask=exists, other=0)
        tl.store(d_phi + (k + 1) * num_nodes * num_chunks + here, tl.sum(tl.sum(T_K * gradient, 1), 0))
    if NEEDS_T:
        above = tl.load(T_above + place, mask=exists, other=0)
        shifted = row_T + _block_times(diag, node, T, c0, C, D, DENSE, BLOCK_D, BLOCK_C)
        tl.store(T_below + place, 2 * shifted - above, mask=exists)
    shifted = row_B + _block_times(diag, node, B, c0, C, D, DENSE, BLOCK_D, BLOCK_C)
    below = tl.load(phi + k) * gradient + factor * shifted
    if is_top == 0:
        below -= tl.load(B_above + place, mask=exists, other=0)
    if BLOCKS:
        i = tl.arange(0, BLOCK_D)
        B_v = tl.load(B + place, mask=exists, other=0)
        if DENSE:
            for j in tl.static_range(D):
                c = c0 + tl.arange(0, BLOCK_C)[None, :]
                T_j = tl.load(T + node * (D * C) + j * C + c, mask=c < C, other=0)
                _add(d_diag + node * (D * D) + i * D + j, factor * tl.sum(B_v * T_j, 1), i < D, is_new)
        else:
            _add(d_diag + node * D + i, factor * tl.sum(B_v * T_v, 1), i < D, is_new)
    tl.store(B_below + place, below, mask=exists)


@triton.jit(do_not_specialize=ANY, do_not_specialize_on_alignment=UNALIGNED)
def backward_rows(  # noqa: C901 (one pass is the point)
    tasks, col, diag, off, T, T_above, T_below, B, B_above, B_below, g, phi, d_diag, d_off, d_phi, partial,
    k, factor, is_top, is_new, chunk, num_nodes, num_edges, num_slots, num_chunks,
    diag_step, off_step, T_step, phi_step, d_phi_step, groups,
    GROUP: tl.constexpr, D: tl.constexpr, DENSE: tl.constexpr, NEEDS_T: tl.constexpr, BLOCKS: tl.constexpr,
    BLOCK_E: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """One step back for every row that is whole; ∂off_h += a_k B_{k+1}[v] T_k[u]ᵀ for all."""
    task, r = tl.program_id(0), tl.program_id(1).to(tl.int64)
    node, begin = tl.load(tasks + 4 * task).to(tl.int64), tl.load(tasks + 4 * task + 1)
    end, slot = tl.load(tasks + 4 * task + 2), tl.load(tasks + 4 * task + 3).to(tl.int64)
    c0, C = chunk * BLOCK_C, groups * GROUP
    size: tl.constexpr = D * D if DENSE else D
    signals = r * num_nodes * (D * C)
    T += r * T_step * (D * C)
    B += signals
    off += r * off_step * size
    d_off += r * num_edges * size
    e = tl.arange(0, BLOCK_E)[:, None, None]
    i = tl.arange(0, BLOCK_D)[None, :, None]
    c = c0 + tl.arange(0, BLOCK_C)[None, None, :]
    e2 = tl.arange(0, BLOCK_E)[:, None]
    i2 = tl.arange(0, BLOCK_D)[None, :]
    if BLOCKS and not DENSE:
        own = tl.load(B + node * (D * C) + i * C + c, mask=(i < D) & (c < C), other=0)
    total_T = tl.zeros([BLOCK_E, BLOCK_D, BLOCK_C], g.dtype.element_ty)
    total_B = tl.zeros([BLOCK_E, BLOCK_D, BLOCK_C], g.dtype.element_ty)
    for start in range(begin, end, BLOCK_E):
        inside = start + e < end
        h = (start + e).to(tl.int64)
        stalk = tl.load(col + h, mask=inside, other=0).to(tl.int64) * (D * C) + c
        place = (start + e2).to(tl.int64) * size
        writes = (start + e2 < end) & (i2 < D)
        if DENSE:
            for j in tl.static_range(D):
                w = tl.load(off + h * size + i * D + j, mask=inside & (i < D), other=0)
                total_B += w * tl.load(B + stalk + j * C, mask=inside & (c < C), other=0)
                if NEEDS_T:
                    total_T += w * tl.load(T + stalk + j * C, mask=inside & (c < C), other=0)
            if BLOCKS:
                t = tl.load(T + stalk + i * C, mask=inside & (i < D) & (c < C), other=0)
                for row in tl.static_range(D):
                    own = tl.load(B + node * (D * C) + row * C + c, mask=c < C, other=0)
                    share = factor * tl.sum(own * t, 2)
                    _add(d_off + place + row * D + i2, share, writes, is_new)
        else:
            t = tl.load(T + stalk + i * C, mask=inside & (i < D) & (c < C), other=0)
            b = tl.load(B + stalk + i * C, mask=inside & (i < D) & (c < C), other=0)
            w = tl.load(off + h * D + i, mask=inside & (i < D), other=0)
            total_B += w * b
            if NEEDS_T:
                total_T += w * t
            if BLOCKS:
                _add(d_off + place + i2, factor * tl.sum(own * t, 2), writes, is_new)
    row_T, row_B = tl.sum(total_T, 0), tl.sum(total_B, 0)
    if slot >= 0:
        entry, exists = _places(c0, C, D, BLOCK_D, BLOCK_C)
        entry += (2 * r * num_slots + slot) * (D * C)
        tl.store(partial + entry, row_T, mask=exists)
        tl.store(partial + num_slots * (D * C) + entry, row_B, mask=exists)
    else:
        _finish_backward(
            row_T, row_B, node, c0, num_nodes, num_chunks, diag + r * diag_step * size, T, T_above + signals,
            T_below + signals, B, B_above + signals, B_below + signals, g + signals, phi + r * phi_step,
            d_diag + r * num_nodes * size, d_phi + r * d_phi_step, k, factor, is_top, is_new,
            C, D, DENSE, NEEDS_T, BLOCKS, BLOCK_D, BLOCK_C,
        )  # fmt: skip


@triton.jit(do_not_specialize=ANY, do_not_specialize_on_alignment=UNALIGNED)
def backward_splits(
    splits, diag, T, T_above, T_below, B, B_above, B_below, g, phi, d_diag, d_phi, partial,
    k, factor, is_top, is_new, chunk, num_nodes, num_slots, num_chunks,
    diag_step, T_step, phi_step, d_phi_step, groups,
    GROUP: tl.constexpr, D: tl.constexpr, DENSE: tl.constexpr, NEEDS_T: tl.constexpr, BLOCKS: tl.constexpr,
    BLOCK_E: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """The same step back for the rows that were split."""
    split, r = tl.program_id(0), tl.program_id(1).to(tl.int64)
    node = tl.load(splits + 3 * split).to(tl.int64)
    first, end = tl.load(splits + 3 * split + 1), tl.load(splits + 3 * split + 2)
    c0, C = chunk * BLOCK_C, groups * GROUP
    size: tl.constexpr = D * D if DENSE else D
    signals = r * num_nodes * (D * C)
    partial += 2 * r * num_slots * (D * C)
    row_T = _sum_of_slots(partial, first, end, c0, C, D, BLOCK_E, BLOCK_D, BLOCK_C)
    row_B = _sum_of_slots(partial + num_slots * (D * C), first, end, c0, C, D, BLOCK_E, BLOCK_D, BLOCK_C)
    _finish_backward(
        row_T, row_B, node, c0, num_nodes, num_chunks, diag + r * diag_step * size, T + r * T_step * (D * C),
        T_above + signals, T_below + signals, B + signals, B_above + signals, B_below + signals, g + signals,
        phi + r * phi_step, d_diag + r * num_nodes * size, d_phi + r * d_phi_step, k, factor, is_top, is_new,
        C, D, DENSE, NEEDS_T, BLOCKS, BLOCK_D, BLOCK_C,
    )  # fmt: skip
