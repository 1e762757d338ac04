"""Layers of attention whose logits have log s_e added: softmax(e + log s) = s exp(e) / Σ s exp(e)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn.inits import glorot

from polynsd.kernels.ops.edges import at_columns, at_rows, sum_at_nodes
from polynsd.topology import Topology
from polynsd.zoo.neighbours import Neighbourhood, softmax, softmax_with_self

SLOPE = 0.2  # of LeakyReLU


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
