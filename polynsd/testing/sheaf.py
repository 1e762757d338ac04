"""Contracts of a family of restriction maps and of a sheaf Laplacian.

A family gives maps of the right shape with correct gradients, uses every number, and keeps its promise
about FᵀF. A Laplacian is the dense matrix of its definition, symmetric, positive semidefinite, and inside
its own bound.
"""

from typing import Protocol

import torch
from torch import Tensor

from polynsd.sheaf.families import MapFamily
from polynsd.testing.compare import TOLERANCE, assert_close, gradients
from polynsd.testing.dense import dense_maps
from polynsd.testing.samples import random_tensor
from polynsd.topology import Topology

LEAD = (2, 3)  # replicas, half-edges


def check_family(family: MapFamily, d: int, dtype: torch.dtype = torch.float64) -> None:
    """Shapes, replicas, gradients, no idle parameter, and the claim about FᵀF."""
    count = family.num_params(d)
    assert (count > 0) == family.is_learned, f"{family}: {count} numbers, is_learned={family.is_learned}"
    raw = random_tensor(*LEAD, count, dtype=dtype).tanh()
    maps = family.build(raw, d)
    assert maps.shape[:-2] == LEAD, f"{family}: leading dimensions became {list(maps.shape[:-2])}"
    assert tuple(maps.shape[-2:]) in {(d, d), (d, 1), (1, 1)}, f"{family}: blocks {list(maps.shape[-2:])}"
    assert maps.dtype == dtype, f"{family}: {dtype} became {maps.dtype}"
    assert_close(maps[1], family.build(raw[1], d).double(), f"{family}: second replica alone")
    if family.orthogonal_columns:
        assert_diagonal_gram(maps, d)
    if family.is_learned:
        assert_differentiable(family, d)


def assert_differentiable(family: MapFamily, d: int) -> None:
    """`build` passes gradcheck, and every raw number moves the map."""
    raw = random_tensor(3, family.num_params(d), seed=1).tanh().requires_grad_()
    correct = torch.autograd.gradcheck(lambda r: family.build(r, d), raw, raise_exception=False)
    assert correct, f"{family}: the gradient of build is not its derivative"
    (gradient,) = gradients(lambda r: family.build(r, d), [raw])
    assert bool((gradient != 0).all()), f"{family}: a parameter has no influence on the map"


def assert_diagonal_gram(maps: Tensor, d: int) -> None:
    """Raises unless FᵀF is diagonal."""
    gram = _gram(maps, d)
    off = gram - torch.diag_embed(gram.diagonal(dim1=-2, dim2=-1))
    worst = float(off.abs().max())
    assert worst <= TOLERANCE[maps.dtype], f"orthogonal_columns is claimed, but FᵀF holds {worst:.2e}"


def assert_orthogonal(maps: Tensor, d: int) -> None:
    """Raises unless FᵀF = I."""
    gram = _gram(maps, d)
    assert_close(gram.to(maps.dtype), torch.eye(d, dtype=torch.float64).expand_as(gram), "FᵀF")


def _gram(maps: Tensor, d: int) -> Tensor:
    F = dense_maps(maps, d)
    return F.mT @ F


class SheafOperator(Protocol):
    """What the contract asks of an operator: the interface of `SheafLaplacian`."""

    @property
    def topology(self) -> Topology: ...

    @property
    def stalk_dim(self) -> int: ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def diagonal_blocks(self) -> Tensor: ...

    def __matmul__(self, x: Tensor) -> Tensor: ...

    def energy(self, x: Tensor) -> Tensor: ...

    def lambda_max(self, method: str = "analytic") -> Tensor | float: ...

    def to_dense(self) -> Tensor: ...

    def to_sparse(self) -> Tensor: ...


def check_operator(L: SheafOperator, dense: Tensor) -> None:
    """The whole contract, against the matrix that L should be (see `dense_laplacian`)."""
    assert_matches_dense(L, dense)
    assert_adjoint(L)
    assert_psd(L)
    assert_spectrum_within_bound(L)


def random_signal(L: SheafOperator, channels: int = 3, seed: int = 0) -> Tensor:
    """[N, d, channels] in the dtype of L."""
    return random_tensor(L.topology.num_nodes, L.stalk_dim, channels, seed=seed, dtype=L.dtype)


def assert_matches_dense(L: SheafOperator, dense: Tensor) -> None:
    """Product, diagonal blocks, dense and sparse form and energy are those of the matrix."""
    N, d = L.topology.num_nodes, L.stalk_dim
    x = random_signal(L)
    flat = x.double().reshape(N * d, -1)
    blocks = torch.stack([dense[v * d : v * d + d, v * d : v * d + d] for v in range(N)])
    assert_close(L.to_dense(), dense, "to_dense")
    assert_close(L.to_sparse().to_dense(), dense, "to_sparse")
    assert_close(L.diagonal_blocks, blocks, "diagonal_blocks")
    assert_close(L @ x, (dense @ flat).reshape(x.shape), "L @ x")
    assert_close(L.energy(x), (flat * (dense @ flat)).sum(), "energy")


def assert_adjoint(L: SheafOperator) -> None:
    """⟨L x, y⟩ = ⟨x, L y⟩, relative to ‖L x‖ ‖y‖."""
    x, y = random_signal(L, seed=1), random_signal(L, seed=2)
    Lx, Ly = L @ x, L @ y
    defect = float(((Lx * y).sum() - (x * Ly).sum()).abs())
    scale = float(Lx.norm() * y.norm()) or 1.0
    assert defect <= TOLERANCE[L.dtype] * scale, f"⟨Lx, y⟩ and ⟨x, Ly⟩ differ by {defect:.2e}"


def assert_psd(L: SheafOperator) -> None:
    """No eigenvalue is below zero, up to rounding, and no energy is."""
    values = torch.linalg.eigvalsh(L.to_dense().double())
    lowest, scale = float(values[0]), float(values[-1].clamp(min=1.0))
    assert lowest >= -TOLERANCE[L.dtype] * scale, f"smallest eigenvalue is {lowest:.2e}"
    assert float(L.energy(random_signal(L, seed=3))) >= 0, "energy is negative"


def assert_spectrum_within_bound(L: SheafOperator) -> None:
    """λ_1 ≤ lanczos ≤ analytic. The first holds where Krylov spaces are exhausted: on small graphs."""
    top = float(torch.linalg.eigvalsh(L.to_dense().double())[-1])
    analytic, lanczos = (float(torch.as_tensor(L.lambda_max(m)).max()) for m in ("analytic", "lanczos"))
    slack = TOLERANCE[L.dtype] * max(top, 1.0)
    assert top <= analytic + slack, f"λ_1 = {top} exceeds the analytic bound {analytic}"
    assert top <= lanczos + slack, f"λ_1 = {top} exceeds the Lanczos bound {lanczos}"
    assert lanczos <= analytic, f"the Lanczos bound {lanczos} exceeds the analytic bound {analytic}"
