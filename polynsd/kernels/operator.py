"""`BlockOperator`: a symmetric block-sparse operator as plain tensors, the only thing kernels know.

    (A x)_v = diag_v x_v + Σ_{h = (v, u)} off_h x_u

`diag` and `off` are blocks in the sense of `polynsd.kernels.blocks`; both may have leading replica
dimensions.
"""

from typing import NamedTuple

from torch import Tensor


class BlockOperator(NamedTuple):
    """Structure and blocks of a symmetric operator: `off[twin(h)] = off[h]ᵀ`."""

    rowptr: Tensor  # [N + 1]
    row: Tensor  # [H]
    col: Tensor  # [H]
    diag: Tensor  # [..., N, d | 1, d | 1]
    off: Tensor  # [..., H, d | 1, d | 1]
