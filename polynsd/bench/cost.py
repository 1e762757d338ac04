"""The bytes that a filter has to move: a yardstick for kernels that are bound by memory.

With N nodes, H half-edges, rows of d·C numbers, blocks of b numbers (d², d or 1) and s bytes per
number, one step of the forward recurrence T_{k+1} = 2 A T_k − T_{k−1}, y += φ_{k+1} T_{k+1}, fused
into one pass, moves

    H (row + block + 4)          the neighbour's row of T_k, the block, its column number
    N (5 row + block + 4)        T_k, T_{k−1}, y read; T_{k+1}, y written; diagonal block; row pointer

and one step of the backward pass, which runs the recurrences of T and B and adds B_{k+1} T_kᵀ to ∂A,

    H (2 row + 3 block + 4)      the neighbour's rows of T_k and B_{k+1}; block; ∂block read, written
    N (7 row + 3 block + 4)      T_k, T_{k+1}, B_{k+1}, B_{k+2}, g read; T_{k−1}, B_k written; blocks

A filter of degree K takes K of either. The first and last steps need a few rows less, and a cache may
already hold a neighbour's row: measured against these bytes, a small graph can beat the copy.
"""

from __future__ import annotations

from dataclasses import dataclass

INDEX_BYTES = 4


@dataclass(frozen=True)
class Sizes:
    """What the cost depends on."""

    nodes: int
    half_edges: int
    row_bytes: int  # d · C numbers
    block_bytes: int  # d², d or 1 numbers


def forward_step(sizes: Sizes) -> int:
    """Bytes of one step of the forward recurrence."""
    per_half_edge = sizes.row_bytes + sizes.block_bytes + INDEX_BYTES
    per_node = 5 * sizes.row_bytes + sizes.block_bytes + INDEX_BYTES
    return sizes.half_edges * per_half_edge + sizes.nodes * per_node


def backward_step(sizes: Sizes) -> int:
    """Bytes of one step of the backward recurrences with the gradient of the blocks."""
    per_half_edge = 2 * sizes.row_bytes + 3 * sizes.block_bytes + INDEX_BYTES
    per_node = 7 * sizes.row_bytes + 3 * sizes.block_bytes + INDEX_BYTES
    return sizes.half_edges * per_half_edge + sizes.nodes * per_node


def gigabytes_per_second(num_bytes: int, milliseconds: float) -> float:
    """10⁹ bytes per second."""
    return num_bytes / milliseconds / 1e6
