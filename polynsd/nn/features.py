"""Sparse features as a graph: nodes on one side, features on the other.

Bags of words are zero in 99 places of 100, and a dense product with a thousand of them costs more than
all sheaf layers together. With X the features and W the weights of the encoder,

    X Wᵀ = the first N rows of A z,    A = [[0, X], [Xᵀ, 0]],    z = [0; Wᵀ],

and A is a symmetric operator on the bipartite graph of the entries of X, which the kernels know how to
multiply with. Dropout of a zero is zero, so it is enough to drop entries.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from polynsd import kernels
from polynsd.kernels import BlockOperator, Pattern
from polynsd.memo import TensorMemo, may_look_at_values
from polynsd.topology import Topology

DENSITY = 0.05  # share of entries that are not zero, up to which a graph is worth it
SIZE = 2**18  # entries of X from which on it matters


class SparseFeatures(NamedTuple):
    """Where X is not zero, and the bipartite graph of these entries."""

    pattern: Pattern
    places: Tensor  # [nnz] in X, row by row
    entry: Tensor  # [H] which of them a half-edge carries


_known: TensorMemo[SparseFeatures | None] = TensorMemo()


def encode_features(encoder: nn.Module, x: Tensor, dropout: float, training: bool) -> Tensor:
    """`encoder(dropout(x))`, by way of the bipartite graph where x is sparse and large.

    Where x is zero is looked at once, and again when PyTorch says that x has changed; who writes to it
    behind PyTorch's back (`x.data`, `x.numpy()`) must not turn zeros into something else.
    """
    sparse = _sparse(x) if type(encoder) is nn.Linear and encoder.weight.device == x.device else None
    if sparse is None or not isinstance(encoder, nn.Linear):
        return encoder(functional.dropout(x, dropout, training))
    entries = functional.dropout(x.take(sparse.places), dropout, training)
    signal = torch.cat([encoder.weight.new_zeros(len(x), encoder.out_features), encoder.weight.mT])
    diag = x.new_zeros(signal.size(0), 1, 1)
    A = BlockOperator(sparse.pattern, diag, entries.index_select(0, sparse.entry)[:, None, None])
    product = kernels.block_product(A, signal[:, None, :])[: len(x), 0]
    return product if encoder.bias is None else product + encoder.bias


def _sparse(x: Tensor) -> SparseFeatures | None:
    """None for features that are dense, small, differentiated, of another kind, or only being traced."""
    if x.dim() != 2 or x.requires_grad or x.numel() < SIZE or x.dtype not in (torch.float32, torch.float64):
        return None
    if torch.compiler.is_compiling() or kernels.chosen() == "assembled":
        return None  # the published way is a dense product
    return _known(x, lambda: _entries(x) if may_look_at_values() else None)


def _entries(x: Tensor) -> SparseFeatures | None:
    if int(torch.count_nonzero(x)) > DENSITY * x.numel():
        return None
    node, feature = x.nonzero(as_tuple=True)
    topology = Topology.from_edge_index(torch.stack([node, x.size(0) + feature]), sum(x.shape))
    return SparseFeatures(topology.pattern, node * x.size(1) + feature, topology.edge)  # edges in X's order
