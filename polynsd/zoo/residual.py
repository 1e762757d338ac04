"""One residual network with a choice of messages, as in Platonov et al. (2023), "A critical look at the
evaluation of GNNs under heterophily": https://arxiv.org/abs/2302.11640.

    h = GELU(dropout(W x));  h ← h + M(LayerNorm(h)) in every block;  logits W' LayerNorm(h)

| message   | M(z)_i                                                                                       |
|-----------|----------------------------------------------------------------------------------------------|
| `none`    | FFN(z_i)                                                                                     |
| `gcn`     | FFN((Ŝz)_i), Ŝ = D̃^{−1/2} (A + I) D̃^{−1/2}                                                   |
| `sage`    | FFN([z_i ‖ mean_j z_j])                                                                      |
| `gat`     | FFN(Σ_j α_ij v_j), v = Wz, α_ij = softmax_j LeakyReLU(a·v_j + b + a'·v_i), j = i included    |
| `gat-sep` | FFN([v_i ‖ Σ_j α_ij v_j]), without j = i                                                     |
| `gt`      | dropout(W_o Σ_j α_ij W_v z_j), α_ij = softmax_j (W_q z_j · W_k z_i / √d), j = i included     |
| `gt-sep`  | dropout(W_o [z_i ‖ Σ_j α_ij W_v z_j]), without j = i                                         |

FFN(z) = dropout(W_2 GELU(dropout(W_1 z))). After a transformer (`gt`) a block with a plain FFN follows.
Every head has its own α and its own part of v.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn.dense import Linear

from polynsd.errors import ShapeError, require_at_least, require_choice
from polynsd.kernels.ops.edges import at_columns, at_rows
from polynsd.nn.features import encode_features
from polynsd.zoo.layers import NEGATIVE_SLOPE, Options, ZooModel, set_inputs
from polynsd.zoo.matrices import (
    SparseMatrix,
    adjacency_matrix,
    gcn_matrix,
    mean_matrix,
    once_per_features,
    powers,
    refuse_weights,
)
from polynsd.zoo.neighbours import attend, neighbours, neighbours_and_self, require_heads

MESSAGES = ("none", "gcn", "sage", "gat", "gat-sep", "gt", "gt-sep")
FEATURES = ("raw", "sgc", "adjacency")
HOPS = 5  # of the smoothed features


class ResidualNet(ZooModel):
    """The residual network. Published are a width of 512, 1 to 5 layers and dropout 0.2.

    Args:
        message: M, one of `none`, `gcn`, `sage`, `gat`, `gat-sep`, `gt`, `gt-sep`.
        features: x itself (`raw`), [x ‖ Ŝ⁵x] (`sgc`) or [x ‖ A] (`adjacency`). In the last case the
            first weight takes its shape at the first call, and the model is bound to graphs of that size.
        heads: of attention, in `gat` and `gt`.
    """

    space: ClassVar[Options] = {"num_layers": [1, 2, 4], "hidden_channels": [384, 512]}
    published: ClassVar[Options] = {"num_layers": 2, "hidden_channels": 512}

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, message: str = "none", features: str = "raw", heads: int = 8,
    ) -> None:  # fmt: skip
        super().__init__(dropout)
        require_choice("features", features, FEATURES)
        require_at_least("num_layers", num_layers, 1)
        self.features = features
        inputs = (1 + (features == "sgc")) * in_channels
        self.input = (
            Linear(-1, hidden_channels) if features == "adjacency" else nn.Linear(inputs, hidden_channels)
        )
        self.blocks = nn.ModuleList(
            block
            for _ in range(num_layers)
            for block in message_blocks(message, hidden_channels, heads, dropout)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(hidden_channels) for _ in self.blocks)
        self.last_norm = nn.LayerNorm(hidden_channels)
        self.output = nn.Linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        refuse_weights("ResidualNet", edge_weight)
        h = functional.gelu(self.drop(self._encode(x, edge_index)))
        for norm, block in zip(self.norms, self.blocks, strict=True):
            h = h + block(norm(h), edge_index)
        return self.output(self.last_norm(h))

    def _encode(self, x: Tensor, edge_index: Any) -> Tensor:
        if self.features == "adjacency":
            return self._encode_with_adjacency(x, adjacency_matrix(edge_index, x))
        if self.features == "sgc":
            x = once_per_features(append_smoothed, gcn_matrix(edge_index, x), x)
        return encode_features(self.input, x, 0.0, self.training)

    def _encode_with_adjacency(self, x: Tensor, A: SparseMatrix) -> Tensor:
        """[x ‖ A] W + b, by a sparse product with A; how many rows W has is seen at the first call."""
        (N, F), layer = x.shape, self.input
        set_inputs(layer, N + F)
        if layer.weight.size(1) != N + F:
            raise ShapeError(
                f"features='adjacency' is bound to one graph: the nodes and features of its first were "
                f"{layer.weight.size(1)} together; got {N} + {F}."
            )
        W_x, W_A = layer.weight.mT.split([F, N])
        return x @ W_x + A(W_A) + layer.bias


def append_smoothed(S: SparseMatrix, x: Tensor) -> Tensor:
    """[x ‖ S⁵x], features beside their smoothed copy."""
    return torch.cat([x, powers(S, x, HOPS)[-1]], -1)


def message_blocks(message: str, channels: int, heads: int, dropout: float) -> list[nn.Module]:
    """The blocks of one layer; each is called with z `[N, C]` and the graph."""
    require_choice("message", message, MESSAGES)
    kind, is_separate = message.removesuffix("-sep"), message.endswith("-sep")
    if kind == "gat":
        return [AdditiveAttention(channels, heads, dropout, is_separate)]
    if kind == "gt":
        attention = DotProductAttention(channels, heads, dropout, is_separate)
        return [attention, FeedForwardBlock(channels, dropout)]
    return [{"none": FeedForwardBlock, "gcn": SmoothedBlock, "sage": MeanBlock}[kind](channels, dropout)]


class FeedForward(nn.Module):
    """FFN(z) = dropout(W_2 GELU(dropout(W_1 z))); the hidden width is that of the output."""

    def __init__(self, in_channels: int, channels: int, dropout: float) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(in_channels, channels), nn.Linear(channels, channels)
        self.dropout = dropout

    def forward(self, z: Tensor) -> Tensor:
        hidden = functional.gelu(functional.dropout(self.first(z), self.dropout, self.training))
        return functional.dropout(self.second(hidden), self.dropout, self.training)


class FeedForwardBlock(nn.Module):
    """FFN(z), without a message from neighbours."""

    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__()
        self.feed_forward = FeedForward(channels, channels, dropout)

    def forward(self, z: Tensor, edge_index: Any) -> Tensor:
        return self.feed_forward(z)


class SmoothedBlock(FeedForwardBlock):
    """FFN(Ŝz), with the message of GCN."""

    def forward(self, z: Tensor, edge_index: Any) -> Tensor:
        return self.feed_forward(gcn_matrix(edge_index, z)(z))


class MeanBlock(nn.Module):
    """FFN([z ‖ D^{−1}Az]), with the message of GraphSAGE."""

    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__()
        self.feed_forward = FeedForward(2 * channels, channels, dropout)

    def forward(self, z: Tensor, edge_index: Any) -> Tensor:
        return self.feed_forward(torch.cat([z, mean_matrix(edge_index, z)(z)], -1))


class AdditiveAttention(nn.Module):
    """Additive attention: α_ij from a·v_j + b + a'·v_i."""

    def __init__(self, channels: int, heads: int, dropout: float, is_separate: bool) -> None:
        super().__init__()
        require_heads(channels, heads)
        self.is_separate = is_separate
        self.value = nn.Linear(channels, channels)
        self.source, self.target = nn.Linear(channels, heads), nn.Linear(channels, heads, bias=False)
        self.feed_forward = FeedForward((1 + is_separate) * channels, channels, dropout)

    def forward(self, z: Tensor, edge_index: Any) -> Tensor:
        near = (neighbours if self.is_separate else neighbours_and_self)(edge_index, z)
        v = self.value(z)
        here = at_rows(self.target(v), near.pattern, -2)
        there = at_columns(self.source(v), near.pattern, -2)
        message = attend(functional.leaky_relu(here + there, NEGATIVE_SLOPE), v, near)
        return self.feed_forward(torch.cat([v, message], -1) if self.is_separate else message)


class DotProductAttention(nn.Module):
    """Attention of a transformer; as published, the query is the sender's, the key the receiver's."""

    def __init__(self, channels: int, heads: int, dropout: float, is_separate: bool) -> None:
        super().__init__()
        require_heads(channels, heads)
        self.heads, self.dropout, self.is_separate = heads, dropout, is_separate
        self.query, self.key, self.value = (nn.Linear(channels, channels) for _ in range(3))
        self.output = nn.Linear((1 + is_separate) * channels, channels)

    def forward(self, z: Tensor, edge_index: Any) -> Tensor:
        near = (neighbours if self.is_separate else neighbours_and_self)(edge_index, z)
        q, k = (linear(z).unflatten(-1, (self.heads, -1)) for linear in (self.query, self.key))
        scores = (at_columns(q, near.pattern) * at_rows(k, near.pattern)).sum(-1) * q.size(-1) ** -0.5
        message = attend(scores, self.value(z), near)
        output = self.output(torch.cat([z, message], -1) if self.is_separate else message)
        return functional.dropout(output, self.dropout, self.training)
