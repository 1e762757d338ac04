"""Scores of edges, s_e = σ(…) ∈ (0, 1): the causal branch sees s_e of an edge, the biased one 1 − s_e.

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

import torch
from torch import Tensor, nn
from torch.nn import functional

from polynsd.federated.backbones import GCN
from polynsd.kernels.ops import blocks
from polynsd.kernels.ops.edges import at_columns, at_rows, swap_halves
from polynsd.topology import Topology

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
