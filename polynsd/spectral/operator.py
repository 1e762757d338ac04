"""What a filter can be applied to: `SpectralOperator`; `SymmetricOperator`, made of blocks or of a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from polynsd import kernels
from polynsd.errors import GraphError, ShapeError
from polynsd.kernels import BlockOperator
from polynsd.topology import Topology

if TYPE_CHECKING:
    import scipy.sparse as sp

ROUNDING = 1e-6  # of a matrix that counts as symmetric, relative to its largest entry


class SpectralOperator(Protocol):
    """A symmetric positive semidefinite operator that gives its blocks and a bound of its spectrum.

    That is all that `PolynomialFilter` and `Diffusion` need; `polynsd.testing.check_spectral_operator` holds
    an operator to it. One that is a filtered operator in other coordinates, as a direct sum is, may have a
    method `apply(function, x)` that calls `function(part, piece)` for each of its parts, which have blocks.
    """

    @property
    def blocks(self) -> BlockOperator:
        """(A x)_v = diag_v x_v + Σ_{h = (v, u)} off_h x_u with off_{(u, v)} = off_{(v, u)}ᵀ."""
        ...

    def lambda_max(self) -> Tensor | float:
        """An upper bound of the spectrum, without gradient; a tensor broadcasts against signals."""
        ...


@dataclass(frozen=True, eq=False)
class SymmetricOperator:
    """A symmetric positive semidefinite operator on signals `[..., N, d, C]`, given as it is.

    Attributes:
        blocks: the operator; blocks on stalks are `[d, d]`, `[d, 1]` (diagonal) or `[1, 1]` (a number).
        bound: λ_max, not below the largest eigenvalue.
    """

    blocks: BlockOperator
    bound: Tensor | float

    @classmethod
    def from_matrix(
        cls,
        matrix: sp.sparray | sp.spmatrix,
        bound: float | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
    ) -> SymmetricOperator:
        """From a symmetric sparse matrix of SciPy, for signals `[N, 1, C]`.

        The bound is the largest sum of absolute values in a row unless given.

        Raises:
            GraphError: the matrix is not symmetric and positive semidefinite, or holds what is not a number.
        """
        if not hasattr(matrix, "tocsr") or matrix.shape[0] != matrix.shape[1]:
            shape = f" of shape {list(matrix.shape)}" if hasattr(matrix, "shape") else ""
            raise ShapeError(
                f"from_matrix takes a square sparse matrix of SciPy; got {type(matrix).__name__}{shape}."
            )
        entries = matrix.tocsr(copy=True).astype(np.float64)
        entries.sum_duplicates()
        size, skew = (float(abs(part).max()) if part.nnz else 0.0 for part in (entries, entries - entries.T))
        if not np.isfinite(size) or skew > ROUNDING * size:
            raise GraphError(
                f"a filter needs a finite symmetric matrix; the largest entry here is {size:g}, and A − Aᵀ "
                f"holds {skew:g}. Take (A + Aᵀ) / 2, or a Laplacian of directed edges: magnetic_laplacian."
            )
        entries = (entries + entries.T) / 2
        entries.eliminate_zeros()
        _require_semidefinite(entries)
        topology = Topology.from_scipy(entries)
        half = topology.half_of_input.numpy()  # −1 on the diagonal
        off = np.zeros(topology.num_half_edges)
        off[half[half >= 0]] = entries.tocoo().data[half >= 0]
        dtype = torch.get_default_dtype() if dtype is None else dtype
        blocks = [
            torch.as_tensor(values.copy(), dtype=dtype, device=device)[:, None, None]
            for values in (entries.diagonal(), off)
        ]
        rows = np.asarray(abs(entries).sum(1)).ravel()
        found = float(rows.max(initial=0.0)) if bound is None else bound
        return cls(BlockOperator(topology.to(device).pattern, *blocks), found)

    def lambda_max(self) -> Tensor | float:
        return self.bound

    def __matmul__(self, x: Tensor) -> Tensor:
        return kernels.block_product(self.blocks, x)

    def to_dense(self) -> Tensor:
        """`[..., N d, N d]`."""
        N, d = self.blocks.diag.size(-3), self.blocks.diag.size(-2)
        eye = torch.eye(N * d, dtype=self.blocks.diag.dtype, device=self.blocks.diag.device)
        return (self @ eye.reshape(N, d, N * d)).flatten(-3, -2)


def _require_semidefinite(entries: sp.csr_array) -> None:
    """Raises where a 2 × 2 minor is negative: a_ij² > a_ii a_jj, as in an adjacency matrix."""
    diagonal, coo = entries.diagonal(), entries.tocoo()
    bound = np.sqrt(np.maximum(diagonal[coo.row] * diagonal[coo.col], 0.0))
    most = ROUNDING * np.abs(coo.data).max(initial=0.0)
    if (diagonal < -most).any() or (np.abs(coo.data) > bound + most).any():
        raise GraphError(
            "a filter needs a positive semidefinite matrix; here an entry exceeds the root of the product of "
            "the two on the diagonal. Of an adjacency matrix take the Laplacian: graph_laplacian."
        )
