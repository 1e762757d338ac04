"""Graph transformers: Polynormer and SGFormer, with attention of every node to every node in linear time.

Polynormer's global attention is PyG's layer. PyG's models are not used: they write into dense batches or
where a mask says, which `torch.vmap` does not admit, normalise the graph in every pass, and give
log-probabilities for logits. With more than one head, PyG's Polynormer does not fit its width, and its
SGFormer knows single precision only.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn.attention import PolynormerAttention

from polynsd.errors import require_at_least, require_fraction
from polynsd.nn.batch_norm import BatchNorm
from polynsd.sparse import require_dense
from polynsd.zoo.layers import CONVOLUTIONS, WIDE, GCNLayer, Options, ZooModel
from polynsd.zoo.matrices import SparseMatrix, gcn_matrix, refuse_weights
from polynsd.zoo.neighbours import require_heads
from polynsd.zoo.tuned import TunedLayer, conv_graph, make_convolution


class Polynormer(ZooModel):
    """A polynomial of its input: Deng, Yue and Zhang (2024), https://arxiv.org/abs/2403.01232.

    Local layers x ← (1 − β) LN(ReLU(W x) ⊙ x') + β x', x' = dropout(ReLU(BN(conv(x) + W' x))), summed up;
    then global layers of linear attention with sigmoid kernels.

    Published training has two phases: first the local part with a classifier of its own, then all of it with
    another. With `local_epochs` a model counts its steps and does the same; its second phase goes on from the
    last step of the first, not from the best. The heads share `hidden_channels`: what is published as 64
    channels with 8 heads is 512 channels here. `num_layers` counts local layers, published are 5 to 10.

    Args:
        feature_dropout: rate of the features.
        heads: of both kinds of attention.
        beta: β.
        local_attention: whether a local layer is `gat` or `gcn`.
        global_attention: whether there are global layers.
        global_layers: how many.
        local_epochs: steps of the first phase, published are 100 and 200; 0 for no such phase.
    """

    steps: Tensor

    space: ClassVar[Options] = {
        "num_layers": [2, 5, 7],
        "hidden_channels": WIDE,
        "global_layers": [1, 2, 3],
        "heads": [1, 2, 4, 8],
        "local_attention": [True, False],
        "feature_dropout": {"low": 0.0, "high": 0.5},
    }
    published: ClassVar[Options] = {
        "num_layers": 7,
        "hidden_channels": 512,
        "global_layers": 2,
        "heads": 8,
        "local_attention": True,
        "feature_dropout": 0.15,
    }

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, feature_dropout: float = 0.15, heads: int = 1, beta: float = 0.9,
        local_attention: bool = False, global_attention: bool = True, global_layers: int = 2,
        local_epochs: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(dropout)
        require_at_least("num_layers", num_layers, 1)
        require_at_least("global_layers", global_layers, 1)
        require_at_least("local_epochs", local_epochs, 0)
        self.local_epochs = local_epochs
        require_fraction("feature_dropout", feature_dropout)
        require_heads(hidden_channels, heads)
        self.feature_dropout, self.conv = feature_dropout, "gat" if local_attention else "gcn"
        widths = [in_channels, *[hidden_channels] * (num_layers - 1)]
        self.local_layers = nn.ModuleList(
            LocalLayer(self.conv, width, hidden_channels, heads, beta, dropout) for width in widths
        )
        self.norm = nn.LayerNorm(hidden_channels) if global_attention else None
        self.global_layers = nn.ModuleList(
            PolynormerAttention(
                hidden_channels, heads, hidden_channels // heads, beta, qk_shared=False, dropout=dropout
            )
            for _ in range(global_layers if global_attention else 0)
        )
        self.output = nn.Linear(hidden_channels, out_channels)
        has_phases = global_attention and local_epochs > 0
        self.local_output = nn.Linear(hidden_channels, out_channels) if has_phases else None
        if has_phases:
            self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def reset_parameters(self) -> None:
        """Draws all parameters anew; the first phase begins again."""
        super().reset_parameters()
        if self.local_output is not None:
            self.steps.zero_()

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        refuse_weights("Polynormer", edge_weight)
        require_dense(x)
        graph = conv_graph(self.conv, edge_index, x)
        x = functional.dropout(x, self.feature_dropout, self.training)
        total = x.new_zeros(())
        for layer in self.local_layers:
            x = layer(x, graph)
            total = total + x
        if self.norm is None:
            return self.output(total)
        batch = self.norm(total)[None]  # of one graph
        for layer in self.global_layers:
            batch = layer(batch)
        logits = self.output(batch[0])
        if self.local_output is None:
            return logits
        if self.training:
            self.steps.add_(1)
        return torch.where(self.steps > self.local_epochs, logits, self.local_output(total))


class LocalLayer(nn.Module):
    """(1 − β) LN(ReLU(W x) ⊙ x') + β x' with x' = dropout(ReLU(BN(conv(x) + W' x)))."""

    def __init__(
        self, conv: str, in_channels: int, channels: int, heads: int, beta: float, dropout: float
    ) -> None:
        super().__init__()
        self.beta, self.dropout = beta, dropout
        convolution = make_convolution(conv, in_channels, channels, heads)
        self.gate = nn.Linear(in_channels, channels)
        self.local = TunedLayer(convolution, in_channels, channels, residual=True, norm="batch")
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Tensor, graph: Any) -> Tensor:
        gate = functional.relu(self.gate(x))
        new = functional.dropout(functional.relu(self.local(x, graph)), self.dropout, self.training)
        return (1 - self.beta) * self.norm(gate * new) + self.beta * new


class SGFormer(ZooModel):
    """One layer of attention beside a convolutional network: Wu et al. (2023), https://arxiv.org/abs/2306.10759.

    W (w·GCN(x) + (1 − w)·attention(x)). The rows of q and k, one per node and head, are scaled to length one
    each, as in PyG; not the whole matrices to norm one. `num_layers` counts convolutions.

    Args:
        graph_weight: w.
        attention_layers: layers of linear attention.
        heads: of attention, each of the full width; they are averaged.
    """

    space: ClassVar[Options] = {"num_layers": CONVOLUTIONS, "graph_weight": [0.5, 0.8], "heads": [1, 2, 4]}
    published: ClassVar[Options] = {"num_layers": 4, "hidden_channels": 64, "graph_weight": 0.8, "heads": 1}

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, graph_weight: float = 0.8, attention_layers: int = 1, heads: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(dropout)
        require_at_least("num_layers", num_layers, 1)
        require_at_least("attention_layers", attention_layers, 1)
        require_at_least("heads", heads, 1)
        self.graph_weight = graph_weight
        self.graph = ConvolutionBranch(in_channels, hidden_channels, num_layers, dropout)
        self.attention = AttentionBranch(in_channels, hidden_channels, attention_layers, heads, dropout)
        self.output = nn.Linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        refuse_weights("SGFormer", edge_weight)
        w, local = self.graph_weight, self.graph(x, gcn_matrix(edge_index, x))
        return self.output(w * local + (1 - w) * self.attention(x))


class ConvolutionBranch(nn.Module):
    """h⁰ = φ(W x);  h ← φ(Ŝ h W + b) + h⁰ in every layer, with φ = dropout ∘ ReLU ∘ BatchNorm."""

    def __init__(self, in_channels: int, channels: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.input = nn.Linear(in_channels, channels)
        self.layers = nn.ModuleList(GCNLayer(channels, channels) for _ in range(num_layers))
        self.norms = nn.ModuleList(BatchNorm(channels) for _ in range(num_layers + 1))

    def forward(self, x: Tensor, S: SparseMatrix) -> Tensor:
        first, *others = self.norms
        h = start = self._activate(first(self.input(x)))
        for layer, norm in zip(self.layers, others, strict=True):
            h = self._activate(norm(layer(h, S))) + start
        return h

    def _activate(self, h: Tensor) -> Tensor:
        return functional.dropout(functional.relu(h), self.dropout, self.training)


class AttentionBranch(nn.Module):
    """h = φ(W x); then h ← φ((attention(h) + h) / 2), with φ = dropout ∘ ReLU ∘ LayerNorm."""

    def __init__(self, in_channels: int, channels: int, num_layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.input = nn.Linear(in_channels, channels)
        self.layers = nn.ModuleList(LinearAttention(channels, heads) for _ in range(num_layers))
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(num_layers + 1))

    def forward(self, x: Tensor) -> Tensor:
        first, *others = self.norms
        h = self._activate(first(self.input(x)))
        for layer, norm in zip(self.layers, others, strict=True):
            h = self._activate(norm((layer(h) + h) / 2))
        return h

    def _activate(self, h: Tensor) -> Tensor:
        return functional.dropout(functional.relu(h), self.dropout, self.training)


class LinearAttention(nn.Module):
    """(v + q (kᵀv) / N) / (1 + q (kᵀ1) / N) with q and k of length 1 at every node; the mean over heads."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (
            nn.Linear(channels, heads * channels, bias=False) for _ in range(3)
        )

    def forward(self, h: Tensor) -> Tensor:
        q, k, v = (f(h).unflatten(-1, (self.heads, -1)) for f in (self.query, self.key, self.value))
        q, k = functional.normalize(q, dim=-1), functional.normalize(k, dim=-1)
        sums = torch.einsum("nhd,hde->nhe", q, torch.einsum("nhd,nhe->hde", k, v) / len(h))
        weights = torch.einsum("nhd,hd->nh", q, k.mean(0))
        return ((v + sums) / (1 + weights.unsqueeze(-1))).mean(1)
