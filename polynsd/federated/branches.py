"""The networks of one client, the scores that its masks give to edges, and what one local epoch minimises.

    s = mask(G),   Z_c = g_c(G, s),   Z_b = g_b(G, stop(1 − s))
    L_c = CE(Z_c) + λ HSIC(Z_c, stop(Z_b)),   L_b = NE(Z_b) + λ HSIC(stop(Z_c), Z_b),   L_s = CE(g_s(G))

What is stopped has no gradient, so L_c reaches g_c and the mask (and the sheaf that it reads), L_b reaches
g_b, and one backward pass of their sum does for all. Losses take `nodes`, `[n]` weights that are 1 at nodes
and 0 where a graph was only padded.

| masks     | an edge is scored by                                                          | after         |
|-----------|-------------------------------------------------------------------------------|---------------|
| `fedath`  | [r_v ‖ r_u] of a graph network of its own; its two directions have two scores | FedATH        |
| `current` | its transport F_vᵀF_u in the causal branch's first layer, without gradient    | RGSheafMask   |
| `loaded`  | that of a sheaf which was trained on the client beforehand                    | LoadRMaps     |
| `full`    | that of a third branch, which learns beside the other two                     | FullSheafMask |

The maps of the first layer see features only, not scores; `current` ones are those of the present weights, in
evaluation mode.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from polynsd.federated.backbones import GCN, Backbone, SheafBackbone, build_backbone, build_sheaf
from polynsd.federated.config import FederatedConfig
from polynsd.federated.data import ClientData
from polynsd.kernels.ops import blocks
from polynsd.kernels.ops.edges import at_columns, at_rows, swap_halves
from polynsd.topology import Topology, as_topology
from polynsd.training.replica import eval_mode

NARROWEST = 8  # hidden layers that score transports


class BatchNorm(nn.Module):
    """Batch normalisation over the half-edges that count; running statistics in evaluation mode."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, z: Tensor, counts: Tensor) -> Tensor:
        """`[H, channels]`, normalised over the rows where `counts` `[H]` is 1."""
        mean, variance = self.running_mean, self.running_var
        if self.training:
            n, weights = counts.sum(-1).clamp(min=1), counts.unsqueeze(-1)
            mean = (weights * z).sum(-2) / n
            variance = (weights * (z - mean.unsqueeze(-2)).square()).sum(-2) / n
            unbiased = variance * n / (n - 1).clamp(min=1)
            for running, new in ((self.running_mean, mean), (self.running_var, unbiased)):
                running.mul_(1 - self.momentum).add_(self.momentum * new.detach())
        return (z - mean.unsqueeze(-2)) * (variance + self.eps).rsqrt().unsqueeze(
            -2
        ) * self.weight + self.bias


class EdgeScorer(nn.Module):
    """s = σ(MLP(f)) with widths m → m/2 → m/4 → 1, batch norm and ReLU between."""

    def __init__(self, num_features: int, narrowest: int = NARROWEST) -> None:
        super().__init__()
        widths = [num_features, *(max(num_features // k, narrowest) for k in (2, 4))]
        self.linears = nn.ModuleList(  # a bias would be lost in the norm
            nn.Linear(a, b, bias=False) for a, b in pairwise(widths)
        )
        self.norms = nn.ModuleList(BatchNorm(width) for width in widths[1:])
        self.last = nn.Linear(widths[-1], 1)

    def forward(self, features: Tensor, counts: Tensor) -> Tensor:
        """`[H]` scores from features `[H, m]`."""
        for linear, norm in zip(self.linears, self.norms, strict=True):
            features = torch.relu(norm(linear(features), counts))
        return self.last(features).squeeze(-1).sigmoid()


class FedATHMask(nn.Module):
    """A linear layer and two graph convolutions give r_v `[classes]`; [r_v ‖ r_u] is scored on (v, u)."""

    def __init__(self, num_features: int, num_classes: int, width: int, dropout: float) -> None:
        super().__init__()
        self.encoder = nn.Linear(num_features, width)
        self.first, self.second = GCN(width, width), GCN(width, num_classes)
        self.scorer = EdgeScorer(2 * num_classes, narrowest=1)
        self.dropout = dropout

    def forward(self, x: Tensor, topology: Topology, counts: Tensor) -> Tensor:
        """`[H]` scores, in general different for the two directions of an edge."""
        h = functional.dropout(self.encoder(x), self.dropout, self.training)
        h = functional.dropout(torch.relu(self.first(h, topology, None)), self.dropout, self.training)
        r = self.second(h, topology, None)
        pairs = torch.cat([at_rows(r, topology.pattern, -2), at_columns(r, topology.pattern, -2)], -1)
        return self.scorer(pairs, counts)


def transport_features(maps: Tensor, topology: Topology, first: Tensor) -> Tensor:
    """`[H, d | d²]` vec(−F_vᵀF_u) of every edge, seen from its lower node on both halves.

    Args:
        maps: `[H, d, d | 1]`.
        topology: the graph.
        first: bool `[H]`, whether the half-edge (v, u) has v < u.
    """
    transport = -blocks.transport(maps, swap_halves(maps, topology.pattern))
    if not blocks.is_elementwise(maps):
        transport = torch.where(first[..., None, None], transport, transport.mT)
    return transport.flatten(-2)


class LocalGraph(NamedTuple):
    """A client's graph as its networks see it."""

    topology: Topology
    x: Tensor  # [n, F]
    y: Tensor  # [n]
    train: Tensor  # bool [n]
    nodes: Tensor  # [n] 1; 0 for rows that only fill up a batch
    halves: Tensor  # [H] the same of half-edges
    first: Tensor  # bool [H], whether the half-edge (v, u) has v < u
    transports: Tensor  # [H, m] of a sheaf that was trained beforehand; [H, 0] where there is none

    @classmethod
    def of(cls, data: ClientData) -> LocalGraph:
        """The graph of a client."""
        topology = as_topology(data.edge_index, data.num_nodes)
        nodes, halves = (data.x.new_ones(count) for count in (data.num_nodes, topology.num_half_edges))
        first = topology.row < topology.col
        none_yet = halves.new_empty(len(halves), 0)
        return cls(topology, data.x, data.y, data.train, nodes, halves, first, none_yet)


class LocalOutput(NamedTuple):
    """What the branches of a client compute."""

    logits: Tensor  # [n, classes] of the causal branch
    embedding: Tensor  # [n, *] its penultimate state
    scores: Tensor | None  # [H] of half-edges
    biased: Tensor | None  # [n, classes] logits of the biased branch, in training
    sheaf: Tensor | None  # [n, classes] logits of the branch that supplies maps, in training


class Branches(nn.Module):
    """Causal branch, biased branch, mask, and the sheaf that a full mask reads; only the first travels."""

    def __init__(
        self, causal: Backbone, config: FederatedConfig, num_features: int, num_classes: int
    ) -> None:
        super().__init__()
        self.config, self.causal = config, causal
        self.biased: Backbone | None = None
        self.mask: EdgeScorer | FedATHMask | None = None
        self.sheaf: SheafBackbone | None = None
        if config.masks == "none":
            return
        self.biased = build_backbone(config, num_features, num_classes)
        if config.masks == "fedath":
            self.mask = FedATHMask(num_features, num_classes, config.mask_width, config.dropout)
        else:
            d = config.stalk_dim
            self.mask = EdgeScorer(d if config.maps == "diagonal" else d * d)
        if config.masks == "full":
            self.sheaf = build_sheaf(config, num_features, num_classes, choose_sheaf(config))

    @property
    def shares_scores(self) -> bool:
        """Whether scores are the same for every causal branch."""
        return self.config.masks != "current"

    def forward(self, graph: LocalGraph, scores: Tensor | None = None) -> LocalOutput:
        """All that training needs of the branches, or in evaluation mode of the causal one.

        Args:
            graph: of the client.
            scores: of half-edges, where they are known.
        """
        sheaf = None
        if scores is None:
            scores, sheaf = self.score(graph)
        causal = self.causal.run(graph.x, graph.topology, scores)
        biased = None
        if self.training and self.biased is not None and scores is not None:
            biased = self.biased.run(graph.x, graph.topology, (1 - scores).detach()).logits
        return LocalOutput(causal.logits, causal.embedding, scores, biased, sheaf)

    def score(self, graph: LocalGraph) -> tuple[Tensor | None, Tensor | None]:
        """The scores of half-edges, and the logits of the sheaf branch where it trains."""
        if self.mask is None:
            return None, None
        if isinstance(self.mask, FedATHMask):
            return self.mask(graph.x, graph.topology, graph.halves), None
        logits, transports = None, graph.transports
        if self.config.masks == "current":
            assert isinstance(self.causal, SheafBackbone)
            with torch.no_grad(), eval_mode(self.causal):
                maps = self.causal.maps(graph.x, graph.topology)
            transports = transport_features(maps, graph.topology, graph.first)
        elif self.sheaf is not None:
            if self.training:
                logits, _, maps = self.sheaf.run(graph.x, graph.topology)  # type: ignore[assignment]
            else:
                maps = self.sheaf.maps(graph.x, graph.topology)
            transports = transport_features(maps, graph.topology, graph.first)
        return self.mask(transports, graph.halves), logits

    def loss(self, graph: LocalGraph, output: LocalOutput, penalty: Tensor | float) -> Tensor:
        """L_c + L_b + L_s, as far as the branches are there; the penalty is λ."""
        total = cross_entropy(output.logits, graph.y, graph.train)
        if output.sheaf is not None:
            total = total + cross_entropy(output.sheaf, graph.y, graph.train)
        if output.biased is None:
            return total
        causal, biased = output.logits, output.biased
        dependence = hsic(causal, biased.detach(), graph.nodes) + hsic(causal.detach(), biased, graph.nodes)
        entropy = negative_entropy(biased, graph.nodes, self.config.entropy)
        return total + entropy + penalty * dependence


def choose_sheaf(config: FederatedConfig) -> str:
    """The model whose maps masks read, where the causal branch is none: its own kind, or PolyNSD."""
    return config.backbone if config.backbone in ("polynsd", "nsd") else "polynsd"


def cross_entropy(logits: Tensor, y: Tensor, train: Tensor) -> Tensor:
    """The mean over training nodes (bool `[n]`) of −log softmax(logits)_y."""
    chosen = logits.log_softmax(-1).gather(-1, y.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return -torch.where(train, chosen, 0.0).sum(-1) / train.sum(-1)


def hsic(a: Tensor, b: Tensor, nodes: Tensor) -> Tensor:
    """Dependence of two sets of logits, (1/n) tr(R aaᵀ R bbᵀ) = (1/n) ‖aᵀ R b‖²_F with R = I − 11ᵀ/n.

    The biased estimate of HSIC with linear kernels, from a matrix of classes × classes.
    """
    count, weights = nodes.sum(-1), nodes.unsqueeze(-1)
    centred = weights * (a - (weights * a).sum(-2, keepdim=True) / count)
    return (centred.mT @ b).square().sum((-2, -1)) / count


def negative_entropy(logits: Tensor, nodes: Tensor, reduction: str = "mean") -> Tensor:
    """Σ_v Σ_k p_vk log p_vk with p = softmax(logits), or its mean over nodes."""
    logs = functional.log_softmax(logits, -1)
    total = (nodes * (logs.exp() * logs).sum(-1)).sum(-1)
    return total if reduction == "sum" else total / nodes.sum(-1)
