"""Sparse features: bags of words are zero in 99 places of 100.

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

    places: Tensor  # [nnz] in X, row by row
    matrix: Csr
    transposed: Csr


_sparse_features: TensorMemo[SparseFeatures | None] = TensorMemo()


def encode_features(encoder: nn.Module, x: Tensor, dropout: float, training: bool) -> Tensor:
    """`encoder(dropout(x))`, by a sparse product where x is sparse and large.

    Where x is zero is looked at once, and again when PyTorch says that x has changed; who writes to it
    behind PyTorch's back (`x.data`, `x.numpy()`) must not turn zeros into something else.
    """
    sparse = _sparse(x) if type(encoder) is nn.Linear and encoder.weight.device == x.device else None
    if sparse is None or not isinstance(encoder, nn.Linear):
        return encoder(functional.dropout(x, dropout, training))
    product = _product(sparse, x, encoder.weight, dropout, training)
    return product if encoder.bias is None else product + encoder.bias


def multiply_features(weight: Tensor, x: Tensor, dropout: float, training: bool) -> Tensor:
    """dropout(x) Wᵀ for a weight `[out, in]`, by a sparse product where x is sparse and large."""
    sparse = _sparse(x) if weight.device == x.device else None
    if sparse is None:
        return functional.linear(functional.dropout(x, dropout, training), weight)
    return _product(sparse, x, weight, dropout, training)


def _product(sparse: SparseFeatures, x: Tensor, weight: Tensor, dropout: float, training: bool) -> Tensor:
    entries = functional.dropout(x.take(sparse.places), dropout, training)
    return sparse_product(sparse.matrix, sparse.transposed, entries, weight.mT)


def _sparse(x: Tensor) -> SparseFeatures | None:
    """None for features that are dense, small, differentiated, of another kind, or only being traced."""
    if x.dim() != 2 or x.requires_grad or x.numel() < SIZE or x.dtype not in (torch.float32, torch.float64):
        return None
    if torch.compiler.is_compiling() or kernels.active() == "assembled":
        return None  # the published way is a dense product
    return _sparse_features(x, lambda: _entries(x) if can_read_values() else None)


def _entries(x: Tensor) -> SparseFeatures | None:
    if int(torch.count_nonzero(x)) > DENSITY * x.numel():
        return None
    node, feature = x.nonzero(as_tuple=True)
    number = torch.arange(node.numel(), device=x.device)
    by_feature = feature.argsort(stable=True)
    return SparseFeatures(
        node * x.size(1) + feature,
        _csr(node, feature, number, x.size(0)),
        _csr(feature[by_feature], node[by_feature], by_feature, x.size(1)),
    )


def _csr(row: Tensor, col: Tensor, entry: Tensor, num_rows: int) -> Csr:
    rowptr = functional.pad(torch.bincount(row, minlength=num_rows).cumsum(0), (1, 0))
    return Csr(rowptr.int(), col.int(), entry.int())
