"""A GCN whose nodes are kept apart by PairNorm."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch_geometric.nn import PairNorm

from polynsd.errors import ConfigError, require_fraction
from polynsd.zoo.gcn import convolutions, convolved
from polynsd.zoo.ranges import INPUT_DROPOUT
from polynsd.zoo.weighted import smoothing


class PairNormGCN(nn.Module):
    """Zhao and Akoglu, "PairNorm: tackling oversmoothing in GNNs" (2020).

    H⁺ = dropout(ReLU(PN(Ŝ H W + b))), the last layer the convolution alone. PN takes the mean of all
    rows away and scales: x_i · s / √(ε + mean_j ‖x_j‖²), or individually x_i · s / (ε + ‖x_i‖).

    Args:
        in_channels: number of features.
        hidden_channels: width.
        num_layers: number of convolutions.
        out_channels: number of classes or targets.
        dropout: rate, after every hidden layer.
        input_dropout: rate, of the features.
        scale: s, positive.
        individually: whether every row gets the norm s, and not their mean square.
    """

    space: ClassVar[dict[str, Any]] = {
        "num_layers": [2, 4, 8],
        "scale": {"low": 0.1, "high": 100.0, "log": True},
        "individually": [False, True],
        "input_dropout": INPUT_DROPOUT,
    }
    published: ClassVar[dict[str, Any]] = {
        "num_layers": 2,
        "hidden_channels": 32,
        "scale": 1.0,
        "individually": False,
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
        scale: float = 1.0,
        individually: bool = False,
    ) -> None:
        super().__init__()
        require_fraction("input_dropout", input_dropout)
        self.input_dropout = input_dropout
        if not scale > 0.0:
            raise ConfigError(f"scale must be positive; got {scale!r}.")
        sizes = (in_channels, hidden_channels, num_layers, out_channels)
        self.gnn = convolutions(*sizes, dropout, norm=PairNorm(scale, individually))

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        S = smoothing(edge_index, edge_weight, x)
        return convolved(self.gnn, x, S, self.input_dropout)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        self.gnn.reset_parameters()
