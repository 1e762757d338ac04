"""Algebra of small blocks, told apart by their shape.

A block acts on a stalk of dimension d. It is stored as `[..., d, d]` (a matrix), `[..., d, 1]` (a
diagonal) or `[..., 1, 1]` (a multiple of the identity); for d = 1 the three are one and the same.
Broadcasting then does the bookkeeping, and no code above needs to ask which family of maps it is
dealing with.

Products (`matmul`, `apply`) and eigenvalues (`eigh`) of many small matrices are operations of their own,
because `torch.matmul` and `torch.linalg.eigh` are made for large matrices and are slow on small ones.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from polynsd.kernels.ops.autograd import Gradients, differentiable, is_spelt_out, register_vmap
from polynsd.kernels.registry import backend_for


@custom_op("polynsd::block_multiply", mutates_args=())
def _block_multiply(a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    return backend_for(a).block_multiply(a, b, transpose_a, transpose_b)


@_block_multiply.register_fake
def _(a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    return torch.empty_like(a, memory_format=torch.contiguous_format)


def _block_multiply_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    a, b, ctx.transpose_a, ctx.transpose_b = inputs
    ctx.save_for_backward(a, b)


def _block_multiply_backward(ctx: Any, g: Tensor) -> Gradients:
    """With C = A B: ∂A = g Bᵀ and ∂B = Aᵀ g, each transposed where its matrix was."""
    a, b = ctx.saved_tensors
    ta, tb = ctx.transpose_a, ctx.transpose_b
    grad_a = block_multiply(b, g, tb, True) if ta else block_multiply(g, b, False, not tb)
    grad_b = block_multiply(g, a, True, ta) if tb else block_multiply(a, g, not ta, False)
    return grad_a, grad_b, None, None


block_multiply = differentiable(_block_multiply, _block_multiply_setup, _block_multiply_backward, 2)


@custom_op("polynsd::block_apply", mutates_args=())
def _block_apply(block: Tensor, x: Tensor, transpose: bool) -> Tensor:
    return backend_for(x).block_apply(block, x, transpose)


@_block_apply.register_fake
def _(block: Tensor, x: Tensor, transpose: bool) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _block_apply_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    block, x, ctx.transpose = inputs
    ctx.save_for_backward(block, x)


def _block_apply_backward(ctx: Any, g: Tensor) -> Gradients:
    """With y = B x: ∂B = g xᵀ and ∂x = Bᵀ g; with y = Bᵀ x: ∂B = x gᵀ and ∂x = B g."""
    block, x = ctx.saved_tensors
    left, right = (x, g) if ctx.transpose else (g, x)
    grad_block = block_outer(left, right) if ctx.needs_input_grad[0] else None
    grad_x = block_apply(block, g, not ctx.transpose) if ctx.needs_input_grad[1] else None
    return grad_block, grad_x, None


block_apply = differentiable(_block_apply, _block_apply_setup, _block_apply_backward, 2)


@custom_op("polynsd::block_outer", mutates_args=())
def _block_outer(left: Tensor, right: Tensor) -> Tensor:
    return backend_for(left).block_outer(left, right)


@_block_outer.register_fake
def _(left: Tensor, right: Tensor) -> Tensor:
    return left.new_empty(*left.shape[:2], left.size(1))


def _block_outer_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _block_outer_backward(ctx: Any, G: Tensor) -> Gradients:
    """With B = l rᵀ: ∂l = G r and ∂r = Gᵀ l."""
    left, right = ctx.saved_tensors
    return block_apply(G, right, False), block_apply(G, left, True)


block_outer = differentiable(_block_outer, _block_outer_setup, _block_outer_backward, 2)


@custom_op("polynsd::symmetric_eigen", mutates_args=())
def symmetric_eigen(A: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues `[n, d]` and eigenvectors `[n, d, d]` of symmetric matrices; not differentiable."""
    return backend_for(A).symmetric_eigen(A)


@symmetric_eigen.register_fake
def _(A: Tensor) -> tuple[Tensor, Tensor]:
    return A.new_empty(A.shape[:-1]), torch.empty_like(A, memory_format=torch.contiguous_format)


register_vmap(symmetric_eigen, 1)


def matmul(a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """A B of matrices `[..., d, d]`, either of them transposed first."""
    shape, dtype = torch.broadcast_shapes(a.shape, b.shape), torch.promote_types(a.dtype, b.dtype)
    count = prod(shape[:-2])  # Size.numel() would fix a size that torch.export leaves open
    a, b = (t.to(dtype).expand(shape).reshape(count, *shape[-2:]) for t in (a, b))
    return block_multiply(a, b, transpose_a, transpose_b).reshape(shape)


def eigh(A: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues `[..., d]` and eigenvectors `[..., d, d]` of symmetric matrices; not differentiable."""
    flat = A.reshape(prod(A.shape[:-2]), *A.shape[-2:])
    values, vectors = torch.linalg.eigh(flat) if is_spelt_out() else symmetric_eigen(flat)
    return values.reshape(A.shape[:-1]), vectors.reshape(A.shape)


def is_elementwise(block: Tensor) -> bool:
    """Whether the block is a diagonal or a scalar (or d = 1, where there is no difference)."""
    return block.size(-1) == 1


def apply(block: Tensor, x: Tensor, transpose: bool = False) -> Tensor:
    """B x, or Bᵀ x, for x `[..., d, C]`."""
    if is_elementwise(block):
        return block * x
    lead = torch.broadcast_shapes(block.shape[:-2], x.shape[:-2])
    dtype = torch.promote_types(block.dtype, x.dtype)
    block, x = (
        t.to(dtype).expand(*lead, *t.shape[-2:]).reshape(prod(lead), *t.shape[-2:]) for t in (block, x)
    )
    return block_apply(block, x, transpose).reshape(*lead, *x.shape[-2:])


def transpose(block: Tensor) -> Tensor:
    """Bᵀ, stored as B is."""
    return block if is_elementwise(block) else block.mT


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """A B, stored as the larger of the two."""
    if is_elementwise(a):
        return a * b
    return a * b.mT if is_elementwise(b) else matmul(a, b)  # b scales the columns of A


def gram(block: Tensor, is_diagonal: bool = False) -> Tensor:
    """BᵀB; of a matrix only the diagonal where that is known to be all there is."""
    if is_elementwise(block):
        return block.square()
    return block.square().sum(-2).unsqueeze(-1) if is_diagonal else matmul(block, block, True)


def transport(left: Tensor, right: Tensor) -> Tensor:
    """LᵀR, the coupling of two ends of an edge."""
    return left * right if is_elementwise(left) and is_elementwise(right) else matmul(left, right, True)


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
    return eigh(block)[0].abs().amax(-1)
