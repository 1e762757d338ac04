"""`BlockOperator`: a symmetric block-sparse operator as plain tensors, the only thing kernels know.

    (A x)_v = diag_v x_v + Σ_{h = (v, u)} off_h x_u

`diag` and `off` are blocks in the sense of `polynsd.kernels.ops.blocks`; both may have leading replica
dimensions.
"""

from typing import NamedTuple

from torch import Tensor


class Pattern(NamedTuple):
    """Where the blocks are: half-edges sorted by row, all indices int32."""

    rowptr: Tensor  # [N + 1]
    row: Tensor  # [H]
    col: Tensor  # [H]
    twin: Tensor  # [H] the transposed place
    tasks: Tensor  # [M, 4] and
    splits: Tensor  # [S, 3]: how a GPU shares out the rows, see `gpu/schedule.py`; empty on a CPU

    @property
    def num_nodes(self) -> int:
        return self.rowptr.numel() - 1


class BlockOperator(NamedTuple):
    """Pattern and blocks of a symmetric operator: `off[twin[h]] = off[h]ᵀ`."""

    pattern: Pattern
    diag: Tensor  # [..., N, d | 1, d | 1]
    off: Tensor  # [..., H, d | 1, d | 1]


class Csr(NamedTuple):
    """Where a sparse matrix `[N, F]` has numbers, row by row, all indices int32."""

    rowptr: Tensor  # [N + 1]
    col: Tensor  # [nnz]
    entry: Tensor  # [nnz] the place of each in the list of numbers
