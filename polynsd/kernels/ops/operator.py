"""`BlockOperator`: a symmetric block-sparse operator as plain tensors, the only thing kernels know.

    (A x)_v = diag_v x_v + Σ_{h = (v, u)} off_h x_u

`diag` and `off` are blocks in the sense of `polynsd.kernels.ops.blocks`; both may have leading replica
dimensions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class Pattern(NamedTuple):
    """Where the blocks are: half-edges sorted by row, all indices int32."""

    rowptr: Tensor  # [N + 1]
    row: Tensor  # [H]
    col: Tensor  # [H]
    twin: Tensor  # [H] the position of the transposed block
    tasks: Tensor  # [M, 4] and
    splits: Tensor  # [S, 3]: how a GPU shares out the rows, see `gpu/schedule.py`; empty on a CPU

    @property
    def num_nodes(self) -> int:
        return self.rowptr.numel() - 1

    @property
    def num_half_edges(self) -> int:
        return self.row.numel()


class StackedPattern(Pattern):
    """The block-diagonal pattern of `num_graphs` graphs of equal size, one per replica of a `torch.vmap`.

    Sizes are those of one graph. Operations inside the vmap run on all graphs at once.
    """

    num_graphs: int

    @classmethod
    def of(cls, whole: Pattern, num_graphs: int) -> StackedPattern:
        """From the pattern of the block-diagonal graph."""
        stacked = cls(*whole)
        stacked.num_graphs = num_graphs
        return stacked

    @property
    def whole(self) -> Pattern:
        """The block-diagonal graph."""
        return Pattern(*self)

    @property
    def num_nodes(self) -> int:
        return (self.rowptr.numel() - 1) // self.num_graphs

    @property
    def num_half_edges(self) -> int:
        return self.row.numel() // self.num_graphs


class BlockOperator(NamedTuple):
    """Pattern and blocks of a symmetric operator: `off[twin[h]] = off[h]ᵀ`."""

    pattern: Pattern
    diag: Tensor  # [..., N, d | 1, d | 1]
    off: Tensor  # [..., H, d | 1, d | 1]


class Csr(NamedTuple):
    """Where a sparse matrix `[N, F]` has numbers, row by row, all indices int32."""

    rowptr: Tensor  # [N + 1]
    col: Tensor  # [nnz]
    entry: Tensor  # [nnz] the position of each in the list of numbers

    @classmethod
    def from_sorted(cls, row: Tensor, col: Tensor, num_rows: int, entry: Tensor | None = None) -> Csr:
        """From rows and columns `[nnz]`, sorted by row; `entry` counts from 0 unless given."""
        rowptr = functional.pad(torch.bincount(row, minlength=num_rows).cumsum(0), (1, 0))
        entry = torch.arange(row.numel(), device=row.device) if entry is None else entry
        return cls(rowptr.int(), col.int(), entry.int())

    @classmethod
    def with_transpose(cls, row: Tensor, col: Tensor, shape: tuple[int, int]) -> tuple[Csr, Csr]:
        """The structure of a matrix and of its transpose, from rows and columns sorted by row."""
        by_col = col.argsort(stable=True)
        transposed = cls.from_sorted(col[by_col], row[by_col], shape[1], by_col)
        return cls.from_sorted(row, col, shape[0]), transposed
