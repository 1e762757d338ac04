"""A multilayer perceptron: what can be said without the graph."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch_geometric import nn as pyg


class MLP(nn.Module):
    """Looks at the features of a node alone; no part of the graph is used.

    H⁺ = dropout(ReLU(H W + b)), the last layer without ReLU and dropout.

    Args:
        in_channels: number of features.
        hidden_channels: width.
        num_layers: number of linear maps.
        out_channels: number of classes or targets.
        dropout: rate, after every hidden layer.
    """

    space: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        sizes = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.mlp = pyg.MLP(sizes, dropout=dropout, norm=None)

    def forward(self, x: Tensor, edge_index: Any = None, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]; the edges and their weights make no difference."""
        return self.mlp(x)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        self.mlp.reset_parameters()
