"""GraphSAGE with the mean of the neighbours."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch_geometric.nn import models

from polynsd.errors import require_fraction
from polynsd.zoo.layers import after_weights, by_product, feature_products
from polynsd.zoo.operators import mean_matrix, no_weights
from polynsd.zoo.ranges import CONVOLUTIONS, INPUT_DROPOUT


class GraphSAGE(nn.Module):
    """Hamilton, Ying and Leskovec, "Inductive representation learning on large graphs" (2017).

    h_i⁺ = dropout(ReLU(W₁ h_i + W₂ mean_{j∈N(i)} h_j + b)), the last layer without ReLU and dropout.

    Args:
        in_channels: number of features.
        hidden_channels: width.
        num_layers: number of convolutions.
        out_channels: number of classes or targets.
        dropout: rate, after every hidden layer.
        input_dropout: rate, of the features.
    """

    space: ClassVar[dict[str, Any]] = {"num_layers": CONVOLUTIONS, "input_dropout": INPUT_DROPOUT}
    published: ClassVar[dict[str, Any]] = {"num_layers": 2, "hidden_channels": 128, "input_dropout": 0.0}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        require_fraction("input_dropout", input_dropout)
        self.input_dropout = input_dropout
        self.gnn = models.GraphSAGE(in_channels, hidden_channels, num_layers, out_channels, dropout=dropout)
        for conv in self.gnn.convs:
            by_product(conv)
        after_weights(*self._first_maps())

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        no_weights("sage", edge_weight)
        products = feature_products(self._first_maps(), x, self.input_dropout, self.training)
        return self.gnn(products, mean_matrix(edge_index, x.size(0), x))

    def _first_maps(self) -> tuple[Any, Any]:
        """Of the neighbours and of the node itself."""
        return self.gnn.convs[0].lin_l, self.gnn.convs[0].lin_r

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        self.gnn.reset_parameters()
