"""`SheafLearner`: predicts the restriction maps from the features at both ends of an edge.

    raw_{v⊴e} = ρ( A₁ x_v + A₂ x_u + A₃ e_{vu} + b ),    F_{v⊴e} = w_e · family(raw_{v⊴e})

A linear layer on the concatenation [x_v ‖ x_u] is the sum of two node projections, so it is
computed as such: nothing of size H × 2dC is ever built. Swapping v and u gives the map at the other
end. There is no b and A is random, as published (`random`), or all incidences start with one map and
their differences are learned (`constant`: A = 0, b transports by the identity), so that the first diffusion
is that of the graph. The optional symmetric edge weight
w_e = σ(a·[x_v‖x_u]) σ(a·[x_u‖x_v]) ∈ (0, 1) scales both maps of an edge.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from polynsd.errors import ShapeError, require_at_least, require_choice
from polynsd.kernels.ops import edges
from polynsd.sheaf.families import MapFamily
from polynsd.topology import Topology

LEARNERS = ("concat", "pooled")
MAP_STARTS = ("random", "constant")
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "elu": nn.functional.elu,
    "identity": lambda raw: raw,
}


class EndpointLinear(nn.Module):
    """A linear map of [x_v ‖ x_u ‖ e_vu] on every half-edge (v, u), without bias."""

    def __init__(self, in_channels: int, out_channels: int, edge_dim: int = 0) -> None:
        super().__init__()
        self.in_channels, self.edge_dim = in_channels, edge_dim
        self.linear = nn.Linear(2 * in_channels + edge_dim, out_channels, bias=False)

    def forward(self, x: Tensor, topology: Topology, edge_attr: Tensor | None = None) -> Tensor:
        """[..., N, in] → [..., H, out]."""
        own, other, edge = self.linear.weight.split(
            [self.in_channels, self.in_channels, self.edge_dim], dim=-1
        )
        raw = edges.at_rows(x @ own.mT, topology.pattern, -2)
        raw = raw + edges.at_columns(x @ other.mT, topology.pattern, -2)
        return raw if edge_attr is None else raw + edge_attr @ edge.mT

    def reset_parameters(self) -> None:
        """PyTorch's default for linear layers."""
        self.linear.reset_parameters()


class SheafLearner(nn.Module):
    """Restriction maps from node states.

    Args:
        stalk_dim: full dimension D of the stalks of the input state.
        channels: C.
        family: the family of maps to predict.
        map_dim: d ≤ D, the dimension that the maps act on (D less the fixed channels).
        kind: `concat` sees all D·C numbers of a node, `pooled` their mean over the stalk (C numbers).
        activation: ρ: `tanh`, `elu` or `identity`.
        edge_weights: whether to learn w_e.
        edge_dim: number of edge features; 0 for none.
        start: `random` maps, or one `constant` map for all incidences.
    """

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
    ) -> None:
        super().__init__()
        require_choice("learner", kind, LEARNERS)
        require_choice("map start", start, MAP_STARTS)
        require_choice("map activation", activation, ACTIVATIONS)
        require_at_least("edge_dim", edge_dim, 0)
        self.family, self.map_dim, self.kind, self.activation = family, map_dim, kind, activation
        self.edge_dim = edge_dim
        width = channels if kind == "pooled" else stalk_dim * channels
        self.maps = EndpointLinear(width, family.num_params(map_dim), edge_dim)
        self.bias = nn.Parameter(torch.empty(family.num_params(map_dim))) if start == "constant" else None
        self.weights = EndpointLinear(width, 1, edge_dim) if edge_weights else None
        self._start_constant()

    def forward(self, x: Tensor, topology: Topology, edge_attr: Tensor | None = None) -> Tensor:
        """[..., N, D, C] → maps on half-edges, in the family's shape."""
        self._check_edge_attr(edge_attr)
        x = x.mean(-2) if self.kind == "pooled" else x.flatten(-2)
        raw = self.maps(x, topology, edge_attr)
        raw = ACTIVATIONS[self.activation](raw if self.bias is None else raw + self.bias)
        maps = self.family.build(raw, self.map_dim)
        if self.weights is None:
            return maps
        score = self.weights(x, topology, edge_attr).sigmoid()
        return maps * (score * edges.swap_halves(score, topology.pattern, -2))[..., None]

    def reset_parameters(self) -> None:
        """PyTorch's default for linear layers, or A = 0 and the neutral b."""
        self.maps.reset_parameters()
        if self.weights is not None:
            self.weights.reset_parameters()
        self._start_constant()

    def _start_constant(self) -> None:
        if self.bias is not None:
            nn.init.zeros_(self.maps.linear.weight)
            with torch.no_grad():
                self.bias.copy_(self.family.neutral(self.map_dim))

    def _check_edge_attr(self, edge_attr: Tensor | None) -> None:
        num_features = 0 if edge_attr is None else edge_attr.size(-1)
        if num_features != self.edge_dim:
            raise ShapeError(
                f"this layer was built with edge_dim={self.edge_dim} but got edge_attr with "
                f"{num_features} features; set edge_dim to the number of edge features."
            )

    def extra_repr(self) -> str:
        return f"{self.family}, map_dim={self.map_dim}, kind={self.kind}"


def constant_maps(family: MapFamily, topology: Topology, like: Tensor, d: int) -> Tensor:
    """The maps of a family that learns nothing, in the dtype and on the device of `like`."""
    return family.build(like.new_empty(topology.num_half_edges, 0), d)
