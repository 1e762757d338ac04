"""Contract of an operator that a filter takes: symmetric blocks, a bound, the filter of a dense matrix."""

import torch
from torch import Tensor

from polynsd import kernels
from polynsd.kernels.ops import blocks
from polynsd.spectral import PolynomialFilter, SpectralOperator
from polynsd.testing.backends import check_filter, dense_operator
from polynsd.testing.compare import TOLERANCE, assert_close
from polynsd.testing.samples import random_tensor


def check_spectral_operator(L: SpectralOperator, dense: Tensor, stalk_dim: int, degree: int = 5) -> None:
    """The whole contract, against the matrix that L should be.

    Args:
        L: the operator.
        dense: `[N d, N d]` the matrix, real and in float64.
        stalk_dim: d.
        degree: of the filter that is tried, with its gradients by signal, coefficients and blocks.
    """
    A, d = L.blocks, stalk_dim
    dtype, N = A.diag.dtype, A.pattern.num_nodes
    assert_close(dense_operator(A, d).to(dtype), dense, "the blocks")
    off = blocks.to_dense(A.off, d)
    assert_close(off[A.pattern.twin.long()], off.mT, "off_(u, v) = off_(v, u)ᵀ")
    values, Q = torch.linalg.eigh(dense)
    given = L.lambda_max()
    bound = float(given.max()) if isinstance(given, Tensor) else given
    slack = TOLERANCE[dtype] * max(bound, 1.0)
    assert float(values[0]) >= -slack, f"the smallest eigenvalue is {float(values[0]):.2e}, below 0"
    assert float(values[-1]) <= bound + slack, f"λ_1 = {float(values[-1])} exceeds the bound {bound}"
    filter_, x = PolynomialFilter("legendre", degree).to(dtype), random_tensor(N, d, 3, dtype=dtype)
    multiplied = filter_.response(values, bound or 1.0)[:, None] * (Q.mT @ x.double().flatten(0, 1))
    assert_close(filter_(L, x), (Q @ multiplied).reshape(x.shape), "filter")
    check_filter(kernels, A, d, degree, 2 / bound if bound else 0.0)
