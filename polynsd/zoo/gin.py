"""The graph isomorphism network."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch_geometric.nn import models

from polynsd.errors import require_choice, require_fraction
from polynsd.zoo.layers import after_weights, by_product, feature_products
from polynsd.zoo.operators import adjacency_matrix, no_weights
from polynsd.zoo.ranges import CONVOLUTIONS, INPUT_DROPOUT

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
        input_dropout: rate, of the features.
        train_eps: whether ε is learned, from 0 on; else it is 0.
        norm: "batch" for batch normalisation, inside the perceptrons too, or "none".
    """

    space: ClassVar[dict[str, Any]] = {
        "num_layers": CONVOLUTIONS,
        "train_eps": [False, True],
        "norm": ["none", "batch"],
        "input_dropout": INPUT_DROPOUT,
    }
    published: ClassVar[dict[str, Any]] = {
        "num_layers": 4,
        "hidden_channels": 64,
        "train_eps": False,
        "norm": "batch",
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
        train_eps: bool = False,
        norm: str = "none",
    ) -> None:
        super().__init__()
        require_fraction("input_dropout", input_dropout)
        self.input_dropout = input_dropout
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
        after_weights(self._first_map())

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        no_weights("gin", edge_weight)
        (h,) = feature_products([self._first_map()], x, self.input_dropout, self.training)
        return self.gnn(h, adjacency_matrix(edge_index, x.size(0), x))

    def _first_map(self) -> Any:
        """That of the first perceptron; what comes before it, (1 + ε) I + A, commutes with it."""
        return self.gnn.convs[0].nn.lins[0]

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        self.gnn.reset_parameters()
