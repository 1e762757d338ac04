"""GraphSAGE with the mean of the neighbours."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch_geometric.nn import models

from polynsd.nn.zoo.gcn import by_product, remembering
from polynsd.nn.zoo.operators import mean_matrix, no_weights


class GraphSAGE(nn.Module):
    """Hamilton, Ying and Leskovec, "Inductive representation learning on large graphs" (2017).

    h_i⁺ = dropout(ReLU(W₁ h_i + W₂ mean_{j∈N(i)} h_j + b)), the last layer without ReLU and dropout.

    Args:
        in_channels: number of features.
        hidden_channels: width.
        num_layers: number of convolutions.
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
        self.gnn = models.GraphSAGE(in_channels, hidden_channels, num_layers, out_channels, dropout=dropout)
        for conv in self.gnn.convs:
            by_product(conv)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        no_weights("sage", edge_weight)
        return self.gnn(x, remembering(mean_matrix(edge_index, x.size(0), x), x))

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        self.gnn.reset_parameters()
