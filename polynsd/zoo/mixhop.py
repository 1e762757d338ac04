"""MixHop: neighbours at several distances, side by side."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import MixHopConv

from polynsd.errors import require_at_least, require_fraction
from polynsd.zoo.layers import by_product, feature_products
from polynsd.zoo.ranges import INPUT_DROPOUT
from polynsd.zoo.weighted import Matrix, smoothing


class MixHop(nn.Module):
    """Abu-El-Haija et al., "MixHop: higher-order graph convolutional architectures" (2019).

    H⁺ = dropout(ReLU(‖_{k=0…hops} Ŝ^k H W_k + b)); at last Y = H W + b.

    Args:
        in_channels: number of features.
        hidden_channels: width of every power; a layer has (hops + 1) times as many channels.
        num_layers: number of MixHop layers, before the linear one.
        out_channels: number of classes or targets.
        dropout: rate, after every layer.
        input_dropout: rate, of the features.
        hops: the highest power.
    """

    space: ClassVar[dict[str, Any]] = {
        "num_layers": [1, 2, 3],
        "hidden_channels": [20, 32, 64],
        "hops": [1, 2, 3],
        "input_dropout": INPUT_DROPOUT,
    }
    published: ClassVar[dict[str, Any]] = {
        "num_layers": 2,
        "hidden_channels": 20,
        "hops": 2,
        "input_dropout": 0.0,
    }

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        hops: int = 2,
    ) -> None:
        super().__init__()
        require_fraction("input_dropout", input_dropout)
        self.input_dropout = input_dropout
        require_at_least("hops", hops, 0)
        require_at_least("num_layers", num_layers, 1)
        powers = list(range(hops + 1))
        width = len(powers) * hidden_channels
        sizes = [in_channels, *[width] * (num_layers - 1)]
        self.convs = nn.ModuleList(by_product(MixHopConv(size, hidden_channels, powers)) for size in sizes)
        self.classify = nn.Linear(width, out_channels)
        self.dropout = dropout

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        matrix = smoothing(edge_index, edge_weight, x)
        h = self._of_features(x, matrix)
        for conv in self.convs[1:]:
            h = conv(self._activate(h), matrix)
        return self.classify(self._activate(h))

    def _of_features(self, x: Tensor, S: Matrix) -> Tensor:
        """‖_k S^k (x W_k) + b; each product with S takes all powers that are left."""
        conv: Any = self.convs[0]
        first, *rest = feature_products(conv.lins, x, self.input_dropout, self.training)
        found = [first]
        while rest:
            first, *rest = S(torch.cat(rest, -1)).split([z.size(-1) for z in rest], -1)
            found.append(first)
        return torch.cat(found, -1) + conv.bias

    def _activate(self, h: Tensor) -> Tensor:
        return functional.dropout(h.relu(), self.dropout, self.training)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for layer in (*self.convs, self.classify):
            layer.reset_parameters()
