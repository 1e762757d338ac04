"""The networks that clients train: sheaf models and graph networks, with a score for every edge.

Scores s `[H]` are on half-edges (v, u), which carry messages u → v:

* sheaves: L = Σ_e s̄_e δ_eᵀδ_e with s̄ the mean of the two directions, so L stays symmetric and positive
  semidefinite; degrees are those of the weighted graph;
* gcn, gin: weights of messages; gatv2, transformer: log s is added to the attention's logits,
  softmax(e + log s) = s exp(e) / Σ s exp(e).

s ≡ 1 is the network without scores, s ≡ 0 one without edges. All have `model(x, edge_index, edge_weight)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch_geometric.nn.inits import glorot

from polynsd.federated.config import SHEAF_WIDTH, SHEAVES, FederatedConfig
from polynsd.kernels.ops.edges import at_columns, at_rows, sum_at_nodes, swap_halves
from polynsd.nn import NSD, IdentitySheaf, PolyNSD
from polynsd.nn.inputs import GraphInput
from polynsd.topology import Topology, as_topology
from polynsd.zoo.layers import GCNLayer
from polynsd.zoo.neighbours import Neighbourhood, softmax, softmax_with_self

SLOPE = 0.2  # of LeakyReLU in attention


class Output(NamedTuple):
    """What a network computes at the nodes, and a sheaf on the half-edges of its first layer."""

    logits: Tensor  # [n, classes]
    embedding: Tensor  # [n, *] what the last linear map, or the last convolution, sees
    maps: Tensor | None = None  # [H, d, d | 1]


class Backbone(nn.Module):
    """A network with scores of edges; a subclass has `run`."""

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Logits `[n, classes]`; `edge_weight` has a score per column of `edge_index`."""
        topology = as_topology(edge_index, x.size(0))
        scores = None if edge_weight is None else topology.per_half_edge(edge_weight)
        return self.run(x, topology, scores).logits

    def run(self, x: Tensor, topology: Topology, scores: Tensor | None = None) -> Output:
        """All that it computes, with scores `[H]` on half-edges."""
        raise NotImplementedError


class _Run(nn.Module):
    """Calls `run`, because `functional_call` knows `forward` only."""

    def __init__(self, model: Backbone) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Any) -> Output:
        return self.model.run(*inputs)


def run_with(model: Backbone, parameters: Mapping[str, Tensor], *inputs: Any) -> Output:
    """`model.run(*inputs)` with these parameters, by name; those that are not given are its own."""
    state = {f"model.{name}": p for name, p in parameters.items()}
    output: Output = functional_call(_Run(model), state, inputs)
    return output


class SheafBackbone(Backbone):
    """`PolyNSD.reference` or a control of it."""

    def __init__(self, model: PolyNSD) -> None:
        super().__init__()
        self.model = model

    def run(self, x: Tensor, topology: Topology, scores: Tensor | None = None) -> Output:
        graph = GraphInput(topology, _symmetric(scores, topology), None, None)
        state, maps = self._encode(x), None
        layers: list[Any] = list(self.model.layers)
        for layer in layers:
            sheaf = layer.learn(state, *graph)
            maps = sheaf.laplacian.maps if maps is None else maps
            state = layer.diffuse(state, *sheaf)
        return Output(self.model.decode(state), state.flatten(-2), maps)

    def maps(self, x: Tensor, topology: Topology) -> Tensor:
        """`[H, d, d | 1]` the restriction maps of the first layer, which do not depend on scores."""
        layer: Any = self.model.layers[0]
        maps: Tensor = layer.learner(self._encode(x), topology)
        return maps

    def _encode(self, x: Tensor) -> Tensor:
        """The initial state, by a dense product, which clients that train together can share."""
        return self.model.start(self.model.encoder(x))


def _symmetric(scores: Tensor | None, topology: Topology) -> Tensor | None:
    """(s_vu + s_uv) / 2."""
    if scores is None:
        return None
    return (scores + swap_halves(scores.unsqueeze(-1), topology.pattern, -2).squeeze(-1)) / 2


def build_sheaf(config: FederatedConfig, num_features: int, num_classes: int, model: str) -> SheafBackbone:
    """The published architecture with the sizes of a configuration."""
    cls = {"polynsd": PolyNSD, "nsd": NSD, "identity": IdentitySheaf}[model]
    maps = "identity" if model == "identity" else config.maps
    width = config.channels if config.backbone in SHEAVES else SHEAF_WIDTH
    options: dict[str, Any] = {"stalk_dim": config.stalk_dim, "maps": maps, "dropout": config.dropout}
    if model != "nsd":
        options["degree"] = config.degree
    if (model, maps) == ("polynsd", "diagonal"):
        options["mixing"] = "none"  # published are matrices that nothing uses; they would travel every round
    return SheafBackbone(cls.reference(num_features, width, config.num_layers, num_classes, **options))


class Convolutions(Backbone):
    """Layers h ← dropout(φ(layer(h))), without φ and dropout after the last one."""

    def __init__(self, layers: list[nn.Module], activate: Callable[[Tensor], Tensor], dropout: float) -> None:
        super().__init__()
        self.layers, self.activate, self.dropout = nn.ModuleList(layers), activate, dropout

    def run(self, x: Tensor, topology: Topology, scores: Tensor | None = None) -> Output:
        h = x
        for layer in self.layers[:-1]:
            h = functional.dropout(self.activate(layer(h, topology, scores)), self.dropout, self.training)
        return Output(self.layers[-1](h, topology, scores), h)


class GCN(nn.Module):
    """S h W + b,    S = D̃^{−1/2} (A_s + I) D̃^{−1/2},    D̃ = D(A_s) + I,    A_s the scores."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.layer = GCNLayer(in_channels, out_channels)

    def forward(self, h: Tensor, topology: Topology, scores: Tensor | None) -> Tensor:
        ones = torch.ones(topology.num_half_edges, dtype=h.dtype, device=h.device)
        weights = (ones if scores is None else scores).unsqueeze(-1)
        scale = (sum_at_nodes(weights, topology.pattern, -2) + 1).rsqrt()

        def multiply(z: Tensor) -> Tensor:
            z = scale * z
            return scale * (_sum_neighbours(z, topology, weights) + z)

        return self.layer(h, multiply)


class GIN(nn.Module):
    """MLP((1 + ε) h_v + Σ_u s_vu h_u)."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.epsilon = nn.Parameter(torch.zeros(()))
        self.first = nn.Linear(in_channels, hidden_channels)
        self.second = nn.Linear(hidden_channels, out_channels)

    def forward(self, h: Tensor, topology: Topology, scores: Tensor | None) -> Tensor:
        z = functional.linear(h, self.first.weight)  # linear maps and sums commute, and this is narrower
        weights = None if scores is None else scores.unsqueeze(-1)
        z = (1 + self.epsilon) * z + _sum_neighbours(z, topology, weights)
        return self.second(torch.relu(z + self.first.bias))


def _sum_neighbours(z: Tensor, topology: Topology, weights: Tensor | None) -> Tensor:
    """Σ_u s_vu z_u, weights `[H, 1]`."""
    messages = at_columns(z, topology.pattern, -2)
    return sum_at_nodes(messages if weights is None else weights * messages, topology.pattern, -2)


class GATv2(nn.Module):
    """‖_heads Σ_{u ∈ N(v) ∪ v} α_vu W h_u + b,    α = softmax_u(a · LeakyReLU(W h_u + W' h_v) + log s_vu).

    Args:
        in_channels: of h.
        out_channels: of all heads together.
        heads: number of heads.
        dropout: of α.
    """

    def __init__(self, in_channels: int, out_channels: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.there, self.here = (nn.Linear(in_channels, out_channels) for _ in range(2))
        self.attention = nn.Parameter(torch.empty(1, heads, out_channels // heads))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        for weight in (self.there.weight, self.here.weight, self.attention):
            glorot(weight)

    def forward(self, h: Tensor, topology: Topology, scores: Tensor | None) -> Tensor:
        near = Neighbourhood(topology.pattern, topology.row)
        there, here = (linear(h).unflatten(-1, (self.heads, -1)) for linear in (self.there, self.here))
        pairs = at_columns(there, near.pattern) + at_rows(here, near.pattern)
        alpha, own = softmax_with_self(self._logits(pairs), self._logits(there + here), near, scores)
        alpha, own = (functional.dropout(a, self.dropout, self.training) for a in (alpha, own))
        messages = sum_at_nodes(alpha.unsqueeze(-1) * at_columns(there, near.pattern), near.pattern)
        return (messages + own.unsqueeze(-1) * there).flatten(-2) + self.bias

    def _logits(self, z: Tensor) -> Tensor:
        return (functional.leaky_relu(z, SLOPE) * self.attention).sum(-1)


class Transformer(nn.Module):
    """W_s h_v + ‖_heads Σ_{u ∈ N(v)} α_vu V h_u,    α = softmax_u(⟨Q h_v, K h_u⟩ / √c + log s_vu).

    Args:
        in_channels: of h.
        out_channels: of all heads together.
        heads: number of heads.
        dropout: of α.
    """

    def __init__(self, in_channels: int, out_channels: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key, self.value, self.skip = (nn.Linear(in_channels, out_channels) for _ in range(4))

    def forward(self, h: Tensor, topology: Topology, scores: Tensor | None) -> Tensor:
        near = Neighbourhood(topology.pattern, topology.row)
        query, key, value = (
            linear(h).unflatten(-1, (self.heads, -1)) for linear in (self.query, self.key, self.value)
        )
        logits = (at_rows(query, near.pattern) * at_columns(key, near.pattern)).sum(-1)
        alpha = softmax(logits / math.sqrt(query.size(-1)), near, scores)
        alpha = functional.dropout(alpha, self.dropout, self.training)
        messages = sum_at_nodes(alpha.unsqueeze(-1) * at_columns(value, near.pattern), near.pattern)
        return messages.flatten(-2) + self.skip(h)


def build_backbone(config: FederatedConfig, num_features: int, num_classes: int) -> Backbone:
    """The network that a configuration names."""
    if config.backbone in SHEAVES:
        return build_sheaf(config, num_features, num_classes, config.backbone)
    width, depth = config.channels, config.num_layers
    kinds: dict[str, tuple[int, Callable[[int, int, bool], nn.Module], Callable[[Tensor], Tensor]]] = {
        "gcn": (width, lambda i, o, last: GCN(i, o), torch.relu),
        "gin": (width, lambda i, o, last: GIN(i, width, o), torch.relu),
        "gatv2": (
            8 * width,
            lambda i, o, last: GATv2(i, o, heads=1 if last else 8, dropout=config.dropout),
            functional.elu,
        ),
        "transformer": (
            4 * width,
            lambda i, o, last: Transformer(i, o, heads=1 if last else 4, dropout=config.dropout),
            functional.elu,
        ),
    }
    hidden, layer, activate = kinds[config.backbone]
    sizes = [num_features, *[hidden] * (depth - 1), num_classes]
    layers = [layer(sizes[i], sizes[i + 1], i == depth - 1) for i in range(depth)]
    return Convolutions(layers, activate, config.dropout)
