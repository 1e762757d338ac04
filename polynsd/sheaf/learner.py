"""`SheafLearner`: predicts the restriction maps from what nodes know.

A trunk turns the state of every node into t_v, a head turns t into the raw numbers of the maps:

    on edges    raw_{v⊴e} = ρ( A₁ t_v + A₂ t_u + A₃ e_{vu} + b ),    F_{v⊴e} = w_e · family(raw_{v⊴e})
    on nodes    raw_v     = ρ( A t_v + b ),                          F_{v⊴e} = w_e · family(raw_v)

| trunk    | t_v                                                                                    |
|----------|----------------------------------------------------------------------------------------|
| `concat` | the state x_v itself, as published                                                     |
| `pooled` | its mean over the stalk                                                                |
| `mlp`    | a perceptron of x_v: t ← GELU(W t + c), once per hop                                   |
| `gnn`    | GraphSAGE with a root term: t_v ← GELU(W t_v + c + W' mean_u t_u), once per hop        |

A linear layer on the concatenation [t_v ‖ t_u] is the sum of two node projections, so it is computed as such:
nothing of size H × 2dC is ever built. Swapping v and u gives the map at the other end.

Maps start `random` (no b, A random, as published), `constant` (A = 0 and b such that all maps are one, which
transports by the identity up to a scale) or as the `identity`: raw = neutral + ρ(A t + b) with A = 0, b = 0.
Then the model is the one with identity maps until it learns otherwise, and weight decay draws it back there.
The optional symmetric edge weight w_e = σ(a·[t_v‖t_u]) σ(a·[t_u‖t_v]) ∈ (0, 1) scales both maps of an edge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import skip_init

from polynsd import kernels
from polynsd.errors import ShapeError, require_at_least, require_choice
from polynsd.kernels import BlockOperator
from polynsd.kernels.ops import edges
from polynsd.memo import TensorMemo
from polynsd.sheaf.families import MapFamily
from polynsd.topology import Topology

LEARNERS = ("concat", "pooled", "mlp", "gnn")
TRUNKS = ("mlp", "gnn")  # learners with parameters between the state and the head
MAP_STARTS = ("random", "constant", "identity")
PLACES = ("edges", "nodes")
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "elu": nn.functional.elu,
    "identity": lambda raw: raw,
}


class EndpointLinear(nn.Module):
    """A linear map of [x_v ‖ x_u ‖ e_vu] on every half-edge (v, u), without bias."""

    def __init__(
        self, in_channels: int, out_channels: int, edge_dim: int = 0, is_random: bool = True
    ) -> None:
        super().__init__()
        self.in_channels, self.edge_dim = in_channels, edge_dim
        self.linear = _linear(2 * in_channels + edge_dim, out_channels, is_random)

    def forward(self, x: Tensor, topology: Topology, edge_attr: Tensor | None = None) -> Tensor:
        """[..., N, in] → [..., H, out]."""
        own, other, edge = self.linear.weight.split(
            [self.in_channels, self.in_channels, self.edge_dim], dim=-1
        )
        raw = edges.at_rows(functional.linear(x, own), topology.pattern, -2)
        raw = raw + edges.at_columns(functional.linear(x, other), topology.pattern, -2)
        return raw if edge_attr is None else raw + edge_attr @ edge.mT

    def reset_parameters(self) -> None:
        """PyTorch's default for linear layers."""
        self.linear.reset_parameters()


class NodeLinear(nn.Module):
    """A linear map of x_v at every node, without bias."""

    def __init__(self, in_channels: int, out_channels: int, is_random: bool = True) -> None:
        super().__init__()
        self.linear = _linear(in_channels, out_channels, is_random)

    def forward(self, x: Tensor, topology: Topology, edge_attr: Tensor | None = None) -> Tensor:
        """[..., N, in] → [..., N, out]."""
        return self.linear(x)

    def reset_parameters(self) -> None:
        """PyTorch's default for linear layers."""
        self.linear.reset_parameters()


def _linear(in_channels: int, out_channels: int, is_random: bool) -> nn.Linear:
    """Without bias; zeros draw no random numbers, so that all other weights are those of the control."""
    if is_random:
        return nn.Linear(in_channels, out_channels, bias=False)
    layer = skip_init(nn.Linear, in_channels, out_channels, bias=False)
    nn.init.zeros_(layer.weight)
    return layer


class Trunk(nn.Module):
    """t ← GELU(W t + c + W' mean_u t_u) as many times as there are hops; W' in a `gnn` only.

    Args:
        in_channels: numbers per node that it sees.
        width: numbers per node of t.
        hops: how often; a `gnn` reads so many hops of the graph.
        sees_neighbours: whether there is a W'.
        dropout: of t between two hops.
    """

    def __init__(
        self, in_channels: int, width: int, hops: int, sees_neighbours: bool, dropout: float
    ) -> None:
        super().__init__()
        sizes = [in_channels] + [width] * (hops - 1)
        self.dropout = dropout
        self.own = nn.ModuleList(nn.Linear(size, width) for size in sizes)
        self.others = nn.ModuleList(
            nn.Linear(size, width, bias=False) for size in (sizes if sees_neighbours else [])
        )

    def forward(self, t: Tensor, topology: Topology, edge_weight: Tensor | None = None) -> Tensor:
        """[..., N, in_channels] → [..., N, width]."""
        for hop, own in enumerate(self.own):
            t = functional.dropout(t, self.dropout, self.training) if hop else t
            update = own(t)
            if self.others:
                # W' mean_u t_u = mean_u W' t_u, and t is rarely narrower
                update = update + neighbour_mean(self.others[hop](t), topology, edge_weight)
            t = functional.gelu(update)
        return t

    def reset_parameters(self) -> None:
        """PyTorch's default for linear layers."""
        for layer in (*self.own, *self.others):
            layer.reset_parameters()


class SheafLearner(nn.Module):
    """Restriction maps from node states.

    Args:
        stalk_dim: full dimension D of the stalks of the input state.
        channels: C.
        family: the family of maps to predict.
        map_dim: d ≤ D, the dimension that the maps act on (D less the fixed channels).
        kind: the trunk, see the table above.
        activation: ρ: `tanh`, `elu` or `identity`.
        edge_weights: whether to learn w_e.
        edge_dim: number of edge features; 0 for none.
        start: `random`, `constant` or `identity`.
        place: maps on `edges` or on `nodes`.
        extra: numbers per node that the trunk sees beside the state.
        width: numbers per node of t (`mlp`, `gnn`).
        hops: of the trunk (`mlp`, `gnn`).
        dropout: inside the trunk (`mlp`, `gnn`).
    """

    neutral: Tensor

    def __init__(
        self,
        stalk_dim: int,
        channels: int,
        family: MapFamily,
        map_dim: int,
        *,
        kind: str = "concat",
        activation: str = "tanh",
        edge_weights: bool = False,
        edge_dim: int = 0,
        start: str = "random",
        place: str = "edges",
        extra: int = 0,
        width: int = 64,
        hops: int = 3,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        require_choice("learner", kind, LEARNERS)
        require_choice("map start", start, MAP_STARTS)
        require_choice("map activation", activation, ACTIVATIONS)
        require_choice("place of the maps", place, PLACES)
        require_at_least("edge_dim", edge_dim, 0)
        self.family, self.map_dim, self.kind, self.activation = family, map_dim, kind, activation
        self.edge_dim, self.start, self.place = edge_dim, start, place
        seen = (channels if kind == "pooled" else stalk_dim * channels) + extra
        self.trunk = Trunk(seen, width, hops, kind == "gnn", dropout) if kind in TRUNKS else None
        self.width = seen if self.trunk is None else width
        numbers, is_random = family.num_params(map_dim), start == "random"
        self.maps: EndpointLinear | NodeLinear | None = None
        if family.is_learned and place == "edges":
            self.maps = EndpointLinear(self.width, numbers, edge_dim, is_random)
        elif family.is_learned:
            self.maps = NodeLinear(self.width, numbers, is_random)
        self.bias = nn.Parameter(torch.empty(numbers)) if numbers and not is_random else None
        self.register_buffer("neutral", family.neutral(map_dim), persistent=False)
        self.weights = EndpointLinear(self.width, 1, edge_dim) if edge_weights else None
        self._start_maps()

    def read(
        self,
        x: Tensor,
        topology: Topology,
        edge_weight: Tensor | None = None,
        context: Sequence[Tensor] = (),
    ) -> Tensor:
        """`[..., N, width]` from a state `[..., N, D, C]` and all else that the trunk sees, `[..., N, *]`."""
        seen = x.mean(-2) if self.kind == "pooled" else x.flatten(-2)
        seen = torch.cat([seen, *context], -1) if context else seen
        return seen if self.trunk is None else self.trunk(seen, topology, edge_weight)

    def raw_maps(self, t: Tensor, topology: Topology, edge_attr: Tensor | None = None) -> Tensor:
        """[..., H | N, num_params] the numbers of the maps on half-edges or nodes."""
        assert self.maps is not None
        raw, activate = self.maps(t, topology, edge_attr), ACTIVATIONS[self.activation]
        raw = activate(raw if self.bias is None else raw + self.bias)
        return raw + self.neutral if self.start == "identity" else raw

    def edge_scale(self, t: Tensor, topology: Topology, edge_attr: Tensor | None = None) -> Tensor | None:
        """w_e `[..., H, 1, 1]`, equal on both halves of an edge; None where it is not learned."""
        if self.weights is None:
            return None
        score = self.weights(t, topology, edge_attr).sigmoid()
        return (score * edges.swap_halves(score, topology.pattern, -2))[..., None]

    def forward(self, x: Tensor, topology: Topology, edge_attr: Tensor | None = None) -> Tensor:
        """[..., N, D, C] → maps on half-edges, in the family's shape."""
        return self.maps_on_edges(self.read(x, topology), topology, edge_attr)

    def maps_on_edges(self, t: Tensor, topology: Topology, edge_attr: Tensor | None = None) -> Tensor:
        """Maps on half-edges, in the family's shape, also where they belong to nodes."""
        self.check_edge_attr(edge_attr)
        maps = self.family.build(self.raw_maps(t, topology, edge_attr), self.map_dim)
        maps = edges.at_rows(maps, topology.pattern) if self.place == "nodes" else maps
        scale = self.edge_scale(t, topology, edge_attr)
        return maps if scale is None else maps * scale

    def _apply(self, fn: Any, recurse: bool = True) -> SheafLearner:
        was_meta = self.neutral.is_meta
        super()._apply(fn, recurse)
        if was_meta and not self.neutral.is_meta:  # built without memory; no state holds it
            self.neutral.copy_(self.family.neutral(self.map_dim))
        return self

    def reset_parameters(self) -> None:
        """PyTorch's default for linear layers, or A = 0 and b as the start of the maps says."""
        for part in (self.trunk, self.maps if self.bias is None else None, self.weights):
            if part is not None:
                part.reset_parameters()
        self._start_maps()

    def _start_maps(self) -> None:
        if self.bias is not None and self.maps is not None:
            nn.init.zeros_(self.maps.linear.weight)
            with torch.no_grad():
                self.bias.copy_(self.neutral if self.start == "constant" else torch.zeros_like(self.neutral))

    def check_edge_attr(self, edge_attr: Tensor | None) -> None:
        """Raises unless there are as many edge features as the learner reads."""
        num_features = 0 if edge_attr is None else edge_attr.size(-1)
        if num_features != self.edge_dim and self.place == "nodes":
            raise ShapeError(
                f"maps on nodes do not read edge features, but edge_attr has {num_features}; leave it out, "
                f"or build the layer with maps_on='edges' and edge_dim={num_features}."
            )
        if num_features != self.edge_dim:
            raise ShapeError(
                f"this layer was built with edge_dim={self.edge_dim} but got edge_attr with "
                f"{num_features} features; set edge_dim to the number of edge features."
            )

    def extra_repr(self) -> str:
        return f"{self.family} on {self.place}, map_dim={self.map_dim}, kind={self.kind}"


@cache
def _adjacencies(dtype: torch.dtype) -> TensorMemo[tuple[BlockOperator, Tensor]]:
    """By the rows of a topology, which the blocks do not hold."""
    return TensorMemo()


def neighbour_mean(x: Tensor, topology: Topology, edge_weight: Tensor | None = None) -> Tensor:
    """Σ_u w_vu x_u / Σ_u w_vu for x `[..., N, F]`; zero at a node without neighbours."""

    def find() -> tuple[BlockOperator, Tensor]:
        weight = torch.ones(topology.num_half_edges) if edge_weight is None else edge_weight
        off = weight.to(x)[..., None, None]
        total = edges.sum_at_nodes(off, topology.pattern)
        inverse = torch.where(total > 0, 1 / torch.where(total > 0, total, 1.0), 0.0)
        return BlockOperator(topology.pattern, torch.zeros_like(inverse), off), inverse.squeeze(-1)

    if edge_weight is None and not torch.compiler.is_compiling():
        adjacency, inverse = _adjacencies(x.dtype)(topology.row, find, id(topology.col))
    else:
        adjacency, inverse = find()
    return inverse * kernels.block_product(adjacency, x.unsqueeze(-2)).squeeze(-2)


@cache
def _degrees(dtype: torch.dtype) -> TensorMemo[Tensor]:
    """By the row pointers of a topology."""
    return TensorMemo()


def log_degrees(topology: Topology, like: Tensor) -> Tensor:
    """log(1 + degree) `[..., N, 1]` for a state `[..., N, D, C]`."""

    def find() -> Tensor:
        return (topology.degree.to(like.dtype) + 1).log()[:, None]

    is_compiling = torch.compiler.is_compiling()
    degrees = find() if is_compiling else _degrees(like.dtype)(topology.rowptr, find)
    return degrees.expand(*like.shape[:-2], 1)


def constant_maps(family: MapFamily, topology: Topology, like: Tensor, d: int) -> Tensor:
    """The maps of a family that learns nothing, in the dtype and on the device of `like`.

    All replicas share them: `like.new_empty` would be vmapped where `like` is.
    """
    return family.build(torch.empty(topology.num_half_edges, 0, dtype=like.dtype, device=like.device), d)
