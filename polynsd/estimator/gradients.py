"""First-order effects on a score: of every node's features, of every column, of every edge.

Every model here begins with a linear map of the features, pre = X Wᵀ + b, and goes on with the edges:

    s = S(out_1[v], out_2[v], …),      out_m = rest_m(pre_m, t ∘ w),      t = 1 on every edge.

With g = ∂s/∂pre (one backward pass per model and node) nothing of size N × F is ever made:

    of the features of node u     x_u · ∂s/∂x_u            = g_u · (pre_u − b)
    of column f, at all nodes     Σ_u x_uf ∂s/∂x_uf        = Σ_p (Xᵀ g)_fp W_pf
    of column f, at v itself      x_vf ∂s/∂x_vf            = x_vf (g_v W)_f
    of edge e                     ∂s/∂t_e                   to first order, what s loses without the edge

Of a model that is linear in X, the effects of all nodes add up to s(X) − s(0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.estimator.features import Matrix, Numbers
from polynsd.kernels.ops import blocks
from polynsd.nn import PolyNSD, SheafLayer, hook_layers
from polynsd.nn.assembly import Laplacian
from polynsd.nn.inputs import GraphInput, prepare_graph
from polynsd.sheaf.direct_sum import DirectSum
from polynsd.sheaf.similar import SimilarLaplacian
from polynsd.topology import Topology


class LinearFirstModel(Protocol):
    """A model that is linear in the features first."""

    @property
    def x(self) -> Matrix:
        """`[N, F]`, as the model sees them."""
        ...

    @property
    def columns(self) -> NDArray[np.int64]:
        """`[F]` the number of every column among the features that the user gave."""
        ...

    @property
    def weight(self) -> Tensor:
        """W `[P, F]`."""
        ...

    @property
    def bias(self) -> Tensor | None:
        """The bias b `[P]`."""
        ...

    def finish(self, pre: Tensor, scale: Tensor) -> Tensor:
        """`[N, O]` from X Wᵀ + b `[N, P]` and factors `[E]` of the weights of the edges."""
        ...


@dataclass(frozen=True, eq=False)
class Effects:
    """What features and edges add to a score, to first order."""

    nodes: Numbers  # [N] by the node whose features they are
    own: Numbers  # [F] by column, at the explained node
    all: Numbers  # [F] by column, at all nodes
    edges: Numbers  # [E]

    @classmethod
    def none(cls, topology: Topology, num_features: int) -> Effects:
        N, E = topology.num_nodes, topology.num_edges
        return cls(np.zeros(N), np.zeros(num_features), np.zeros(num_features), np.zeros(E))

    def without_edges(self, node: int) -> Effects:
        """Those of features alone: by column, and of the features of the explained node."""
        nodes = np.zeros_like(self.nodes)
        nodes[node] = self.nodes[node]
        return replace(self, nodes=nodes, edges=np.zeros_like(self.edges))

    def __iadd__(self, other: Effects) -> Effects:
        for name, values in vars(self).items():
            values += getattr(other, name)
        return self


def apply_first_layer(model: LinearFirstModel) -> Tensor:
    """X Wᵀ + b `[N, P]`."""
    pre = torch.from_numpy(np.asarray(model.x @ model.weight.detach().numpy().T))
    return pre if model.bias is None else pre + model.bias.detach()


def dense_row(x: Matrix, node: int) -> Numbers:
    """`[F]` the features of a node."""
    row = x[[node]]
    return np.ravel(row.toarray() if hasattr(row, "toarray") else row)


def find_removal_effects(
    changes: Mapping[int, Tensor], topology: Topology, node: int, slope: Tensor, num_features: int
) -> Effects:
    """The effects of edges of a node on a score, given its derivative by the outputs `[O]` of a model.

    `changes` has by the number of an edge what the outputs at the node lose without it. The other end of the
    edge has the same effect.
    """
    effects = Effects.none(topology, num_features)
    half = topology.first_half
    ends = topology.row[half] + topology.col[half]
    for edge, change in changes.items():
        effect = float(slope @ change)
        effects.edges[edge] += effect
        effects.nodes[int(ends[edge]) - node] += effect
    return effects


class ForwardPass:
    """The outputs `[N, O]` of a model, and the effects on any of them by one backward pass each."""

    def __init__(self, model: LinearFirstModel, topology: Topology) -> None:
        self._model = model
        self._pre = apply_first_layer(model).requires_grad_()
        self._scale = torch.ones(topology.num_edges, dtype=self._pre.dtype, requires_grad=True)
        with torch.enable_grad():
            self.outputs = model.finish(self._pre, self._scale)

    def find_effects(self, node: int, slope: Tensor, num_features: int) -> Effects:
        """The effects on a score of the outputs at a node, given its derivative by them `[O]`."""
        model, weight = self._model, self._model.weight.detach()
        with torch.enable_grad():
            score = self.outputs[node] @ slope
        wanted = (self._pre, self._scale)
        found = torch.autograd.grad(
            score, wanted, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        g, edge_effects = found[0], found[1].numpy()
        linear = self._pre.detach() if model.bias is None else self._pre.detach() - model.bias.detach()
        own, total = np.zeros(num_features), np.zeros(num_features)
        own[model.columns] = dense_row(model.x, node) * (g[node] @ weight).numpy()
        total[model.columns] = (np.asarray(model.x.T @ g.numpy()) * weight.numpy().T).sum(1)
        return Effects((g * linear).sum(-1).numpy(), own, total, edge_effects)


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A `PolyNSD` in double precision on the CPU.

    Args:
        model: in evaluation mode.
        graph: what it is called with.
        x: the features as the model sees them.
        columns: see `LinearFirstModel`.
    """

    model: PolyNSD
    graph: GraphInput
    x: Matrix
    columns: NDArray[np.int64]

    @property
    def weight(self) -> Tensor:
        return self.model.encoder.weight  # type: ignore[return-value]

    @property
    def bias(self) -> Tensor | None:
        return self.model.encoder.bias  # type: ignore[return-value]

    def finish(self, pre: Tensor, scale: Tensor) -> Tensor:
        """`[N, O]` from the encoder's output `[N, P]` and factors `[E]` of the weights of the edges."""
        scaled = scale[self.graph.topology.edge]
        if self.graph.edge_weight is not None:
            scaled = scaled * self.graph.edge_weight
        return self.model.propagate(self.model.start(pre), self.graph._replace(edge_weight=scaled))


def network_model(
    model: PolyNSD, topology: Topology, x: Matrix, data: Any, columns: NDArray[np.int64] | None = None
) -> NetworkModel:
    """A model and the graph that it is called with; `columns` as of `LinearFirstModel`, all unless given."""
    weight, attr = (getattr(data, name, None) for name in ("edge_weight", "edge_attr"))
    graph = prepare_graph(
        torch.empty(topology.num_nodes, 0, dtype=torch.double),  # weights and features become double
        topology,
        None if weight is None else weight.cpu(),
        None if attr is None or not model.config.edge_dim else attr.cpu(),
    )
    return NetworkModel(model, graph, x, np.arange(x.shape[1]) if columns is None else columns)


@dataclass(frozen=True, eq=False)
class HopModel:
    """A linear model on [X, P X, …, Pᴴ X] as a model of X W₀, X W₁, …, and the edges.

    Args:
        x: X.
        columns: see `LinearFirstModel`.
        weights: `[(H + 1) F, O]`.
        intercept: `[O]`.
        hops: H.
        adjacency: P, `mean` or `symmetric`.
        topology: the graph.
        half_weight: `[H]` the weights of the half-edges, or None.
    """

    x: Matrix
    columns: NDArray[np.int64]
    weights: Tensor
    intercept: Tensor
    hops: int
    adjacency: str
    topology: Topology
    half_weight: Tensor | None = None

    @property
    def weight(self) -> Tensor:
        """W₀, W₁, … `[(H + 1) O, F]`."""
        return self.weights.reshape(self.hops + 1, self.x.shape[1], -1).mT.flatten(0, 1)

    @property
    def bias(self) -> None:
        """The intercept comes last."""
        return

    def finish(self, pre: Tensor, scale: Tensor) -> Tensor:
        """Σ_h Pʰ X W_h + intercept, by Horner's rule."""
        terms = pre.unflatten(1, (self.hops + 1, -1))
        total = terms[:, self.hops]
        if self.hops:
            row, col, p = self.topology.row, self.topology.col, self._smoothing(scale)
            for hop in reversed(range(self.hops)):
                total = terms[:, hop].index_add(0, row, p[:, None] * total[col])
        return total + self.intercept

    def _smoothing(self, scale: Tensor) -> Tensor:
        """P on half-edges: w / deg_v, or w / √(deg_v deg_u)."""
        row, col = self.topology.row, self.topology.col
        w = scale[self.topology.edge]
        w = w if self.half_weight is None else w * self.half_weight
        degree = w.new_zeros(self.topology.num_nodes).index_add(0, row, w)
        inverse = torch.where(degree > 0, 1 / torch.where(degree > 0, degree, 1.0), 0.0)
        return w * (inverse[row] if self.adjacency == "mean" else (inverse[row] * inverse[col]).sqrt())


class Transport(NamedTuple):
    """What a node v receives of its neighbours in one layer: h_u becomes T_vu h_u.

    T_vu = S_v F_vᵀ F_u S_u is minus the block (v, u) of the normalised Laplacian: restriction to the edge at
    u, back from it at v, and the normalisation S.
    """

    neighbours: NDArray[np.int64]  # [n]
    matrix: Numbers  # [n, D, D]
    own: Numbers  # [D, C] h_v, as the filter sees it
    before: Numbers  # [n, D, C] h_u
    after: Numbers  # [n, D, C] T_vu h_u

    def agreement(self, states: Numbers) -> Numbers:
        """`[n]` the cosine between h_v and other states, 0 where one of them is 0."""
        others, own = states.reshape(len(states), -1), self.own.ravel()
        lengths = np.linalg.norm(others, axis=1) * np.linalg.norm(own)
        return others @ own / np.where(lengths > 0, lengths, 1.0)


@torch.no_grad()
def find_transports(network: NetworkModel, node: int) -> list[Transport]:
    """The learned transport along every edge of a node, layer by layer."""
    topology = network.graph.topology
    half = torch.arange(int(topology.rowptr[node]), int(topology.rowptr[node + 1]))
    found: list[Transport] = []

    def look(layer: SheafLayer, x: Tensor, L: Laplacian, trunk: Tensor | None) -> Tensor:
        h, T = layer.mixed(x), couplings(L, half)
        before = h[topology.col[half]]
        arrays = (topology.col[half], T, h[node], before, T @ before)
        found.append(Transport(*(t.numpy() for t in arrays)))
        return layer.update(x, L, trunk)

    with hook_layers(network.model, look):
        network.finish(apply_first_layer(network), torch.ones(topology.num_edges, dtype=torch.double))
    return found


def couplings(L: Laplacian, half: Tensor) -> Tensor:
    """`[n, D, D]` minus the blocks of an operator on half-edges."""
    if isinstance(L, DirectSum):
        return _block_diagonal([couplings(part, half) for part in L.parts])
    if not isinstance(L, SimilarLaplacian):
        return -blocks.to_dense(L.blocks.off[half], L.stalk_dim)
    P, inverse = (blocks.to_dense(t, L.stalk_dim) for t in (L.P, L.inverse))
    return inverse[L.topology.row[half]] @ couplings(L.base, half) @ P[L.topology.col[half]]


def _block_diagonal(parts: Sequence[Tensor]) -> Tensor:
    width = sum(part.size(-1) for part in parts)
    rows, place = [], 0
    for part in parts:
        rest = width - place - part.size(-1)
        rows.append(torch.nn.functional.pad(part, (place, rest)))
        place += part.size(-1)
    return torch.cat(rows, -2)
