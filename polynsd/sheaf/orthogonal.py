"""Orthogonal matrices from unconstrained numbers: four parametrisations of `[..., m]` → `[..., d, d]`.

| method       | m        | reaches                                                               |
|--------------|----------|-----------------------------------------------------------------------|
| householder  | d(d−1)/2 | one component of O(d), det = (−1)^d; −I at zero parameters            |
| cayley       | d(d−1)/2 | rotations without the eigenvalue −1                                   |
| matrix_exp   | d(d−1)/2 | all of SO(d)                                                          |
| euler        | d(d−1)/2 | all of SO(2), SO(3); d = 2 or 3 only; parameters count full turns     |

The transport between neighbours F_vᵀF_u is therefore always a rotation. Use `matrix_exp` where all
of SO(d) must be within reach, `householder` (the published choice) otherwise. A parametrisation is
a `Method`; add one to `METHODS`.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from polynsd.kernels.ops import blocks
from polynsd.kernels.ops.householder import householder_product


class Method(NamedTuple):
    """How d(d−1)/2 numbers become an orthogonal matrix, and for which d."""

    build: Callable[[Tensor, int], Tensor]
    dimensions: range
    build_fast: Callable[[Tensor, int], Tensor] | None = None  # the same up to rounding

    @property
    def fastest(self) -> Callable[[Tensor, int], Tensor]:
        """Where nothing has to agree with published trainings to the bit."""
        return self.build if self.build_fast is None else self.build_fast


def householder(params: Tensor, d: int) -> Tensor:
    """Q = H_1 … H_d, H_i = I − 2 v_i v_iᵀ/‖v_i‖², v_i = column i of (I + strict lower triangle)."""
    eye = torch.eye(d, dtype=params.dtype, device=params.device)
    V = _strict_lower(params, d) + eye
    V = V * V.square().sum(-2, keepdim=True).rsqrt()  # at least 1; PyTorch's norm of short columns is slow
    Q = eye - 2 * V[..., :, :1] * V[..., None, :, 0]
    for i in range(1, d - 1):
        Q = blocks.matmul(Q, eye - 2 * V[..., :, i, None] * V[..., None, :, i])
    return Q * (1 - 2 * eye[-1])  # v_d = e_d: the last reflection flips the last column


def cayley(params: Tensor, d: int) -> Tensor:
    """Q = (I − A/2)^{−1} (I + A/2), A skew."""
    half = _skew(params, d) / 2
    eye = torch.eye(d, dtype=params.dtype, device=params.device)
    return torch.linalg.solve_ex(eye - half, eye + half)[0]  # never singular: A is skew


def matrix_exp(params: Tensor, d: int) -> Tensor:
    """Q = exp(A), A skew."""
    return torch.linalg.matrix_exp(_skew(params, d))


def euler(params: Tensor, d: int) -> Tensor:
    """A rotation by 2π·params: of the plane (d = 2), or R_z(α) R_y(β) R_x(γ) (d = 3)."""
    c, s = (2 * math.pi * params).cos(), (2 * math.pi * params).sin()
    if d == 2:
        return torch.stack([c, -s, s, c], -1).reshape(*params.shape[:-1], 2, 2)
    planes = ((0, 1), (2, 0), (1, 2))  # about z, y and x
    rotations = [_plane_rotation(c[..., i], s[..., i], *plane) for i, plane in enumerate(planes)]
    return rotations[0] @ rotations[1] @ rotations[2]


METHODS = {
    "householder": Method(householder, range(2, 65), householder_product),
    "cayley": Method(cayley, range(2, 65)),
    "matrix_exp": Method(matrix_exp, range(2, 65)),
    "euler": Method(euler, range(2, 4)),
}


def _strict_lower(params: Tensor, d: int) -> Tensor:
    i, j = torch.tril_indices(d, d, -1, device=params.device)
    lower = params.new_zeros(*params.shape[:-1], d * d)
    return lower.index_copy(-1, i * d + j, params).reshape(*params.shape[:-1], d, d)


def _skew(params: Tensor, d: int) -> Tensor:
    lower = _strict_lower(params, d)
    return lower - lower.mT


def _plane_rotation(c: Tensor, s: Tensor, i: int, j: int) -> Tensor:
    """The rotation that turns axis i towards axis j in three dimensions."""
    one, zero = torch.ones_like(c), torch.zeros_like(c)
    rows = [[one if a == b else zero for b in range(3)] for a in range(3)]
    rows[i][i], rows[i][j], rows[j][i], rows[j][j] = c, -s, s, c
    return torch.stack([torch.stack(row, -1) for row in rows], -2)
