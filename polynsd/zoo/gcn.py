"""The graph convolutional network, and what it shares with its relatives."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch_geometric.nn import models

from polynsd.errors import require_fraction
from polynsd.zoo.layers import after_weights, by_product, feature_products
from polynsd.zoo.ranges import CONVOLUTIONS, INPUT_DROPOUT
from polynsd.zoo.weighted import Matrix, smoothing


class GCN(nn.Module):
    """Kipf and Welling's graph convolutional network, "Semi-supervised classification with GCNs" (2017).

    H⁺ = dropout(ReLU(Ŝ H W + b)), the last layer without ReLU and dropout.

    Args:
        in_channels: number of features.
        hidden_channels: width.
        num_layers: number of convolutions.
        out_channels: number of classes or targets.
        dropout: rate, after every hidden layer.
        input_dropout: rate, of the features.
    """

    space: ClassVar[dict[str, Any]] = {"num_layers": CONVOLUTIONS, "input_dropout": INPUT_DROPOUT}
    published: ClassVar[dict[str, Any]] = {"num_layers": 2, "hidden_channels": 64, "input_dropout": 0.5}

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
        self.gnn = convolutions(in_channels, hidden_channels, num_layers, out_channels, dropout)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        S = smoothing(edge_index, edge_weight, x)
        return convolved(self.gnn, x, S, self.input_dropout)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        self.gnn.reset_parameters()


def convolutions(
    in_channels: int,
    hidden_channels: int,
    num_layers: int,
    out_channels: int,
    dropout: float,
    norm: nn.Module | None = None,
) -> Any:
    """PyG's GCN, with a normalisation after every hidden convolution; see `convolved`."""
    gnn = models.GCN(in_channels, hidden_channels, num_layers, out_channels, dropout=dropout, norm=norm)
    for conv in gnn.convs:
        by_product(conv)
    after_weights(gnn.convs[0].lin)
    return gnn


def convolved(gnn: Any, x: Tensor, S: Matrix, input_dropout: float) -> Tensor:
    """What PyG's GCN makes of features.

    The masks of hidden layers are drawn before that of the features, so that a seed gives the same ones
    with and without `input_dropout`.
    """
    masks = [gnn.dropout(x.new_ones(len(x), conv.in_channels)) for conv in gnn.convs[1:]]
    (h,) = feature_products([gnn.convs[0].lin], x, input_dropout, gnn.training)
    h = gnn.convs[0](h, S)
    for conv, norm, mask in zip(gnn.convs[1:], gnn.norms, masks, strict=False):
        h = conv(gnn.act(norm(h)) * mask, S)
    return h
