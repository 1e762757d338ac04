"""Algebra of small blocks, told apart by their shape.

A block acts on a stalk of dimension d. It is stored as `[..., d, d]` (a matrix), `[..., d, 1]` (a
diagonal) or `[..., 1, 1]` (a multiple of the identity); for d = 1 the three are one and the same.
Broadcasting then does the bookkeeping, and no code above needs to ask which family of maps it is
dealing with.
"""

import torch
from torch import Tensor

from polynsd.kernels.ops import small


def is_elementwise(block: Tensor) -> bool:
    """Whether the block is a diagonal or a scalar (or d = 1, where there is no difference)."""
    return block.size(-1) == 1


def apply(block: Tensor, x: Tensor) -> Tensor:
    """B x for x `[..., d, C]`."""
    return block * x if is_elementwise(block) else block @ x


def transpose(block: Tensor) -> Tensor:
    """Bᵀ."""
    return block if is_elementwise(block) else block.mT


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """A B."""
    if is_elementwise(a):
        return a * b
    return a * b.mT if is_elementwise(b) else small.multiply(a, b)  # b scales the columns of A


def gram(block: Tensor, is_diagonal: bool = False) -> Tensor:
    """BᵀB; of a matrix only the diagonal where that is known to be all there is."""
    if is_elementwise(block):
        return block.square()
    return block.square().sum(-2).unsqueeze(-1) if is_diagonal else small.multiply(block, block, True)


def transport(left: Tensor, right: Tensor) -> Tensor:
    """LᵀR."""
    return (
        left * right if is_elementwise(left) and is_elementwise(right) else small.multiply(left, right, True)
    )


def outer(left: Tensor, right: Tensor, like: Tensor) -> Tensor:
    """∂⟨left, B right⟩/∂B for signals `[..., d, C]`, in the shape in which `like` stores a block."""
    if not is_elementwise(like) or like.size(-2) == left.size(-2) == 1:
        return left @ right.mT
    product = (left * right).sum(-1, keepdim=True)
    return product if like.size(-2) > 1 else product.sum(-2, keepdim=True)


def identity_like(block: Tensor) -> Tensor:
    """The identity in the shape of `block`, broadcastable to it."""
    if is_elementwise(block):
        return block.new_ones(1, 1)
    return torch.eye(block.size(-1), dtype=block.dtype, device=block.device)


def to_dense(block: Tensor, d: int) -> Tensor:
    """The block as a matrix `[..., d, d]`."""
    if not is_elementwise(block):
        return block
    return torch.diag_embed(block.squeeze(-1).expand(*block.shape[:-2], d))


def spectral_norm(block: Tensor) -> Tensor:
    """‖B‖₂ of symmetric blocks, `[...]`."""
    if is_elementwise(block):
        return block.abs().amax((-2, -1))
    return small.eigen(block)[0].abs().amax(-1)
