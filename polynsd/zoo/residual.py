"""One residual network for all messages, as in Platonov et al. (2023), "A critical look at the evaluation
of GNNs under heterophily": https://arxiv.org/abs/2302.11640.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn.dense import Linear

from polynsd.errors import ShapeError, require_at_least, require_choice, require_fraction
from polynsd.nn.features import encode_features
from polynsd.zoo.messages import message_blocks
from polynsd.zoo.operators import (
    Propagation,
    adjacency_matrix,
    gcn_matrix,
    no_weights,
    of_features,
    powers,
)

FEATURES = ("raw", "sgc", "adjacency")
HOPS = 5  # of the smoothed features


class ResidualNet(nn.Module):
    """h = GELU(dropout(W x)); then h ← h + M(LayerNorm(h)) in every block; logits W' LayerNorm(h).

    Args:
        in_channels: features per node.
        hidden_channels: width C of h; published: 512.
        num_layers: blocks (each of a transformer's layers has two); published: 1 to 5.
        out_channels: logits per node.
        dropout: rate; published: 0.2.
        message: M, one of `none`, `gcn`, `sage`, `gat`, `gat-sep`, `gt`, `gt-sep`; see `messages`.
        features: x itself (`raw`), [x ‖ Ŝ⁵x] (`sgc`) or [x ‖ A] (`adjacency`). In the last case the
            first weight takes its shape at the first call, and the model is bound to graphs of that size.
        heads: of attention, in `gat` and `gt`.
    """

    space: ClassVar[dict[str, Any]] = {"num_layers": [1, 2, 4], "hidden_channels": [384, 512]}
    published: ClassVar[dict[str, Any]] = {"num_layers": 2, "hidden_channels": 512}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        message: str = "none",
        features: str = "raw",
        heads: int = 8,
    ) -> None:
        super().__init__()
        require_choice("features", features, FEATURES)
        require_at_least("num_layers", num_layers, 1)
        require_fraction("dropout", dropout)
        self.features, self.dropout = features, dropout
        self.input = _input(features, in_channels, hidden_channels)
        self.blocks = nn.ModuleList(
            block
            for _ in range(num_layers)
            for block in message_blocks(message, hidden_channels, heads, dropout)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(hidden_channels) for _ in self.blocks)
        self.last_norm = nn.LayerNorm(hidden_channels)
        self.output = nn.Linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        no_weights("ResidualNet", edge_weight)
        h = functional.gelu(functional.dropout(self._encoded(x, edge_index), self.dropout, self.training))
        for norm, block in zip(self.norms, self.blocks, strict=True):
            h = h + block(norm(h), edge_index)
        return self.output(self.last_norm(h))

    def _encoded(self, x: Tensor, edge_index: Any) -> Tensor:
        if self.features == "adjacency":
            return self.input(x, edge_index)
        if self.features == "sgc":
            x = of_features(with_smoothed, gcn_matrix(edge_index, len(x), x), x)
        return encode_features(self.input, x, 0.0, self.training)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for module in self.modules():
            if isinstance(module, nn.Linear | Linear | nn.LayerNorm):
                module.reset_parameters()


def _input(features: str, in_channels: int, out_channels: int) -> nn.Module:
    if features == "adjacency":
        return AdjacencyLinear(out_channels)
    return nn.Linear((1 + (features == "sgc")) * in_channels, out_channels)


class AdjacencyLinear(Linear):  # type: ignore[misc]
    """[x ‖ A] W + b, by a sparse product with A; how many rows W has is seen at the first call."""

    def __init__(self, out_channels: int) -> None:
        super().__init__(-1, out_channels)

    def initialize_parameters(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        """PyG calls this before the first pass; F + N is the sum of the shape of x."""
        super().initialize_parameters(module, (inputs[0].new_empty(0, sum(inputs[0].shape)),))

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        """[N, F] → [N, out]."""
        N, F = x.shape
        if self.weight.size(1) != N + F:
            raise ShapeError(
                f"features='adjacency' is bound to one graph: the nodes and features of its first were "
                f"{self.weight.size(1)} together; got {N} + {F}."
            )
        W_x, W_A = self.weight.mT.split([F, N])
        return x @ W_x + adjacency_matrix(edge_index, N, x)(W_A) + self.bias


def with_smoothed(S: Propagation, x: Tensor) -> Tensor:
    """[x ‖ S⁵x]."""
    return torch.cat([x, powers(S, x, HOPS)[-1]], -1)
