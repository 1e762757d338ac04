"""Constant matrices of a graph, found once, and products with them.

| function           | matrix                                                                        |
|--------------------|-------------------------------------------------------------------------------|
| `adjacency_matrix` | A                                                                             |
| `gcn_matrix`       | Ŝ = D̃^{−1/2} (A + I) D̃^{−1/2}, D̃ = D + I                                       |
| `symmetric_matrix` | S = D^{−1/2} A D^{−1/2}, zero rows for isolated nodes                         |
| `mean_matrix`      | D^{−1} A, zero rows for isolated nodes                                        |
| `two_hop_matrix`   | like S, of the graph that joins nodes at distance two                         |

All are functions of (edge_index, x): a graph in any form that `polynsd.topology` knows, and node features,
which give the number of nodes, the dtype and the device. Ŝ and S also take edge weights.

    S = gcn_matrix(edge_index, x)
    S(x @ W)                                     # [N, C], differentiable, also under torch.vmap

Graphs are undirected and simple: `polynsd.topology` drops self-loops and merges parallel edges. A product
adds in a fixed order, forward and backward, so the same input gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from polynsd.errors import ConfigError, GraphError
from polynsd.kernels.ops.edges import sum_at_nodes
from polynsd.kernels.ops.operator import Csr
from polynsd.kernels.ops.training import sparse_product
from polynsd.memo import TensorMemo
from polynsd.nn.inputs import half_edge_weights
from polynsd.sparse import require_dense
from polynsd.topology import Topology, as_topology

V = TypeVar("V")


class SparseMatrix(NamedTuple):
    """A sparse matrix of constants; calling it multiplies."""

    rows: Csr
    columns: Csr  # of the transposed matrix, which gradients are multiplied with
    values: Tensor  # [nnz] row by row
    diagonal: Tensor | None = None  # [N] that is added to these entries

    def __call__(self, z: Tensor) -> Tensor:
        """S z for a signal z `[N, C]`."""
        product = sparse_product(self.rows, self.columns, self.values, z.to(self.values.dtype))
        if self.diagonal is None:
            return product
        return torch.addcmul(product, self.diagonal[:, None], z.to(self.diagonal.dtype))


def once_per_graph(find: Callable[[Topology, Tensor], V]) -> Callable[[Any, Tensor], V]:
    """Decorator: from find(topology, x) to a function of (edge_index, x) that remembers its result.

    Args:
        find: computes the result for a topology, with the dtype and device of x. The result lives as long as
            the topology and must not hold it.
    """
    memo = TensorMemo[V]()

    @wraps(find)
    def function(edge_index: Any, x: Tensor) -> V:
        topology = as_topology(edge_index, x.size(0))
        return memo(topology.rowptr, lambda: find(topology, x), x.device, x.dtype)

    return function


@once_per_graph
def adjacency_matrix(topology: Topology, x: Tensor) -> SparseMatrix:
    """A: ones where there are edges."""
    return _from_entries(topology, torch.ones_like(topology.row, dtype=torch.double), x)


@once_per_graph
def mean_matrix(topology: Topology, x: Tensor) -> SparseMatrix:
    """D^{−1} A: the mean over neighbours."""
    return _from_entries(topology, 1 / topology.degree.double()[topology.row], x)


def gcn_matrix(edge_index: Any, x: Tensor, edge_weight: Tensor | None = None) -> SparseMatrix:
    """D̃^{−1/2} (A + I) D̃^{−1/2} with D̃ = D + I; A holds the weights, if there are any."""
    if edge_weight is None:
        return _unweighted_gcn(edge_index, x)
    return _from_edge_weights(edge_index, x, edge_weight, loop=1.0)


def symmetric_matrix(edge_index: Any, x: Tensor, edge_weight: Tensor | None = None) -> SparseMatrix:
    """D^{−1/2} A D^{−1/2}; A holds the weights, if there are any."""
    if edge_weight is None:
        return _unweighted_symmetric(edge_index, x)
    return _from_edge_weights(edge_index, x, edge_weight, loop=0.0)


@once_per_graph
def two_hop_matrix(topology: Topology, x: Tensor) -> SparseMatrix:
    """D₂^{−1/2} A₂ D₂^{−1/2}, where A₂ joins v and u if a path of two edges does, but no edge, and v ≠ u."""
    row, col = _pairs_at_distance_two(topology)
    return _from_degrees(row, col, torch.bincount(row, minlength=topology.num_nodes), x)


def symmetric_weights(row: Tensor, col: Tensor, degree: Tensor) -> Tensor:
    """1 / √(d_v d_u) for every pair (v, u), in float64."""
    root = degree.double().rsqrt()  # infinite for nodes that are in no pair
    return root[row] * root[col]


def powers(S: SparseMatrix, x: Tensor, count: int) -> list[Tensor]:
    """S x, S² x, …, S^count x."""
    return list(accumulate(range(count), lambda z, _: S(z), initial=x))[1:]


_per_matrix = TensorMemo[TensorMemo[Any]]()


def once_per_features(find: Callable[..., V], S: SparseMatrix, x: Tensor, *arguments: Any) -> V:
    """find(S, x, *arguments), remembered for as long as S and x live, unless x is learned.

    Args:
        find: a function whose result does not hold S or x.
        S: a matrix of the graph.
        x: features.
        arguments: the other arguments of `find`.
    """
    require_dense(x)
    if x.requires_grad:
        return find(S, x, *arguments)
    memo: TensorMemo[V] = _per_matrix(S.values, TensorMemo)
    return memo(x, lambda: find(S, x, *arguments), find, *arguments)


def refuse_weights(model: str, edge_weight: Tensor | None) -> None:
    """Raises if weights are given to a model that would ignore them."""
    if edge_weight is not None:
        raise ConfigError(f"{model} has no use for edge_weight; leave it out.")


# matrices of weighted graphs

_half_edge_structure = TensorMemo[tuple[Csr, Csr]]()
_weighted_matrices = TensorMemo[SparseMatrix]()


def weighted_matrix(topology: Topology, weight: Tensor, loop: float) -> SparseMatrix:
    """D̃^{−1/2} (A + loop·I) D̃^{−1/2} with weights `[H]` of half-edges in A; a row of zeros stays one."""
    degree = loop + sum_at_nodes(weight, topology.pattern, -1)
    scale = torch.where(degree > 0, degree.rsqrt(), 0.0)
    values = scale[topology.row] * weight * scale[topology.col]

    def structure() -> tuple[Csr, Csr]:
        pattern = topology.pattern
        entry = torch.arange(topology.num_half_edges, dtype=torch.int32, device=pattern.col.device)
        return Csr(pattern.rowptr, pattern.col, entry), Csr(pattern.rowptr, pattern.col, pattern.twin)

    return SparseMatrix(*_half_edge_structure(topology.rowptr, structure), values, loop * scale**2)


def constant_weights(topology: Topology, edge_weight: Tensor, x: Tensor) -> Tensor:
    """`[H]` the weights of an edge list on half-edges, checked; raises if they are learned."""
    if edge_weight.requires_grad:
        raise ConfigError("edge_weight is a constant here and would get no gradient; detach() it.")
    return half_edge_weights(edge_weight, topology, x)


def _from_edge_weights(edge_index: Any, x: Tensor, edge_weight: Tensor, loop: float) -> SparseMatrix:
    topology = as_topology(edge_index, x.size(0))
    weight = constant_weights(topology, edge_weight, x)
    return _weighted_matrices(weight, lambda: weighted_matrix(topology, weight, loop), topology, loop)


# matrices of unweighted graphs


@once_per_graph
def _unweighted_gcn(topology: Topology, x: Tensor) -> SparseMatrix:
    node = torch.arange(topology.num_nodes, device=topology.row.device)
    row, col = torch.cat([topology.row, node]), torch.cat([topology.col, node])
    return _from_degrees(row, col, topology.degree + 1, x)


@once_per_graph
def _unweighted_symmetric(topology: Topology, x: Tensor) -> SparseMatrix:
    return _from_degrees(topology.row, topology.col, topology.degree, x)


def _from_entries(topology: Topology, value: Tensor, x: Tensor) -> SparseMatrix:
    """The matrix with one entry `[H]` per half-edge."""
    row, col, value = (part.to(x.device) for part in (topology.row, topology.col, value))
    structure = Csr.with_transpose(row, col, (topology.num_nodes, topology.num_nodes))
    return SparseMatrix(*structure, value.to(x.dtype))


def _from_degrees(row: Tensor, col: Tensor, degree: Tensor, x: Tensor) -> SparseMatrix:
    """1 / √(d_v d_u) at all pairs (v, u), given in any order, each with its reverse."""
    order = row.argsort(stable=True)
    row, col, degree = row[order].to(x.device), col[order].to(x.device), degree.to(x.device)
    rows = Csr.from_sorted(row, col, degree.numel())
    return SparseMatrix(rows, rows, symmetric_weights(row, col, degree).to(x.dtype))


def _pairs_at_distance_two(topology: Topology) -> tuple[Tensor, Tensor]:
    """All pairs of nodes with distance two, found on the host."""
    from scipy import sparse

    N, device = topology.num_nodes, topology.row.device
    ends = topology.row.cpu().numpy(), topology.col.cpu().numpy()
    ones = torch.ones(topology.num_half_edges, dtype=torch.bool).numpy()  # sums of booleans do not overflow
    A = sparse.csr_array((ones, ends), shape=(N, N))
    near = A + sparse.eye_array(N, dtype=bool, format="csr")
    far = (near < A @ A).tocoo()
    if far.nnz >= 2**31:
        raise GraphError(
            f"{far.nnz} pairs of nodes are at distance two; the kernels' 32-bit indices know 2^31. Take a "
            "model without two-hop neighbours, or a part of the graph."
        )
    return torch.from_numpy(far.row).long().to(device), torch.from_numpy(far.col).long().to(device)
