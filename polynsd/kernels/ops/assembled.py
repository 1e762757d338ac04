"""The published way, kept to be compared with: one (N d) × (N d) matrix in COO form.

Every scalar entry of every block is an entry of the matrix; a product gathers a row of the signal
per entry, multiplies, and scatters; autograd keeps it all. Nothing of the library uses this unless
`polynsd.kernels.use("assembled")` asks for it.
"""

import torch
from torch import Tensor

from polynsd.kernels.ops import blocks
from polynsd.kernels.ops.operator import BlockOperator
from polynsd.kernels.ops.plain import coefficient


def block_product(A: BlockOperator, x: Tensor) -> Tensor:
    """A x for x `[..., N, d, C]`."""
    rows, cols, values = _matrix(A, x.size(-2))
    return _product(rows, cols, values, x.flatten(-3, -2)).unflatten(-2, x.shape[-3:-1])


def chebyshev_filter(A: BlockOperator, phi: Tensor, x: Tensor) -> Tensor:
    """Σ_k φ_k T_k(A) x."""
    rows, cols, values = _matrix(A, x.size(-2))
    previous = current = x.flatten(-3, -2)
    y = coefficient(phi, 0) * x
    for k in range(1, phi.size(-1)):
        step = _product(rows, cols, values, current)
        previous, current = current, step if k == 1 else 2 * step - previous
        y = y + coefficient(phi, k) * current.unflatten(-2, x.shape[-3:-1])
    return y


def _product(rows: Tensor, cols: Tensor, values: Tensor, x: Tensor) -> Tensor:
    messages = values[..., None] * x.index_select(-2, cols)
    return messages.new_zeros(*messages.shape[:-2], *x.shape[-2:]).index_add(-2, rows, messages)


def _matrix(A: BlockOperator, d: int) -> tuple[Tensor, Tensor, Tensor]:
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
