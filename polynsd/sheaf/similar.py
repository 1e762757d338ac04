"""`SimilarLaplacian`: an operator P⁻¹ A P with a symmetric A.

It is filtered as A is, because p(P⁻¹ A P) = P⁻¹ p(A) P. Two operators of the library are of this kind, with
P block diagonal:

* The sheaf of maps on nodes, F_{v⊴e} = c_v O_v with O_v orthogonal, is flat: its Laplacian is
  L = Oᵀ (L_w ⊗ I_d) O with the graph Laplacian L_w of the weights w_e c_v c_u. So a filter is: turn every
  stalk, filter on the plain graph, turn back. No block on an edge is ever made, whatever d is.
* Random-walk normalisation (D + I)⁻¹ L = S (S L S) S⁻¹ with S = (D + I)^{−1/2}: neighbours are averaged
  where the symmetric one weighs them by degrees.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from polynsd.kernels.ops import blocks
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.topology import Topology


class SimilarLaplacian:
    """P⁻¹ A P on signals `[..., N, d, C]`.

    Args:
        base: A.
        P: blocks `[..., N, d, d]`, `[..., N, d, 1]` or `[..., N, 1, 1]` on the nodes.
        inverse: P⁻¹, as blocks; None where P is orthogonal.
    """

    def __init__(self, base: SheafLaplacian, P: Tensor, inverse: Tensor | None = None) -> None:
        self.base, self.P, self._inverse = base, P, inverse

    @property
    def inverse(self) -> Tensor:
        """P⁻¹ as blocks."""
        return blocks.transpose(self.P) if self._inverse is None else self._inverse

    @property
    def is_symmetric(self) -> bool:
        return self._inverse is None

    @property
    def topology(self) -> Topology:
        return self.base.topology

    @property
    def stalk_dim(self) -> int:
        """The dimension of the stalks."""
        return self.base.stalk_dim

    @property
    def dtype(self) -> torch.dtype:
        return self.base.dtype

    @property
    def device(self) -> torch.device:
        return self.base.device

    @property
    def shape(self) -> tuple[int, int]:
        """(N d, N d)."""
        return self.base.shape

    def detach(self) -> SimilarLaplacian:
        """The same operator, whose maps have no gradient."""
        return self.convert(Tensor.detach)

    def convert(self, function: Callable[[Tensor], Tensor]) -> SimilarLaplacian:
        """The same operator with the function of every tensor that follows from the maps in its place."""
        inverse = None if self._inverse is None else function(self._inverse)
        return SimilarLaplacian(self.base.convert(function), function(self.P), inverse)

    def apply(self, function: Callable[[SheafLaplacian, Tensor], Tensor], x: Tensor) -> Tensor:
        """P⁻¹ function(A, P x)."""
        y = function(self.base, blocks.apply(self.P, self.check_signal(x)))
        return (
            blocks.apply(self.P, y, transpose=True)
            if self._inverse is None
            else blocks.apply(self._inverse, y)
        )

    def __matmul__(self, x: Tensor) -> Tensor:
        return self.apply(lambda base, turned: base @ turned, x)

    def energy(self, x: Tensor) -> Tensor:
        """⟨P x, A P x⟩ ≥ 0."""
        return self.base.energy(blocks.apply(self.P, self.check_signal(x)))

    def lambda_max(self, method: str = "analytic") -> Tensor | float:
        """Similar operators have the same eigenvalues; see `SheafLaplacian.lambda_max`."""
        return self.base.lambda_max(method)

    @property
    def diagonal_blocks(self) -> Tensor:
        """[..., N, d, d] the blocks on the diagonal."""
        P, inverse = (blocks.to_dense(t, self.stalk_dim) for t in (self.P, self.inverse))
        return inverse @ self.base.diagonal_blocks @ P

    def to_dense(self) -> Tensor:
        """[..., N d, N d], for small graphs and tests."""
        P, inverse = (_block_diagonal(blocks.to_dense(t, self.stalk_dim)) for t in (self.P, self.inverse))
        return inverse @ self.base.to_dense() @ P

    def check_signal(self, x: Tensor) -> Tensor:
        """The signal itself; raises unless it is `[..., N, d, C]`."""
        return self.base.check_signal(x)


def _block_diagonal(P: Tensor) -> Tensor:
    """[..., N, d, d] → [..., N d, N d]."""
    N, d = P.shape[-3], P.size(-1)
    nodes = torch.arange(N, device=P.device)
    whole = P.new_zeros(*P.shape[:-3], N, N, d, d)
    whole[..., nodes, nodes, :, :] = P
    return whole.transpose(-3, -2).reshape(*P.shape[:-3], N * d, N * d)
