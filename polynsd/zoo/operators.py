"""Fixed matrices of a graph that signals are multiplied with, found once per graph.

| function           | matrix                                                                        |
|--------------------|-------------------------------------------------------------------------------|
| `adjacency_matrix` | A                                                                             |
| `gcn_matrix`       | Ŝ = D̃^{−1/2} (A + I) D̃^{−1/2}, D̃ = D + I                                       |
| `symmetric_matrix` | S = D^{−1/2} A D^{−1/2}, zero rows for isolated nodes                         |
| `mean_matrix`      | D^{−1} A, zero rows for isolated nodes                                        |
| `two_hop_matrix`   | like S, of the graph that joins nodes at distance two                         |

They are functions of (edge_index, num_nodes, like) and have the dtype and device of the tensor `like`.
Graphs are undirected and simple: `polynsd.topology` drops self-loops and merges parallel edges.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from polynsd.errors import ConfigError, GraphError
from polynsd.kernels.ops.operator import Csr
from polynsd.kernels.ops.training import sparse_product
from polynsd.memo import TensorMemo
from polynsd.topology import Topology, as_topology

V = TypeVar("V")
M = TypeVar("M", bound="Multiplication")


class Multiplication(Protocol):
    """A matrix of constants; calling it multiplies."""

    @property
    def values(self) -> Tensor:
        """Its numbers: one tensor per matrix."""

    def __call__(self, z: Tensor) -> Tensor:
        """S z."""


class Propagation(NamedTuple):
    """A sparse matrix of constants; calling it multiplies."""

    matrix: Csr
    transposed: Csr  # what the gradient is multiplied with
    values: Tensor  # [nnz] row by row

    def __call__(self, z: Tensor) -> Tensor:
        """S z for a signal `[N, C]`."""
        return sparse_product(self.matrix, self.transposed, self.values, z.to(self.values.dtype))


def remembered(find: Callable[[Topology, Tensor], V]) -> Callable[[Any, int, Tensor], V]:
    """A function of (edge_index, num_nodes, like) that looks once at every graph.

    Args:
        find: gives what is wanted for a topology, with the dtype and device of a tensor like the second. It
            must not keep the topology: what is remembered lives as long as that.
    """
    memo = TensorMemo[V]()

    def function(edge_index: Any, num_nodes: int, like: Tensor) -> V:
        topology = as_topology(edge_index, num_nodes)
        return memo(topology.rowptr, lambda: find(topology, like), like.device, like.dtype)

    function.__name__, function.__doc__ = find.__name__, find.__doc__
    return function


@remembered
def adjacency_matrix(topology: Topology, like: Tensor) -> Propagation:
    """A: ones where there are edges."""
    ones = torch.ones_like(topology.row, dtype=torch.double)
    return propagation(topology.row, topology.col, ones, topology.num_nodes, like)


@remembered
def gcn_matrix(topology: Topology, like: Tensor) -> Propagation:
    """D̃^{−1/2} (A + I) D̃^{−1/2} with D̃ = D + I."""
    node = torch.arange(topology.num_nodes, device=topology.row.device)
    row, col = torch.cat([topology.row, node]), torch.cat([topology.col, node])
    return symmetric_propagation(row, col, topology.degree + 1, like)


@remembered
def symmetric_matrix(topology: Topology, like: Tensor) -> Propagation:
    """D^{−1/2} A D^{−1/2}."""
    return symmetric_propagation(topology.row, topology.col, topology.degree, like)


@remembered
def mean_matrix(topology: Topology, like: Tensor) -> Propagation:
    """D^{−1} A."""
    share = 1 / topology.degree.double()[topology.row]
    return propagation(topology.row, topology.col, share, topology.num_nodes, like)


@remembered
def two_hop_matrix(topology: Topology, like: Tensor) -> Propagation:
    """D₂^{−1/2} A₂ D₂^{−1/2}, where A₂ joins v and u if a path of two edges does, but no edge, and v ≠ u."""
    row, col = _at_distance_two(topology)
    return symmetric_propagation(row, col, torch.bincount(row, minlength=topology.num_nodes), like)


_of_matrices = TensorMemo[TensorMemo[Any]]()


def of_features(find: Callable[..., V], S: M, x: Tensor, *arguments: Any) -> V:
    """find(S, x, …), found once for features x, which are not learned.

    Args:
        find: a function whose result, which lives as long as S and x, does not hold them.
        S: a matrix.
        x: features.
        arguments: the others.
    """
    if x.requires_grad:
        return find(S, x, *arguments)
    known: TensorMemo[V] = _of_matrices(S.values, TensorMemo)
    return known(x, lambda: find(S, x, *arguments), find, *arguments)


def powers(S: Multiplication, x: Tensor, count: int) -> list[Tensor]:
    """S x, S² x, …, S^count x."""
    return list(accumulate(range(count), lambda z, _: S(z), initial=x))[1:]


def no_weights(model: str, edge_weight: Tensor | None) -> None:
    """Raises if weights are given to a model that would ignore them."""
    if edge_weight is not None:
        raise ConfigError(f"{model} has no use for edge_weight; leave it out.")


def balanced(row: Tensor, col: Tensor, degree: Tensor) -> Tensor:
    """1 / √(d_v d_u) for every pair (v, u), in float64."""
    root = degree.double().rsqrt()  # infinite for nodes that are in no pair
    return root[row] * root[col]


def propagation(row: Tensor, col: Tensor, value: Tensor, num_nodes: int, like: Tensor) -> Propagation:
    """The matrix with these entries, given in any order."""
    order = row.argsort(stable=True)
    row, col, value = (part[order].to(like.device) for part in (row, col, value))
    by_col = col.argsort(stable=True)
    matrix = _csr(row, col, torch.arange(row.numel(), device=row.device), num_nodes)
    transposed = _csr(col[by_col], row[by_col], by_col, num_nodes)
    return Propagation(matrix, transposed, value.to(like.dtype))


def symmetric_propagation(row: Tensor, col: Tensor, degree: Tensor, like: Tensor) -> Propagation:
    """1 / √(d_v d_u) at all pairs (v, u), given in any order, each with its reverse."""
    order = row.argsort(stable=True)
    row, col, degree = row[order].to(like.device), col[order].to(like.device), degree.to(like.device)
    matrix = _csr(row, col, torch.arange(row.numel(), device=row.device), degree.numel())
    return Propagation(matrix, matrix, balanced(row, col, degree).to(like.dtype))


def _csr(row: Tensor, col: Tensor, entry: Tensor, num_rows: int) -> Csr:
    rowptr = functional.pad(torch.bincount(row, minlength=num_rows).cumsum(0), (1, 0))
    return Csr(rowptr.int(), col.int(), entry.int())


def _at_distance_two(topology: Topology) -> tuple[Tensor, Tensor]:
    """All pairs of nodes with distance two, found on the host."""
    from scipy import sparse

    N, device = topology.num_nodes, topology.row.device
    ends = topology.row.cpu().numpy(), topology.col.cpu().numpy()
    ones = torch.ones(topology.num_half_edges, dtype=torch.bool).numpy()  # sums of truths do not overflow
    A = sparse.csr_array((ones, ends), shape=(N, N))
    near = A + sparse.eye_array(N, dtype=bool, format="csr")
    far = (near < A @ A).tocoo()
    if far.nnz >= 2**31:
        raise GraphError(
            f"{far.nnz} pairs of nodes are at distance two; the kernels' 32-bit indices know 2^31. Take a "
            "model without two-hop neighbours, or a part of the graph."
        )
    return torch.from_numpy(far.row).long().to(device), torch.from_numpy(far.col).long().to(device)
