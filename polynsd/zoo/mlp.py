"""A multilayer perceptron: what can be said without the graph."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional
from torch_geometric import nn as pyg

from polynsd.errors import require_fraction
from polynsd.zoo.layers import after_weights, feature_products
from polynsd.zoo.ranges import INPUT_DROPOUT, PERCEPTRON


class MLP(nn.Module):
    """Looks at the features of a node alone; no part of the graph is used.

    H⁺ = dropout(ReLU(H W + b)), the last layer without ReLU and dropout.

    Args:
        in_channels: number of features.
        hidden_channels: width.
        num_layers: number of linear maps.
        out_channels: number of classes or targets.
        dropout: rate, after every hidden layer.
        input_dropout: rate, of the features.
    """

    space: ClassVar[dict[str, Any]] = {"num_layers": PERCEPTRON, "input_dropout": INPUT_DROPOUT}
    published: ClassVar[dict[str, Any]] = {"num_layers": 2, "hidden_channels": 64, "input_dropout": 0.0}

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
        self.dropout = dropout
        sizes = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.mlp = pyg.MLP(sizes, dropout=dropout, norm=None)
        after_weights(self.mlp.lins[0])

    def forward(self, x: Tensor, edge_index: Any = None, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]; the edges and their weights make no difference."""
        first, *others = self.mlp.lins
        masks = [self._drop(x.new_ones(*x.shape[:-1], linear.in_channels)) for linear in others]
        (h,) = feature_products([first], x, self.input_dropout, self.training)  # masked last, as in `gcn`
        h = first(h)
        for linear, mask in zip(others, masks, strict=True):
            h = linear(h.relu() * mask)
        return h

    def _drop(self, ones: Tensor) -> Tensor:
        return functional.dropout(ones, self.dropout, self.training)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        self.mlp.reset_parameters()
