"""MixHop: neighbours at several distances, side by side."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import MixHopConv

from polynsd.errors import require_at_least
from polynsd.nn.zoo.gcn import by_product, of_features, smoothing


class MixHop(nn.Module):
    """Abu-El-Haija et al., "MixHop: higher-order graph convolutional architectures" (2019).

    H⁺ = dropout(ReLU(‖_{k=0…hops} Ŝ^k H W_k + b)); at last Y = H W + b.

    Args:
        in_channels: number of features.
        hidden_channels: width of every power; a layer has (hops + 1) times as many channels.
        num_layers: number of MixHop layers, before the linear one.
        out_channels: number of classes or targets.
        dropout: rate, after every layer.
        hops: the highest power.
    """

    space: ClassVar[dict[str, Any]] = {"hops": [1, 2, 3]}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        hops: int = 2,
    ) -> None:
        super().__init__()
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
        h = self.convs[0](x, partial(of_features, matrix))
        for conv in self.convs[1:]:
            h = conv(self._activate(h), matrix)
        return self.classify(self._activate(h))

    def _activate(self, h: Tensor) -> Tensor:
        return functional.dropout(h.relu(), self.dropout, self.training)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for layer in (*self.convs, self.classify):
            layer.reset_parameters()
