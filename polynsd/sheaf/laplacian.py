"""`SheafLaplacian`: the sheaf Laplacian L = δᵀδ as a matrix-free symmetric operator.

    (δx)_e = √w_e (F_{v⊴e} x_v − F_{u⊴e} x_u),       L_vv = D_v = Σ_{e∋v} w_e F_{v⊴e}ᵀ F_{v⊴e},
                                                      L_vu = −w_e F_{v⊴e}ᵀ F_{u⊴e}.

Normalisations S L S with S block diagonal:

| name              | S_v                          | spectrum                      |
|-------------------|------------------------------|-------------------------------|
| `none`            | I                            | [0, 2 max ‖D_v‖]              |
| `sheaf`           | D_v^{−1/2}, 0 where D_v = 0  | [0, 2]                        |
| `sheaf-augmented` | (D_v + I)^{−1/2}             | [0, 2), isolated nodes at ease |
| `degree`          | (deg_v + 1)^{−1/2} I         | [0, 2 max ‖S_v D_v S_v‖]      |

The bound 2 max_v ‖(SLS)_vv‖ holds for every sheaf, because ‖a − b‖² ≤ 2‖a‖² + 2‖b‖² gives L ⪯ 2
blkdiag(D_v).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from copy import copy
from functools import cache

import torch
from torch import Tensor

from polynsd import kernels
from polynsd.devices import to_wide
from polynsd.errors import ShapeError, require_choice
from polynsd.kernels import BlockOperator
from polynsd.kernels.ops import blocks, edges
from polynsd.kernels.ops.batching import all_replicas
from polynsd.memo import TensorMemo, can_read_values
from polynsd.sheaf.checks import check_given_maps, check_invertible, check_maps, check_signal_shape
from polynsd.sheaf.inverse_sqrt import inverse_sqrt
from polynsd.spectral.bounds import lanczos_lambda_max
from polynsd.topology import Topology

NORMALIZATIONS = ("none", "sheaf", "sheaf-augmented", "degree")
BOUNDS = ("analytic", "lanczos")
SMALL = 1e-6  # maps below it, or above 1 / SMALL, are given another unit

_graph_counts = TensorMemo[int]()  # of batches


@cache
def _constant_blocks(
    name: Hashable, normalization: str, dtype: torch.dtype
) -> TensorMemo[tuple[BlockOperator, Tensor | None]]:
    """By the rows of a topology, which the blocks do not hold; a memo each, as none may forget the others."""
    return TensorMemo()


class SheafLaplacian:
    """A symmetric positive semidefinite operator on signals `[..., N, d, C]`.

    Args:
        topology: the graph.
        maps: restriction maps on half-edges: `[..., H, d, d]`, `[..., H, d, 1]` (diagonal) or
            `[..., H, 1, 1]` (scalar). Leading dimensions are replicas.
        normalization: see the table above.
        edge_weight: `[H]` or `[..., H]` non-negative, equal on twins (`Topology.symmetric_weight`).
        orthogonal_columns: promise that FᵀF is diagonal; saves the matrix square root.
        stalk_dim: d, needed only when the maps are scalar.
        batch: `[N]` sorted graph numbers of a PyG batch; λ_max is then taken graph by graph.
        constant: a name for maps that are always the same on a graph; their blocks are found once.
    """

    is_symmetric = True

    def __init__(
        self,
        topology: Topology,
        maps: Tensor,
        normalization: str = "sheaf-augmented",
        *,
        edge_weight: Tensor | None = None,
        orthogonal_columns: bool = False,
        stalk_dim: int | None = None,
        batch: Tensor | None = None,
        constant: Hashable = None,
    ) -> None:
        require_choice("normalization", normalization, NORMALIZATIONS)
        check_maps(maps, topology, stalk_dim)
        if constant is None:
            check_given_maps(maps)
        if edge_weight is not None and edge_weight.shape[-1:] != (topology.num_half_edges,):
            raise ShapeError(
                f"edge_weight must have one value per half-edge, [..., {topology.num_half_edges}]; got "
                f"{list(edge_weight.shape)}. Topology.symmetric_weight makes it so."
            )
        if edge_weight is not None:
            topology.check_weight(edge_weight)
        self.topology, self.maps, self.normalization = topology, maps, normalization
        self.edge_weight, self.batch = edge_weight, batch
        self._bound: Tensor | float | None = 2.0 if normalization.startswith("sheaf") else None
        self.stalk_dim = maps.size(-2) if stalk_dim is None else stalk_dim
        known = constant is not None and edge_weight is None and not torch.compiler.is_compiling()
        memo = _constant_blocks(constant, normalization, maps.dtype) if known else None

        def find() -> tuple[BlockOperator, Tensor | None]:
            return self._normalize(maps, orthogonal_columns)

        self.blocks, self.node_scale = find() if memo is None else memo(topology.row, find, id(topology.col))

    def _normalize(self, maps: Tensor, gram_is_diagonal: bool) -> tuple[BlockOperator, Tensor | None]:
        """−w (F_v S_v)ᵀ(F_u S_u) on half-edges with S_v D_v S_v on nodes, and S."""
        pattern, weight, dtype = self.topology.pattern, self.edge_weight, maps.dtype
        # D_v may be ill conditioned without the added identity: 2 bounds the spectrum only if S is exact
        exact = self.normalization == "sheaf" and not blocks.is_elementwise(maps) and not gram_is_diagonal
        F = to_wide(maps) if exact else maps
        unit = self._unit_of_maps(F, gram_is_diagonal) if self.normalization == "sheaf" else None
        if unit is not None:
            F = blocks.multiply(F, edges.at_rows(unit, pattern))
        gram = blocks.gram(F, gram_is_diagonal)
        degree = edges.sum_at_nodes(gram if weight is None else weight[..., None, None] * gram, pattern)
        S = self._node_scale(degree)
        if S is not None:
            F = blocks.multiply(F, edges.at_rows(S, pattern))
            degree = blocks.multiply(blocks.multiply(S, degree), S)
        coupling = blocks.transport(F, edges.swap_halves(F, pattern))
        off = -(coupling if weight is None else weight[..., None, None] * coupling)
        operator = BlockOperator(pattern, degree.to(dtype), off.to(dtype))
        S = S if S is None or unit is None else blocks.multiply(S, unit)
        return operator, None if S is None else S.to(dtype)

    def _unit_of_maps(self, maps: Tensor, gram_is_diagonal: bool) -> Tensor:
        """Multiples c_v of the identity, or diagonal: F_v c_v has the same F_v S_v, and a D_v about 1.

        The gradient of D_v^{−1/2} has D_v^{−3/2} in it, which overflows long before F_v does. c_v = 1 where
        maps have an ordinary size; they keep their bits.
        """
        size = maps.detach().abs()
        if not blocks.is_elementwise(maps):
            size = size.amax(-2).unsqueeze(-1) if gram_is_diagonal else size.amax((-2, -1), keepdim=True)
        if self.edge_weight is not None:
            size = self.edge_weight.detach().sqrt()[..., None, None] * size
        size = edges.sum_at_nodes(size, self.topology.pattern)
        is_ordinary = (size > SMALL) & (size < 1 / SMALL) | (size == 0)
        tiny = torch.finfo(size.dtype).tiny
        return torch.where(is_ordinary, 1.0, 1 / size.clamp(tiny, 1 / tiny))

    def _node_scale(self, degree: Tensor) -> Tensor | None:
        if self.normalization == "none":
            return None
        if self.normalization == "degree":
            weight = self.edge_weight
            ones = degree.new_ones(self.topology.num_half_edges) if weight is None else weight
            return (edges.sum_at_nodes(ones[..., None, None], self.topology.pattern) + 1).rsqrt()
        if self.normalization == "sheaf-augmented":
            augmented = degree + blocks.identity_like(degree)
            return augmented.rsqrt() if blocks.is_elementwise(degree) else inverse_sqrt(augmented)
        return _pseudo_inverse_sqrt(degree)

    @property
    def diagonal_blocks(self) -> Tensor:
        """[..., N, d, d] the blocks (SLS)_vv."""
        return blocks.to_dense(self.blocks.diag, self.stalk_dim)

    @property
    def dtype(self) -> torch.dtype:
        return self.maps.dtype

    @property
    def device(self) -> torch.device:
        return self.maps.device

    @property
    def shape(self) -> tuple[int, int]:
        """(N d, N d)."""
        size = self.topology.num_nodes * self.stalk_dim
        return size, size

    def __matmul__(self, x: Tensor) -> Tensor:
        return kernels.block_product(self.blocks, self.check_signal(x))

    def apply(self, function: Callable[[SheafLaplacian, Tensor], Tensor], x: Tensor) -> Tensor:
        """The function on the operator and a signal of its shape."""
        return function(self, self.check_signal(x))

    def detach(self) -> SheafLaplacian:
        """The same operator, whose maps have no gradient."""
        return self.convert(Tensor.detach)

    def convert(self, function: Callable[[Tensor], Tensor]) -> SheafLaplacian:
        """The same operator with the function of every tensor that follows from the maps in its place."""
        other = copy(self)
        other.maps = function(self.maps)
        other.blocks = self.blocks._replace(diag=function(self.blocks.diag), off=function(self.blocks.off))
        other.node_scale = None if self.node_scale is None else function(self.node_scale)
        other._bound = function(self._bound) if isinstance(self._bound, Tensor) else self._bound
        return other

    def coboundary(self, x: Tensor) -> Tensor:
        """δS x `[..., E, d, C]`: the weighted disagreement over every edge, seen from its lower node."""
        difference, weight = self._disagreement(x)
        return difference if weight is None else weight.sqrt() * difference

    def energy(self, x: Tensor) -> Tensor:
        """⟨x, L x⟩ = ‖δS x‖² ≥ 0, summed over nodes, stalks and channels: `[...]`."""
        difference, weight = self._disagreement(x)
        squares = difference.square() if weight is None else weight * difference.square()
        return squares.sum((-3, -2, -1))

    def _disagreement(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """(F_v S_v x_v − F_u S_u x_u, w_e) on the edges."""
        x = self.check_signal(x)
        x = x if self.node_scale is None else blocks.apply(self.node_scale, x)
        h = self.topology.first_half
        ends = []
        for half in (h, self.topology.twin[h]):
            F = self.maps.index_select(-3, half)
            ends.append(blocks.apply(F, x.index_select(-3, self.topology.row[half])))
        weight = self.edge_weight
        return ends[0] - ends[1], None if weight is None else weight.index_select(-1, h)[..., None, None]

    def lambda_max(self, method: str = "analytic") -> Tensor | float:
        """An upper bound of the spectrum, without gradient.

        `analytic` is certified: 2 under the sheaf normalisations, else 2 max ‖(SLS)_vv‖ of the
        current maps. `lanczos` is tighter: an inflated estimate, never above the analytic bound. A
        tensor result broadcasts against signals; it is per graph where a batch was given.
        """
        require_choice("lambda_max method", method, BOUNDS)
        analytic = self._bound = self._analytic_bound() if self._bound is None else self._bound
        if method == "analytic":
            return analytic
        probe = self.blocks.diag.new_zeros(*self._lead, self.topology.num_nodes, self.stalk_dim, 1)
        estimate = lanczos_lambda_max(self.__matmul__, probe, self.batch, self._num_graphs)
        return torch.minimum(self._at_nodes(estimate), torch.as_tensor(analytic).to(estimate))

    def _analytic_bound(self) -> Tensor:
        norms = 2 * blocks.spectral_norm(self.blocks.diag.detach())  # [..., N]
        batch = torch.zeros_like(self.topology.degree) if self.batch is None else self.batch
        largest = norms.new_zeros(*norms.shape[:-1], self._num_graphs)
        index = batch.expand_as(norms)
        return self._at_nodes(largest.scatter_reduce(-1, index, norms, "amax"))

    @property
    def _lead(self) -> torch.Size:
        return torch.broadcast_shapes(self.blocks.diag.shape[:-3], self.blocks.off.shape[:-3])

    @property
    def _num_graphs(self) -> int:
        batch = self.batch
        if batch is None or not batch.numel():
            return 1
        return _graph_counts(batch, lambda: int(batch[-1]) + 1)

    def _at_nodes(self, per_graph: Tensor) -> Tensor:
        """[..., B] → [..., N, 1, 1], or [..., 1, 1, 1] for a single graph."""
        if self.batch is not None:
            per_graph = per_graph.index_select(-1, self.batch)
        return per_graph[..., None, None]

    def to_dense(self) -> Tensor:
        """[..., N d, N d], for small graphs and tests."""
        N, d = self.topology.num_nodes, self.stalk_dim
        diag = self.diagonal_blocks
        dense = diag.new_zeros(*self._lead, N, N, d, d)
        nodes = torch.arange(N, device=self.device)
        dense[..., nodes, nodes, :, :] = diag
        dense[..., self.topology.row, self.topology.col, :, :] = blocks.to_dense(self.blocks.off, d)
        return dense.transpose(-3, -2).reshape(*self._lead, N * d, N * d)

    def to_sparse(self) -> Tensor:
        """A coalesced sparse COO tensor `[N d, N d]`: what published code multiplies with."""
        if self._lead:
            raise ShapeError("to_sparse() needs a single operator; index the maps of one replica first.")
        N, d = self.topology.num_nodes, self.stalk_dim
        nodes = torch.arange(N, device=self.device)
        row, col = torch.cat([nodes, self.topology.row]), torch.cat([nodes, self.topology.col])
        values = torch.cat([self.diagonal_blocks, blocks.to_dense(self.blocks.off, d)])
        inner = torch.arange(d, device=self.device)
        rows = (row[:, None, None] * d + inner[:, None]).expand_as(values)
        cols = (col[:, None, None] * d + inner).expand_as(values)
        index = torch.stack([rows.reshape(-1), cols.reshape(-1)])
        return torch.sparse_coo_tensor(
            index, values.reshape(-1), self.shape, check_invariants=True
        ).coalesce()

    def check_signal(self, x: Tensor) -> Tensor:
        """The signal itself; raises unless it is `[..., N, d, C]`."""
        return check_signal_shape(x, self.topology.num_nodes, self.stalk_dim)

    def __repr__(self) -> str:
        return (
            f"SheafLaplacian({self.topology!r}, stalk_dim={self.stalk_dim}, "
            f"normalization={self.normalization})"
        )


def _pseudo_inverse_sqrt(degree: Tensor) -> Tensor:
    """D_v^{−1/2}, and 0 where D_v = 0, as on isolated nodes."""
    if blocks.is_elementwise(degree):
        positive = degree > 0
        return torch.where(positive, torch.where(positive, degree, 1.0).rsqrt(), 0.0)
    isolated = (degree == 0).all(-1, keepdim=True).all(-2, keepdim=True)
    regular = torch.where(isolated, blocks.identity_like(degree), degree)
    visible = all_replicas(regular.detach()) if can_read_values() else None
    if visible is not None:
        check_invertible(visible)
    return torch.where(isolated, 0.0, inverse_sqrt(regular))
