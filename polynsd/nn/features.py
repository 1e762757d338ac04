"""Products with sparse features: of a bag of words, 99 entries of 100 are zero.

A dense product with a thousand of them costs more than all sheaf layers together. Dropout of a zero is
zero, so it is enough to drop entries.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parameter import is_lazy

from polynsd import kernels
from polynsd.errors import ShapeError
from polynsd.kernels.ops.operator import Csr
from polynsd.kernels.ops.training import sparse_product
from polynsd.memo import TensorMemo, can_read_values
from polynsd.sparse import is_sparse, list_entries

DENSITY = 0.05  # share of entries that are not zero, up to which it is worth it
SIZE = 2**18  # entries of X from which on it matters


class SparseFeatures(NamedTuple):
    """Where X is not zero, by rows and by columns."""

    matrix: Csr
    transposed: Csr
    entries: Tensor  # [nnz] the numbers of a sparse tensor; of a dense one their positions, row by row

    def read(self, x: Tensor) -> Tensor:
        """[nnz] the numbers of X as they are now."""
        return self.entries if is_sparse(x) else x.take(self.entries)


_sparse_features: TensorMemo[SparseFeatures | None] = TensorMemo()


def encode_features(encoder: nn.Module, x: Tensor, dropout: float, training: bool) -> Tensor:
    """`encoder(dropout(x))`, by a sparse product where x is a sparse tensor, or sparse and large.

    Where x is zero is looked at once, and again when PyTorch says that x has changed; who writes to it
    behind PyTorch's back (`x.data`, `x.numpy()`) must not turn zeros into something else.
    """
    if is_sparse(x) and is_lazy(cast(Tensor, encoder.weight)):
        encoder(torch.zeros(1, x.size(1), dtype=x.dtype, device=x.device))  # which learns its size
    if not is_sparse(x) and (type(encoder) is not nn.Linear or encoder.weight.device != x.device):
        return encoder(functional.dropout(x, dropout, training))
    sparse = _find_entries(x)
    if sparse is None:
        return encoder(functional.dropout(x, dropout, training))
    weight, bias = cast(Tensor, encoder.weight), cast("Tensor | None", encoder.bias)
    product = _product(sparse, x, weight, dropout, training)
    return product if bias is None else product + bias


def multiply_features(weight: Tensor, x: Tensor, dropout: float, training: bool) -> Tensor:
    """dropout(x) Wᵀ for a weight `[out, in]`, by a sparse product where x is sparse, or sparse and large."""
    sparse = _find_entries(x) if is_sparse(x) or weight.device == x.device else None
    if sparse is None:
        return functional.linear(functional.dropout(x, dropout, training), weight)
    return _product(sparse, x, weight, dropout, training)


def _product(sparse: SparseFeatures, x: Tensor, weight: Tensor, dropout: float, training: bool) -> Tensor:
    entries = functional.dropout(sparse.read(x), dropout, training)
    return sparse_product(sparse.matrix, sparse.transposed, entries, weight.mT)


def _find_entries(x: Tensor) -> SparseFeatures | None:
    """None for features that are dense, small, differentiated, of another kind, or only being traced."""
    if is_sparse(x):
        if x.dim() != 2 or x.requires_grad:
            raise ShapeError(
                f"sparse features must be a matrix without a gradient; got {list(x.shape)} with "
                f"requires_grad={x.requires_grad}. Give them dense: x.to_dense()."
            )
        return _sparse_features(x, lambda: _find_structure(x, *list_entries(x)))
    if torch.compiler.is_compiling() or kernels.active() == "assembled":
        return None  # the published way is a dense product
    if x.dim() != 2 or x.requires_grad or x.numel() < SIZE or x.dtype not in (torch.float32, torch.float64):
        return None
    return _sparse_features(x, lambda: _scan(x) if can_read_values() else None)


def _scan(x: Tensor) -> SparseFeatures | None:
    """Where a dense matrix is not zero; None if that is not seldom."""
    if int(torch.count_nonzero(x)) > DENSITY * x.numel():
        return None
    row, col = x.nonzero(as_tuple=True)
    return _find_structure(x, row, col, row * x.size(1) + col)


def _find_structure(x: Tensor, row: Tensor, col: Tensor, entries: Tensor) -> SparseFeatures:
    return SparseFeatures(*Csr.with_transpose(row, col, (x.size(0), x.size(1))), entries)
