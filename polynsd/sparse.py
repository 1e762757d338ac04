"""Sparse matrices of features, as tensors and in SciPy: nothing here makes one dense."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polynsd.errors import ShapeError

LARGEST_INT32 = 2**31 - 1


def is_sparse(x: Tensor) -> bool:
    """Whether a tensor is stored sparsely, in whichever layout."""
    return x.layout != torch.strided


def require_dense(x: Tensor) -> None:
    """Raises for a sparse tensor, where features are used otherwise than in a product with weights."""
    if is_sparse(x):
        raise ShapeError(
            f"this model takes dense features; got {x.layout}. Give it x.to_dense(), or take one that begins "
            "with a linear map, such as PolyNSD."
        )


def stored_values(x: Tensor) -> Tensor:
    """The numbers that a tensor stores: itself if it is dense; if not, all others are zero."""
    if not is_sparse(x):
        return x
    return x._values() if x.layout == torch.sparse_coo else x.values()


def list_entries(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, columns and numbers `[nnz]` of a sparse matrix, sorted by row."""
    if x.layout == torch.sparse_csr:
        count = x.crow_indices().diff().long()
        row = torch.repeat_interleave(count, output_size=x.col_indices().numel())
        return row, x.col_indices(), x.values()
    entries = x.to_sparse_coo().coalesce()
    return entries.indices()[0], entries.indices()[1], entries.values()


def to_tensor(matrix: Any, dtype: torch.dtype) -> Tensor:
    """SciPy's sparse matrix as a tensor in CSR layout."""
    matrix = matrix.tocsr()
    index = np.int32 if max(matrix.nnz, *matrix.shape) <= LARGEST_INT32 else np.int64
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(in beta state|invariant checks)", UserWarning)
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(index)),
            torch.from_numpy(matrix.indices.astype(index)),
            torch.from_numpy(np.array(matrix.data)).to(dtype),
            matrix.shape,
        )


def to_scipy(x: Tensor) -> Any:
    """A sparse tensor as SciPy's `csr_array`."""
    from scipy import sparse

    row, col, values = (part.detach().cpu().numpy() for part in list_entries(x))
    return sparse.csr_array(sparse.coo_array((values, (row, col)), shape=tuple(x.shape)))


def check_pointers(matrix: Any) -> None:
    """Raises a `ValueError` unless the arrays of a CSR or CSC matrix of SciPy point into each other.

    SciPy checks nothing where the last pointer is negative, and its loops then write beyond their arrays.
    """
    if matrix.indptr[-1] < 0:
        raise ValueError(f"the last pointer is {matrix.indptr[-1]}")
    matrix.check_format(full_check=True)
