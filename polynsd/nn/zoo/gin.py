"""The graph isomorphism network."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch_geometric.nn import models

from polynsd.errors import require_choice
from polynsd.nn.zoo.gcn import by_product, remembering
from polynsd.nn.zoo.operators import adjacency_matrix, no_weights

NORMS = {"none": None, "batch": "batch_norm"}


class GIN(nn.Module):
    """Xu et al., "How powerful are graph neural networks?" (2019).

    h_i⁺ = MLP((1 + ε) h_i + Σ_{j∈N(i)} h_j), the perceptron with one hidden layer; between layers
    normalisation, ReLU and dropout.

    Args:
        in_channels: number of features.
        hidden_channels: width.
        num_layers: number of convolutions.
        out_channels: number of classes or targets.
        dropout: rate, after every hidden convolution.
        train_eps: whether ε is learned, from 0 on; else it is 0.
        norm: "batch" for batch normalisation, inside the perceptrons too, or "none".
    """

    space: ClassVar[dict[str, Any]] = {"train_eps": [False, True], "norm": ["none", "batch"]}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        train_eps: bool = False,
        norm: str = "none",
    ) -> None:
        super().__init__()
        require_choice("norm", norm, NORMS)
        self.gnn = models.GIN(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            dropout=dropout,
            norm=NORMS[norm],
            train_eps=train_eps,
        )
        for conv in self.gnn.convs:
            by_product(conv)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        no_weights("gin", edge_weight)
        return self.gnn(x, remembering(adjacency_matrix(edge_index, x.size(0), x), x))

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        self.gnn.reset_parameters()
