"""The design matrix of a linear model on smoothed features, Z = [X, P X, …, Pᴴ X], as an operator.

P X and P² X of a bag of words are many times denser than X, so they are not formed where that costs more:

    Z W  = X W₀ + P (X W₁ + P (X W₂ + …)),        Zᵀ G = [Xᵀ G; Xᵀ (Pᵀ G); Xᵀ (Pᵀ)² G; …].

Columns are centred, which no model with an intercept notices but conjugate gradients do, and scaled: dense
ones to one variance, sparse ones all alike, because a rare word shall not weigh as much as a frequent one,
to that variance on average. The scaled rows of X, P X, … have a mean square of 1 each, so that penalties mean
the same on every graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from polynsd.sparse import to_tensor

PROBES = 32  # random vectors by which the size of P^h X is measured
ROUNDING = 1e-12  # columns whose variance is smaller than this share of their square are constant


@dataclass(frozen=True, eq=False)
class Design:
    """(Z − 1 meanᵀ) diag(scale) on some rows of a graph.

    Args:
        x: X `[M, F]`, sparse (CSR) or dense.
        x_t: its transpose.
        p: P `[M, M]`, or None with `hops` = 0.
        p_t: its transpose.
        hops: H.
        rows: the rows of Z that count, of M.
        mean: `[(H + 1) F]` of the columns of Z, scaled.
        scale: `[(H + 1) F]`.
    """

    x: Tensor
    x_t: Tensor
    p: Tensor | None
    p_t: Tensor | None
    hops: int
    rows: Tensor
    mean: Tensor
    scale: Tensor

    @property
    def width(self) -> int:
        """(H + 1) F, the number of columns."""
        return len(self.scale)

    def multiply(self, w: Tensor) -> Tensor:
        """`[width, K]` → `[rows, K]`."""
        weights = self.scale[:, None] * w
        return multiply_hops(self.x, self.p, weights, self.hops)[self.rows] - self.mean @ w

    def multiply_transposed(self, g: Tensor) -> Tensor:
        """`[rows, K]` → `[width, K]`."""
        spread = g.new_zeros(self.x.shape[0], g.shape[1]).index_copy_(0, self.rows, g)
        terms = [spread]
        for _ in range(self.hops):
            assert self.p_t is not None
            terms.append(self.p_t @ terms[-1])
        parts = (self.x_t @ torch.cat(terms, 1)).reshape(-1, self.hops + 1, g.shape[1]).transpose(0, 1)
        return self.scale[:, None] * parts.reshape(self.width, -1) - self.mean[:, None] * g.sum(0)


def multiply_hops(x: Tensor, p: Tensor | None, w: Tensor, hops: int) -> Tensor:
    """[X, P X, …, Pᴴ X] W for W `[(H + 1) F, K]`, by Horner's rule."""
    parts = w.reshape(hops + 1, x.shape[1], -1).transpose(0, 1).reshape(x.shape[1], -1)
    terms = (x @ parts).reshape(x.shape[0], hops + 1, -1)
    total = terms[:, hops]
    for hop in reversed(range(hops)):
        assert p is not None
        total = terms[:, hop] + p @ total.contiguous()
    return total


def make_design(
    x: Any, num_sparse: int, p: Any, hops: int, rows: NDArray[np.bool_], device: torch.device, seed: int
) -> Design:
    """The centred and scaled design matrix of some nodes, in single precision.

    Args:
        x: features `[N, F]`, an array or a `csr_array`.
        num_sparse: how many columns, the first ones, are scaled alike.
        p: a `csr_array` `[N, N]`.
        hops: H.
        rows: a mask `[N]`.
        device: where it is used.
        seed: of the random vectors that measure sparse columns.
    """
    numbers = np.flatnonzero(rows)
    is_dense = not sparse.issparse(x)
    if is_dense or _is_cheaper_formed(x, p, hops, numbers):
        x, numbers = _form_rows(x, p, hops, numbers), np.arange(len(numbers))
        formed_hops, matrices = 0, (None, None)
    else:
        formed_hops, matrices = hops, (p, p.T) if hops else (None, None)
    x, x_t, p_, p_t = (None if m is None else as_tensor(m, device) for m in (x, x.T, *matrices))
    assert x is not None
    assert x_t is not None
    width = x.shape[1] * (formed_hops + 1)
    blank = torch.zeros(width, device=device), torch.ones(width, device=device)
    raw = Design(x, x_t, p_, p_t, formed_hops, torch.from_numpy(numbers).to(device), *blank)
    groups = _groups(raw.width // (hops + 1), num_sparse, hops, device)
    scale = _scale_by_columns(x, groups) if is_dense else _scale_by_probes(raw, groups, seed)
    scale = scale * (raw.width / (hops + 1)) ** -0.5
    share = torch.full((len(numbers), 1), 1 / len(numbers), device=device)
    mean = scale * raw.multiply_transposed(share)[:, 0]
    return replace(raw, mean=mean, scale=scale)


def as_tensor(matrix: Any, device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor, in CSR form where the matrix is sparse."""
    if sparse.issparse(matrix):
        return to_tensor(matrix, dtype).to(device)
    return torch.from_numpy(np.ascontiguousarray(matrix)).to(device, dtype)


def _is_cheaper_formed(x: Any, p: Any, hops: int, rows: NDArray[np.int64]) -> bool:
    """Whether Z has fewer entries on these rows than the operator touches, judged by an upper bound."""
    per_row, cost = x.nnz / max(x.shape[0], 1), 0.0
    reach = sparse.csr_array((np.ones(len(rows)), rows, np.arange(len(rows) + 1)), (len(rows), x.shape[0]))
    budget = (hops + 1) * x.nnz + (hops * p.nnz if hops else 0)
    for hop in range(hops + 1):
        if hop:
            reach = reach @ p
        cost += float(np.minimum(np.diff(reach.indptr) * per_row, x.shape[1]).sum())
        if cost > budget:
            return False
    return True


def _form_rows(x: Any, p: Any, hops: int, rows: NDArray[np.int64]) -> Any:
    """Z on these rows, as sparse as X."""
    if not sparse.issparse(x):
        blocks = [x]
        for _ in range(hops):
            blocks.append(p @ blocks[-1])
        return np.concatenate([block[rows] for block in blocks], 1)
    blocks, reach = [x[rows]], None
    for _ in range(hops):
        reach = p[rows] if reach is None else reach @ p
        blocks.append(reach @ x)
    return sparse.csr_array(sparse.hstack(blocks, format="csr"))


class _Group(NamedTuple):
    """Columns of one kind of one P^h X."""

    columns: Tensor
    is_sparse: bool


def _groups(width: int, num_sparse: int, hops: int, device: torch.device) -> list[_Group]:
    parts = [(range(num_sparse), True), (range(num_sparse, width), False)]
    return [
        _Group(torch.tensor(part, device=device) + hop * width, is_sparse)
        for hop in range(hops + 1)
        for part, is_sparse in parts
        if len(part)
    ]


def _scale_by_columns(z: Tensor, groups: Sequence[_Group]) -> Tensor:
    """Dense columns to a variance of 1, sparse ones on average; a constant column to 0."""
    variance, size = z.double().var(0, correction=0), z.double().square().mean(0)
    variance = torch.where(variance > ROUNDING * size, variance, 0.0)
    for columns, is_sparse in groups:
        if is_sparse:
            variance[columns] = variance[columns].mean()
    return torch.where(variance > 0, variance.rsqrt(), 0.0).to(z.dtype)


def _scale_by_probes(raw: Design, groups: Sequence[_Group], seed: int) -> Tensor:
    """Groups of columns to a mean variance of 1: E |(Z − mean) g|² = Σ_j Var(Z_j) for normal vectors g."""
    generator = torch.Generator().manual_seed(seed)
    scale = torch.zeros_like(raw.scale)
    for columns, _ in groups:
        g = torch.randn(len(columns), PROBES, generator=generator).to(scale.device)
        said = raw.multiply(torch.zeros(raw.width, PROBES, device=scale.device).index_copy_(0, columns, g))
        variance = float(said.var(0, correction=0).mean()) / len(columns)
        is_constant = variance <= ROUNDING * float(said.square().mean()) / len(columns)
        scale[columns] = 0.0 if is_constant else variance**-0.5
    return scale
