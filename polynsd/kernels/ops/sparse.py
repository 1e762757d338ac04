"""Products with a sparse matrix X, such as a bag of words, whose numbers are not learned."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.library import custom_op

from polynsd.kernels.ops.custom import Gradients, differentiable
from polynsd.kernels.ops.operator import Csr
from polynsd.kernels.registry import backend_for


@custom_op("polynsd::csr_product", mutates_args=())
def _csr_product(
    values: Tensor,
    z: Tensor,
    rowptr: Tensor,
    col: Tensor,
    entry: Tensor,
    t_rowptr: Tensor,
    t_col: Tensor,
    t_entry: Tensor,
) -> Tensor:
    return backend_for(z).csr_product(Csr(rowptr, col, entry), values, z)


@_csr_product.register_fake
def _(values: Tensor, z: Tensor, rowptr: Tensor, *rest: Tensor) -> Tensor:
    return z.new_empty(max(values.size(0), z.size(0)), rowptr.size(0) - 1, z.size(2))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    values, z, *structure = inputs
    ctx.is_shared = z.size(0) < output.size(0)
    ctx.save_for_backward(values, *structure)


def _backward(ctx: Any, g: Tensor) -> Gradients:
    """∂z = Xᵀ g."""
    values, *structure = ctx.saved_tensors
    grad = csr_product(values, g, *structure[3:], *structure[:3])
    return None, grad.sum(0, keepdim=True) if ctx.is_shared else grad, *[None] * len(structure)


csr_product = differentiable(_csr_product, _setup, _backward, 2, shares=True)


def sparse_product(matrix: Csr, transposed: Csr, values: Tensor, z: Tensor) -> Tensor:
    """X z for z `[F, C]`, with the numbers `[nnz]` of X; they are constants, only z has a gradient."""
    return csr_product(values[None], z[None], *matrix, *transposed)[0]
