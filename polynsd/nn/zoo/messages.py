"""What a residual block does with normalised signals z: x ← x + M(z), z = LayerNorm(x).

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

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.utils import scatter, softmax

from polynsd.errors import ConfigError, require_at_least, require_choice
from polynsd.memo import TensorMemo
from polynsd.nn.zoo.operators import gcn_matrix, mean_matrix
from polynsd.topology import as_topology

MESSAGES = ("none", "gcn", "sage", "gat", "gat-sep", "gt", "gt-sep")
SLOPE = 0.2  # of LeakyReLU


def message_blocks(message: str, channels: int, heads: int, dropout: float) -> list[nn.Module]:
    """The blocks of one layer; each is called with z `[N, C]` and the graph."""
    require_choice("message", message, MESSAGES)
    kind, is_separate = message.removesuffix("-sep"), message.endswith("-sep")
    if kind == "gat":
        return [Attention(channels, heads, dropout, is_separate)]
    if kind == "gt":
        return [DotProduct(channels, heads, dropout, is_separate), Plain(channels, dropout)]
    return [{"none": Plain, "gcn": Convolution, "sage": Mean}[kind](channels, dropout)]


class FeedForward(nn.Module):
    """FFN(z) = dropout(W_2 GELU(dropout(W_1 z))); the hidden width is that of the output."""

    def __init__(self, in_channels: int, channels: int, dropout: float) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(in_channels, channels), nn.Linear(channels, channels)
        self.dropout = dropout

    def forward(self, z: Tensor) -> Tensor:
        """[N, in] → [N, C]."""
        hidden = functional.gelu(functional.dropout(self.first(z), self.dropout, self.training))
        return functional.dropout(self.second(hidden), self.dropout, self.training)


class Plain(nn.Module):
    """FFN(z): no message."""

    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__()
        self.feed_forward = FeedForward(channels, channels, dropout)

    def forward(self, z: Tensor, edge_index: Any) -> Tensor:
        """[N, C] → [N, C]; the edges are not looked at."""
        return self.feed_forward(z)


class Convolution(Plain):
    """FFN(Ŝz)."""

    def forward(self, z: Tensor, edge_index: Any) -> Tensor:
        """[N, C] → [N, C]."""
        return self.feed_forward(gcn_matrix(edge_index, len(z), z)(z))


class Mean(nn.Module):
    """FFN([z ‖ D^{−1}Az])."""

    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__()
        self.feed_forward = FeedForward(2 * channels, channels, dropout)

    def forward(self, z: Tensor, edge_index: Any) -> Tensor:
        """[N, C] → [N, C]."""
        return self.feed_forward(torch.cat([z, mean_matrix(edge_index, len(z), z)(z)], -1))


class Attention(nn.Module):
    """Additive attention: α_ij from a·v_j + b + a'·v_i."""

    def __init__(self, channels: int, heads: int, dropout: float, is_separate: bool) -> None:
        super().__init__()
        require_heads(channels, heads)
        self.is_separate = is_separate
        self.value = nn.Linear(channels, channels)
        self.source, self.target = nn.Linear(channels, heads), nn.Linear(channels, heads, bias=False)
        self.feed_forward = FeedForward((1 + is_separate) * channels, channels, dropout)

    def forward(self, z: Tensor, edge_index: Any) -> Tensor:
        """[N, C] → [N, C]."""
        pairs = node_pairs(edge_index, len(z), not self.is_separate)
        v = self.value(z)
        scores = self.source(v)[pairs.source] + self.target(v)[pairs.target]
        message = attended(functional.leaky_relu(scores, SLOPE), v, pairs)
        return self.feed_forward(torch.cat([v, message], -1) if self.is_separate else message)


class DotProduct(nn.Module):
    """Attention of a transformer; as published, the query is the sender's, the key the receiver's."""

    def __init__(self, channels: int, heads: int, dropout: float, is_separate: bool) -> None:
        super().__init__()
        require_heads(channels, heads)
        self.heads, self.dropout, self.is_separate = heads, dropout, is_separate
        self.query, self.key, self.value = (nn.Linear(channels, channels) for _ in range(3))
        self.output = nn.Linear((1 + is_separate) * channels, channels)

    def forward(self, z: Tensor, edge_index: Any) -> Tensor:
        """[N, C] → [N, C]."""
        pairs = node_pairs(edge_index, len(z), not self.is_separate)
        q, k = (linear(z).unflatten(-1, (self.heads, -1)) for linear in (self.query, self.key))
        scores = (q[pairs.source] * k[pairs.target]).sum(-1) * q.size(-1) ** -0.5
        message = attended(scores, self.value(z), pairs)
        output = self.output(torch.cat([z, message], -1) if self.is_separate else message)
        return functional.dropout(output, self.dropout, self.training)


class Pairs(NamedTuple):
    """Who sends to whom."""

    source: Tensor
    target: Tensor


_looped: TensorMemo[Pairs] = TensorMemo()


def node_pairs(edge_index: Any, num_nodes: int, with_self: bool) -> Pairs:
    """All (neighbour, node) of an undirected graph, and if wanted (node, node)."""
    topology = as_topology(edge_index, num_nodes)
    row, col = topology.row, topology.col
    if not with_self:
        return Pairs(col, row)
    node = torch.arange(num_nodes, device=row.device)
    return _looped(row, lambda: Pairs(torch.cat([col, node]), torch.cat([row, node])))


def attended(scores: Tensor, v: Tensor, pairs: Pairs) -> Tensor:
    """Σ_j softmax_j(scores_ij) v_j, for scores `[pairs, heads]` and v `[N, C]`, 0 for who gets nothing."""
    α = softmax(scores, pairs.target, num_nodes=len(v))
    sent = α.unsqueeze(-1) * v.unflatten(-1, (scores.size(-1), -1))[pairs.source]
    return scatter(sent, pairs.target, dim_size=len(v)).flatten(1)


def require_heads(channels: int, heads: int) -> None:
    """Raises unless the heads share the channels evenly."""
    require_at_least("heads", heads, 1)
    if channels % heads:
        raise ConfigError(f"hidden_channels must be a multiple of heads={heads}; got {channels}.")
