"""Baselines with the manners of our models: `model(x, edge_index) → logits`. PyG's own code does the work."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class MLP(nn.Module):
    """A multilayer perceptron that does not look at the graph."""

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        from torch_geometric import nn as pyg

        sizes = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.mlp = pyg.MLP(sizes, dropout=dropout, norm=None)

    def forward(self, x: Tensor, edge_index: Any = None, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]; the edges are ignored."""
        return self.mlp(x)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        self.mlp.reset_parameters()


def gcn(
    in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, dropout: float = 0.0
) -> nn.Module:
    """Kipf and Welling's graph convolutional network."""
    from torch_geometric.nn.models import GCN

    model: nn.Module = GCN(in_channels, hidden_channels, num_layers, out_channels, dropout=dropout)
    return model
