"""Contract of a sheaf Laplacian: it is the dense matrix, symmetric, PSD, and inside its own bound."""

from typing import Protocol

import torch
from torch import Tensor

from polynsd.testing.compare import TOLERANCE, assert_close
from polynsd.testing.samples import random_tensor
from polynsd.topology import Topology


class SheafOperator(Protocol):
    """What the contract asks of an operator."""

    @property
    def topology(self) -> Topology:
        """The graph."""
        ...

    @property
    def stalk_dim(self) -> int:
        """The d of its signals."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """Of its values."""
        ...

    @property
    def diagonal_blocks(self) -> Tensor:
        """[N, d, d]."""
        ...

    def __matmul__(self, x: Tensor) -> Tensor:
        """L x."""
        ...

    def energy(self, x: Tensor) -> Tensor:
        """⟨x, L x⟩."""
        ...

    def lambda_max(self, method: str = "analytic") -> Tensor | float:
        """An upper bound of the spectrum."""
        ...

    def to_dense(self) -> Tensor:
        """[N d, N d]."""
        ...

    def to_sparse(self) -> Tensor:
        """[N d, N d], sparse."""
        ...


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
