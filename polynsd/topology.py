"""The half-edge structure of an undirected graph.

An undirected edge e = {v, u} is stored as two half-edges h = (v, u) and twin(h) = (u, v), sorted by
(row, col), so that the half-edges of a node are contiguous: `rowptr[v]:rowptr[v+1]`. A restriction
map F_{v⊴e} lives on h, its partner F_{u⊴e} on twin(h). In PyG's terms h carries the message u → v.

Any edge list is accepted. Self-loops are dropped (a loop contributes nothing to a coboundary),
parallel edges are merged, one-way edges get their reverse; `topology.report` says how many of each.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch._compile import _disable_dynamo

from polynsd.errors import GraphError, ShapeError, require_at_least
from polynsd.kernels.gpu.schedule import schedule
from polynsd.kernels.ops.operator import Pattern
from polynsd.memo import TensorMemo, can_read_values

if TYPE_CHECKING:
    import networkx as nx
    import scipy.sparse as sp

logger = logging.getLogger("polynsd")


@dataclass(frozen=True)
class TopologyReport:
    """What became of the edges that were given."""

    given: int  # columns of edge_index
    self_loops: int  # dropped
    duplicates: int  # repeated in the same direction, merged
    one_way: int  # edges given in one direction only, their reverse was added

    def __str__(self) -> str:
        return (
            f"{self.given} edges given: {self.self_loops} self-loops dropped, "
            f"{self.duplicates} duplicates merged, {self.one_way} one-way edges made undirected"
        )


@dataclass(frozen=True, eq=False)
class Topology:
    """CSR over half-edges: N nodes, E undirected edges, H = 2E half-edges.

    Build it with `Topology.from_edge_index` (or `from_data`, `from_scipy`, `from_networkx`, or
    `as_topology`, which takes any of these). It is immutable and holds no features.
    """

    rowptr: Tensor  # [N + 1] int64
    row: Tensor  # [H] the node that owns the half-edge
    col: Tensor  # [H] its neighbour
    twin: Tensor  # [H] the reverse half-edge
    edge: Tensor  # [H] the undirected edge, numbered by (min, max)
    half_of_input: Tensor  # [E_in] half-edge of every given column, -1 for a self-loop
    report: TopologyReport
    pattern: Pattern = field(init=False, repr=False)  # the structure as kernels see it

    def __post_init__(self) -> None:
        if self.num_half_edges >= 2**31:
            raise GraphError(f"at most 2^30 edges fit the kernels' 32-bit indices; got {self.num_edges}.")
        with torch.inference_mode(False):  # training may use it next
            rowptr, row, col, twin = (t.int() for t in (self.rowptr, self.row, self.col, self.twin))
            tasks = splits = rowptr  # where there are no values
            if not rowptr.is_meta:
                tasks, splits = schedule(self.rowptr, self.num_half_edges)
            object.__setattr__(self, "pattern", Pattern(rowptr, row, col, twin, tasks, splits))

    @classmethod
    def from_edge_index(cls, edge_index: Tensor, num_nodes: int | None = None) -> Topology:
        """From PyG's `[2, E]` (source, target), in O(E log E) without a Python loop."""
        edge_index = _check_edge_index(edge_index)
        num_nodes = _count_nodes(edge_index, num_nodes)
        source, target = edge_index.long().unbind(0)
        kept = torch.nonzero(source != target).squeeze(-1)
        low, high = torch.minimum(source, target)[kept], torch.maximum(source, target)[kept]
        # an undirected edge as one sortable number
        key, edge_of_input = torch.unique(low * num_nodes + high, return_inverse=True)
        parts = _sort_half_edges(key // max(num_nodes, 1), key % max(num_nodes, 1), num_nodes)
        # column (source, target) is the half-edge (row, col) = (target, source)
        is_backward = (target > source)[kept].long()
        half_of_input = torch.full_like(source, -1)
        half_of_input[kept] = parts.half_of_edge[is_backward, edge_of_input]
        is_given = torch.zeros(parts.row.numel(), dtype=torch.bool, device=key.device)
        is_given[half_of_input[kept]] = True
        num_distinct = int(is_given.sum())
        report = TopologyReport(
            given=source.numel(),
            self_loops=source.numel() - kept.numel(),
            duplicates=kept.numel() - num_distinct,
            one_way=is_given.numel() - num_distinct,
        )
        if report.self_loops or report.duplicates or report.one_way:
            logger.info("%s", report)
        return cls(parts.rowptr, parts.row, parts.col, parts.twin, parts.edge, half_of_input, report)

    @classmethod
    def from_data(cls, data: Any) -> Topology:
        """From a PyG `Data` object."""
        if data.edge_index is None:
            raise GraphError(
                "the data has no edge_index; for a graph without edges give an empty [2, 0] one."
            )
        return cls.from_edge_index(data.edge_index, data.num_nodes)

    @classmethod
    def from_scipy(cls, adjacency: sp.sparray | sp.spmatrix) -> Topology:
        """From the pattern of a square SciPy sparse matrix; its values are not used."""
        if adjacency.shape[0] != adjacency.shape[1]:
            raise ShapeError(f"an adjacency matrix must be square; got shape {adjacency.shape}.")
        coo = _summed(adjacency).tocoo()
        pairs = torch.stack([torch.as_tensor(coo.row).long(), torch.as_tensor(coo.col).long()])
        return cls.from_edge_index(pairs, coo.shape[0])

    @classmethod
    def from_networkx(cls, graph: nx.Graph) -> Topology:
        """From a NetworkX graph; nodes are numbered in the order of `graph.nodes`."""
        number = {node: i for i, node in enumerate(graph.nodes)}
        pairs = [(number[a], number[b]) for a, b in graph.edges()]
        edge_index = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t()
        return cls.from_edge_index(edge_index, graph.number_of_nodes())

    @property
    def num_nodes(self) -> int:
        return self.rowptr.numel() - 1

    @property
    def num_edges(self) -> int:
        """E, the number of undirected edges."""
        return self.num_half_edges // 2

    @property
    def num_half_edges(self) -> int:
        """H = 2E, two for every edge."""
        return self.row.numel()

    @property
    def degree(self) -> Tensor:
        """[N] number of neighbours."""
        return self.rowptr.diff()

    @property
    def first_half(self) -> Tensor:
        """[E] the half-edge (v, u) with v < u of every undirected edge, in the order of `edge`."""
        return torch.nonzero(self.row < self.col).squeeze(-1)

    def to(self, device: torch.device | str) -> Topology:
        """The same structure on another device."""
        moved = {
            field.name: getattr(self, field.name).to(device)
            for field in fields(self)
            if isinstance(getattr(self, field.name), Tensor)
        }
        return replace(self, **moved)

    def per_half_edge(self, values: Tensor) -> Tensor:
        """Spreads values `[E_in, ...]` of the given columns over half-edges `[H, ...]`.

        Parallel edges are averaged; a half-edge that was not given takes its twin's value.
        """
        if values.size(0) != self.half_of_input.numel():
            raise ShapeError(
                f"one value per column of edge_index was expected ({self.half_of_input.numel()}); "
                f"got {values.size(0)}."
            )
        H, tail = self.num_half_edges, values.shape[1:]
        index = self.half_of_input.where(self.half_of_input >= 0, H)  # self-loops go behind the end
        ones = values.new_ones(index.numel(), *[1] * len(tail))
        count = values.new_zeros(H + 1, *ones.shape[1:]).index_add(0, index, ones)[:H]
        total = values.new_zeros(H + 1, *tail).index_add(0, index, values)[:H]
        mean = total / count.clamp(min=1)
        return torch.where(count > 0, mean, mean[self.twin])

    def symmetric_weight(self, weight: Tensor) -> Tensor:
        """`per_half_edge` for scalar weights, which must agree in both directions."""
        weight = weight.squeeze(-1) if weight.dim() == 2 else weight
        if weight.dim() != 1:
            raise ShapeError(f"edge_weight must have one number per edge; got shape {list(weight.shape)}.")
        half = self.per_half_edge(weight)
        self.check_weight(half)
        symmetric = half / 2 + half[self.twin] / 2  # of large weights too
        if can_read_values():
            _weight_checks(symmetric, lambda: None, self)
        return symmetric

    def check_weight(self, half: Tensor) -> None:
        """Raises unless weights `[..., H]` are finite, non-negative and equal on twins, up to rounding.

        Looks once at every tensor.
        """
        if can_read_values():
            _weight_checks(half, lambda: self._check_values(half.detach()), self)

    def _check_values(self, half: Tensor) -> None:
        if not bool(torch.isfinite(half).all()):
            raise GraphError("edge_weight must be finite; it holds NaN or infinity.")
        if not torch.allclose(half, half.index_select(-1, self.twin), rtol=1e-5, atol=0.0):
            raise GraphError(
                "edge_weight must be equal in both directions of an edge, because a sheaf Laplacian "
                "is symmetric; average the two directions first (torch_geometric.utils.to_undirected "
                "with reduce='mean')."
            )
        if bool((half < 0).any()):
            raise GraphError("edge_weight must not be negative: L would not be positive semidefinite.")

    def __repr__(self) -> str:
        return f"Topology(num_nodes={self.num_nodes}, num_edges={self.num_edges})"


_topologies = TensorMemo[Topology]()  # of edge_index tensors
_weight_checks = TensorMemo[None]()


def as_topology(graph: Any, num_nodes: int | None = None) -> Topology:
    """A `Topology` from anything that describes a graph.

    Takes a Topology, an `edge_index` tensor (PyG's `EdgeIndex` included), a sparse tensor, PyG
    `Data`, a SciPy sparse matrix or a NetworkX graph. The structure of an `edge_index` tensor is
    remembered as long as the tensor lives and is not written to, so calling a layer every epoch
    sorts only once. Only a Topology can be part of a graph that `torch.compile` makes; everything
    else breaks it.
    """
    if isinstance(graph, Topology):
        return _check_size(graph, num_nodes)
    if isinstance(graph, Tensor):
        find = _find_topology_eagerly if torch.compiler.is_compiling() else _find_topology
        return find(graph, num_nodes)
    if hasattr(graph, "edge_index"):
        return _check_size(Topology.from_data(graph), num_nodes)
    if hasattr(graph, "tocoo"):
        return _check_size(Topology.from_scipy(graph), num_nodes)
    if hasattr(graph, "edges") and hasattr(graph, "nodes"):
        return _check_size(Topology.from_networkx(graph), num_nodes)
    raise GraphError(
        "a graph must be an edge_index tensor [2, E], a sparse matrix, PyG Data, a NetworkX graph or "
        f"a Topology; got {type(graph).__name__}."
    )


def carried_weight(graph: Any) -> Tensor | None:
    """The weights that a graph carries itself, in the order of its edges; None where it has none."""
    if isinstance(graph, Topology):
        return None
    if isinstance(graph, Tensor):
        return None if graph.layout == torch.strided else graph.to_sparse_coo().coalesce().values()
    if hasattr(graph, "edge_index"):
        return getattr(graph, "edge_weight", None)
    if hasattr(graph, "tocoo"):
        return torch.as_tensor(_summed(graph).data).double()
    weights = [weight for *_, weight in graph.edges(data="weight", default=1.0)]
    return torch.tensor(weights, dtype=torch.double)


def _summed(matrix: sp.sparray | sp.spmatrix) -> sp.csr_array:
    """The matrix in CSR form; what is given several times is one entry, the sum, as everywhere in SciPy."""
    rows = matrix.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _find_topology(edge_index: Tensor, num_nodes: int | None) -> Topology:
    return _topologies(edge_index, lambda: _from_tensor(edge_index, num_nodes), num_nodes)


_find_topology_eagerly = _disable_dynamo(
    _find_topology
)  # not torch.compiler.disable, which is slow to import


def _from_tensor(edge_index: Tensor, num_nodes: int | None) -> Topology:
    if edge_index.layout == torch.strided:
        size = _declared_size(edge_index) if num_nodes is None else num_nodes
        return Topology.from_edge_index(edge_index, size)
    if edge_index.size(0) != edge_index.size(1):  # a sparse adjacency matrix
        raise ShapeError(f"an adjacency matrix must be square; got shape {list(edge_index.shape)}.")
    pairs = edge_index.to_sparse_coo().coalesce().indices()
    return _check_size(Topology.from_edge_index(pairs, edge_index.size(0)), num_nodes)


def _declared_size(edge_index: Tensor) -> int | None:
    """The number of nodes that PyG's EdgeIndex may carry."""
    sizes = edge_index.sparse_size() if hasattr(edge_index, "sparse_size") else ()
    return max((size for size in sizes if size is not None), default=None)


def _check_size(topology: Topology, num_nodes: int | None) -> Topology:
    if num_nodes is not None and num_nodes != topology.num_nodes:
        raise ShapeError(f"the graph has {topology.num_nodes} nodes but the features have {num_nodes} rows.")
    return topology


def _check_edge_index(edge_index: Tensor) -> Tensor:
    if hasattr(edge_index, "as_tensor"):  # PyG's EdgeIndex
        edge_index = edge_index.as_tensor()
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ShapeError(f"edge_index must have shape [2, E]; got {list(edge_index.shape)}.")
    if edge_index.is_floating_point() or edge_index.dtype == torch.bool:
        raise ShapeError(f"edge_index must hold integers; got {edge_index.dtype}.")
    return edge_index


def _count_nodes(edge_index: Tensor, num_nodes: int | None) -> int:
    low, high = (int(b) for b in edge_index.aminmax()) if edge_index.numel() else (0, -1)
    if low < 0:
        raise GraphError(f"node ids must not be negative; edge_index holds {low}.")
    if num_nodes is None:
        return high + 1
    require_at_least("num_nodes", num_nodes, 0)
    if high >= num_nodes:
        raise GraphError(
            f"edge_index names node {high}, but there are only {num_nodes} nodes (0 to "
            f"{num_nodes - 1}); check the ids, and that every node has a row of features."
        )
    return num_nodes


class _HalfEdges(NamedTuple):
    rowptr: Tensor
    row: Tensor
    col: Tensor
    twin: Tensor
    edge: Tensor
    half_of_edge: Tensor  # [2, E] the half-edges (low, high) and (high, low) of every edge


def _sort_half_edges(low: Tensor, high: Tensor, num_nodes: int) -> _HalfEdges:
    """Both half-edges of the edges (low, high), given in order, sorted by (row, col) without a sort by pairs.

    The neighbours of v below v come first, from edges (·, v), then those above, from edges (v, ·).
    """
    E = low.numel()
    number = torch.arange(E, device=low.device)
    above, below = (torch.bincount(ends, minlength=num_nodes) for ends in (low, high))
    rowptr = torch.cat([above.new_zeros(1), (above + below).cumsum(0)])
    forward = rowptr[low] + below[low] + number - (above.cumsum(0) - above)[low]
    by_high = torch.sort(high, stable=True).indices  # low ascends within equal high already
    backward = torch.empty_like(number)
    backward[by_high] = rowptr[high[by_high]] + number - (below.cumsum(0) - below)[high[by_high]]
    row, col, twin, edge = (torch.empty(2 * E, dtype=torch.long, device=low.device) for _ in range(4))
    for here, there, v, u in ((forward, backward, low, high), (backward, forward, high, low)):
        row[here], col[here], twin[here], edge[here] = v, u, there, number
    return _HalfEdges(rowptr, row, col, twin, edge, torch.stack([forward, backward]))
