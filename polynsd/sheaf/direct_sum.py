"""`DirectSum`: sheaves on different coordinates of the same stalks, kept apart.

A stalk of learned and fixed coordinates has block-diagonal maps F ⊕ F', so L = L ⊕ L' and every
polynomial of it is p(L) ⊕ p(L'). Kept apart, the learned blocks are small and the fixed ones diagonal;
put together, a block of 6 × 6 numbers would hold 18 zeros, and be multiplied with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from polynsd.sheaf.checks import check_signal_shape
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.sheaf.similar import SimilarLaplacian
from polynsd.topology import Topology


class DirectSum:
    """A symmetric operator on signals `[..., N, d, C]`, whose parts act on consecutive coordinates.

    Args:
        parts: Laplacians on the same graph.
    """

    def __init__(self, parts: Sequence[SheafLaplacian | SimilarLaplacian]) -> None:
        self.parts = tuple(parts)

    @property
    def is_symmetric(self) -> bool:
        return all(part.is_symmetric for part in self.parts)

    @property
    def topology(self) -> Topology:
        return self.parts[0].topology

    @property
    def stalk_dim(self) -> int:
        """d, of all parts together."""
        return sum(part.stalk_dim for part in self.parts)

    @property
    def dtype(self) -> torch.dtype:
        return self.parts[0].dtype

    @property
    def device(self) -> torch.device:
        return self.parts[0].device

    @property
    def shape(self) -> tuple[int, int]:
        """(N d, N d)."""
        size = self.topology.num_nodes * self.stalk_dim
        return size, size

    def detach(self) -> DirectSum:
        """The same operator, whose maps have no gradient."""
        return self.convert(Tensor.detach)

    def convert(self, function: Callable[[Tensor], Tensor]) -> DirectSum:
        """The same operator with the function of every tensor that follows from the maps in its place."""
        return DirectSum([part.convert(function) for part in self.parts])

    def apply(self, function: Callable[[SheafLaplacian, Tensor], Tensor], x: Tensor) -> Tensor:
        """The function on every part and its coordinates, put together again."""
        pieces = self.check_signal(x).split([part.stalk_dim for part in self.parts], -2)
        results = [part.apply(function, piece) for part, piece in zip(self.parts, pieces, strict=True)]
        return torch.cat(results, -2)

    def __matmul__(self, x: Tensor) -> Tensor:
        return self.apply(lambda part, piece: part @ piece, x)

    def energy(self, x: Tensor) -> Tensor:
        """⟨x, L x⟩, the sum of the parts' energies."""
        pieces = self.check_signal(x).split([part.stalk_dim for part in self.parts], -2)
        energies = [part.energy(piece) for part, piece in zip(self.parts, pieces, strict=True)]
        return torch.stack(energies).sum(0)

    def lambda_max(self, method: str = "analytic") -> Tensor | float:
        """The largest of the parts' bounds; see `SheafLaplacian.lambda_max`."""
        bounds = [part.lambda_max(method) for part in self.parts]
        if not any(isinstance(bound, Tensor) for bound in bounds):
            return max(float(bound) for bound in bounds)
        like = next(bound for bound in bounds if isinstance(bound, Tensor))
        largest = like
        for bound in bounds:
            largest = torch.maximum(largest, torch.as_tensor(bound).to(like))
        return largest

    @property
    def diagonal_blocks(self) -> Tensor:
        """[..., N, d, d] the blocks on the diagonal."""
        return _block_diagonal([part.diagonal_blocks for part in self.parts])

    def to_dense(self) -> Tensor:
        """[..., N d, N d], for small graphs and tests."""
        N = self.topology.num_nodes
        dense = [part.to_dense().unflatten(-1, (N, -1)).unflatten(-3, (N, -1)) for part in self.parts]
        whole = _block_diagonal([part.transpose(-3, -2) for part in dense])  # [..., N, N, d, d]
        return whole.transpose(-3, -2).flatten(-2).flatten(-3, -2)

    def check_signal(self, x: Tensor) -> Tensor:
        """The signal itself; raises unless it is `[..., N, d, C]`."""
        return check_signal_shape(x, self.topology.num_nodes, self.stalk_dim)


def _block_diagonal(blocks: Sequence[Tensor]) -> Tensor:
    lead = torch.broadcast_shapes(*(block.shape[:-2] for block in blocks))
    size = sum(block.size(-1) for block in blocks)
    whole, start = blocks[0].new_zeros(*lead, size, size), 0
    for block in blocks:
        end = start + block.size(-1)
        whole[..., start:end, start:end] = block
        start = end
    return whole
