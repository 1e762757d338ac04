"""Simple graph convolution: smooth the features, then forget the graph."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch_geometric import nn as pyg

from polynsd.errors import require_at_least
from polynsd.zoo.operators import of_features, powers
from polynsd.zoo.weighted import smoothing


class SGC(nn.Module):
    """Wu et al., "Simplifying graph convolutional networks" (2019).

    Y = MLP(Ŝ^k X); with one layer the published Ŝ^k X W + b. The power is taken once, so training costs
    what the perceptron costs.

    Args:
        in_channels: number of features.
        hidden_channels: width, if there is more than one layer.
        num_layers: number of linear maps.
        out_channels: number of classes or targets.
        dropout: rate, after every hidden layer.
        hops: the power k.
    """

    space: ClassVar[dict[str, Any]] = {"num_layers": [1, 2], "hops": [1, 2, 3, 4]}
    published: ClassVar[dict[str, Any]] = {"num_layers": 1, "hidden_channels": 64, "hops": 2}

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
        self.hops = hops
        sizes = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.mlp = pyg.MLP(sizes, dropout=dropout, norm=None)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        S = smoothing(edge_index, edge_weight, x)
        return self.mlp([x, *of_features(powers, S, x, self.hops)][-1])

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        self.mlp.reset_parameters()
