"""Products with sparse features: of a bag of words, 99 entries of 100 are zero.

A dense product with a thousand of them costs more than all sheaf layers together. Dropout of a zero is
zero, so it is enough to drop entries.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from polynsd import kernels
from polynsd.kernels.ops.operator import Csr
from polynsd.kernels.ops.training import sparse_product
from polynsd.memo import TensorMemo, can_read_values

DENSITY = 0.05  # share of entries that are not zero, up to which it is worth it
SIZE = 2**18  # entries of X from which on it matters


class SparseFeatures(NamedTuple):
    """Where X is not zero, by rows and by columns."""

    positions: Tensor  # [nnz] in the flattened X, row by row
    matrix: Csr
    transposed: Csr


_sparse_features: TensorMemo[SparseFeatures | None] = TensorMemo()


def encode_features(encoder: nn.Module, x: Tensor, dropout: float, training: bool) -> Tensor:
    """`encoder(dropout(x))`, by a sparse product where x is sparse and large.

    Where x is zero is looked at once, and again when PyTorch says that x has changed; who writes to it
    behind PyTorch's back (`x.data`, `x.numpy()`) must not turn zeros into something else.
    """
    sparse = _find_entries(x) if type(encoder) is nn.Linear and encoder.weight.device == x.device else None
    if sparse is None or not isinstance(encoder, nn.Linear):
        return encoder(functional.dropout(x, dropout, training))
    product = _product(sparse, x, encoder.weight, dropout, training)
    return product if encoder.bias is None else product + encoder.bias


def multiply_features(weight: Tensor, x: Tensor, dropout: float, training: bool) -> Tensor:
    """dropout(x) Wᵀ for a weight `[out, in]`, by a sparse product where x is sparse and large."""
    sparse = _find_entries(x) if weight.device == x.device else None
    if sparse is None:
        return functional.linear(functional.dropout(x, dropout, training), weight)
    return _product(sparse, x, weight, dropout, training)


def _product(sparse: SparseFeatures, x: Tensor, weight: Tensor, dropout: float, training: bool) -> Tensor:
    entries = functional.dropout(x.take(sparse.positions), dropout, training)
    return sparse_product(sparse.matrix, sparse.transposed, entries, weight.mT)


def _find_entries(x: Tensor) -> SparseFeatures | None:
    """None for features that are dense, small, differentiated, of another kind, or only being traced."""
    if x.dim() != 2 or x.requires_grad or x.numel() < SIZE or x.dtype not in (torch.float32, torch.float64):
        return None
    if torch.compiler.is_compiling() or kernels.active() == "assembled":
        return None  # the published way is a dense product
    return _sparse_features(x, lambda: _list_entries(x) if can_read_values() else None)


def _list_entries(x: Tensor) -> SparseFeatures | None:
    if int(torch.count_nonzero(x)) > DENSITY * x.numel():
        return None
    node, feature = x.nonzero(as_tuple=True)
    return SparseFeatures(
        node * x.size(1) + feature, *Csr.with_transpose(node, feature, (x.size(0), x.size(1)))
    )
