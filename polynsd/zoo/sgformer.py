"""SGFormer, one layer of attention beside a convolutional network: Wu et al. (2023),
https://arxiv.org/abs/2306.10759.

The rows of q and k, one per node and head, are scaled to length one each, as in PyG; not the whole matrices
to norm one. The convolutional branch is PyG's. PyG's attention is not used: it writes where a mask of values
says, which `torch.vmap` does not admit, and knows single precision only; PyG's model gives log-probabilities
for logits.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn.models.sgformer import GraphModule

from polynsd.errors import require_at_least, require_fraction
from polynsd.zoo.layers import by_product
from polynsd.zoo.operators import gcn_matrix, no_weights
from polynsd.zoo.ranges import CONVOLUTIONS


class SGFormer(nn.Module):
    """W (w·GCN(x) + (1 − w)·attention(x)).

    Args:
        in_channels: features per node.
        hidden_channels: width of both branches.
        num_layers: convolutions.
        out_channels: logits per node.
        dropout: rate in both branches.
        graph_weight: w.
        attention_layers: layers of linear attention.
        heads: of attention, each of the full width; they are averaged.
    """

    space: ClassVar[dict[str, Any]] = {
        "num_layers": CONVOLUTIONS,
        "graph_weight": [0.5, 0.8],
        "heads": [1, 2, 4],
    }
    published: ClassVar[dict[str, Any]] = {
        "num_layers": 4,
        "hidden_channels": 64,
        "graph_weight": 0.8,
        "heads": 1,
    }

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        graph_weight: float = 0.8,
        attention_layers: int = 1,
        heads: int = 1,
    ) -> None:
        super().__init__()
        require_at_least("num_layers", num_layers, 1)
        require_at_least("attention_layers", attention_layers, 1)
        require_at_least("heads", heads, 1)
        require_fraction("dropout", dropout)
        self.graph_weight = graph_weight
        self.graph = GraphModule(in_channels, hidden_channels, num_layers, dropout)
        for conv in self.graph.convs:
            by_product(conv)
        self.attention = AttentionBranch(in_channels, hidden_channels, attention_layers, heads, dropout)
        self.output = nn.Linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        no_weights("SGFormer", edge_weight)
        w, near = self.graph_weight, self.graph(x, gcn_matrix(edge_index, len(x), x))
        return self.output(w * near + (1 - w) * self.attention(x))

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for module in (self.graph, self.attention, self.output):
            module.reset_parameters()


class AttentionBranch(nn.Module):
    """h = φ(W x); then h ← φ((attention(h) + h) / 2), with φ = dropout ∘ ReLU ∘ LayerNorm."""

    def __init__(self, in_channels: int, channels: int, num_layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.input = nn.Linear(in_channels, channels)
        self.layers = nn.ModuleList(LinearAttention(channels, heads) for _ in range(num_layers))
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(num_layers + 1))

    def forward(self, x: Tensor) -> Tensor:
        """[N, in] → [N, C]."""
        first, *others = self.norms
        h = self._activated(first(self.input(x)))
        for layer, norm in zip(self.layers, others, strict=True):
            h = self._activated(norm((layer(h) + h) / 2))
        return h

    def _activated(self, h: Tensor) -> Tensor:
        return functional.dropout(functional.relu(h), self.dropout, self.training)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for module in (self.input, *self.layers, *self.norms):
            module.reset_parameters()


class LinearAttention(nn.Module):
    """(v + q (kᵀv) / N) / (1 + q (kᵀ1) / N) with q and k of length 1 at every node; the mean over heads."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (
            nn.Linear(channels, heads * channels, bias=False) for _ in range(3)
        )

    def forward(self, h: Tensor) -> Tensor:
        """[N, C] → [N, C]."""
        q, k, v = (f(h).unflatten(-1, (self.heads, -1)) for f in (self.query, self.key, self.value))
        q, k = functional.normalize(q, dim=-1), functional.normalize(k, dim=-1)
        sums = torch.einsum("nhd,hde->nhe", q, torch.einsum("nhd,nhe->hde", k, v) / len(h))
        weights = torch.einsum("nhd,hd->nh", q, k.mean(0))
        return ((v + sums) / (1 + weights.unsqueeze(-1))).mean(1)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for module in (self.query, self.key, self.value):
            module.reset_parameters()
