"""Products and eigenvalues of many small matrices, which libraries for large ones do slowly."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from polynsd.kernels.ops.custom import Gradients, differentiable, joins_replicas
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


@custom_op("polynsd::symmetric_eigen", mutates_args=())
def symmetric_eigen(A: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues `[n, d]` and eigenvectors `[n, d, d]` of symmetric matrices; not differentiable."""
    return backend_for(A).symmetric_eigen(A)


@symmetric_eigen.register_fake
def _(A: Tensor) -> tuple[Tensor, Tensor]:
    return A.new_empty(A.shape[:-1]), torch.empty_like(A, memory_format=torch.contiguous_format)


joins_replicas(symmetric_eigen, 1)


def multiply(a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """A B of matrices `[..., d, d]`, either of them transposed first."""
    shape, dtype = torch.broadcast_shapes(a.shape, b.shape), torch.promote_types(a.dtype, b.dtype)
    count = shape[:-2].numel()
    a, b = (t.to(dtype).expand(shape).reshape(count, *shape[-2:]) for t in (a, b))
    return block_multiply(a, b, transpose_a, transpose_b).reshape(shape)


def eigen(A: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues `[..., d]` and eigenvectors `[..., d, d]` of symmetric matrices; not differentiable."""
    values, vectors = symmetric_eigen(A.reshape(A.shape[:-2].numel(), *A.shape[-2:]))
    return values.reshape(A.shape[:-1]), vectors.reshape(A.shape)
