"""ChebNet: filters that are Chebyshev polynomials of the Laplacian."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import ChebConv

from polynsd.errors import require_at_least, require_fraction
from polynsd.zoo.layers import feature_products
from polynsd.zoo.operators import symmetric_matrix
from polynsd.zoo.ranges import CONVOLUTIONS, INPUT_DROPOUT
from polynsd.zoo.weighted import Matrix, from_weights


class ChebNet(nn.Module):
    """Defferrard, Bresson and Vandergheynst, "Convolutional neural networks on graphs …" (2016).

    H⁺ = dropout(ReLU(Σ_{k=0…K} T_k(𝓛 − I) H Θ_k + b)), the last layer without ReLU and dropout;
    𝓛 − I = −D^{−1/2} A D^{−1/2} is 2𝓛/λ_max − I for the bound λ_max = 2.

    Args:
        in_channels: number of features.
        hidden_channels: width.
        num_layers: number of convolutions.
        out_channels: number of classes or targets.
        dropout: rate, after every hidden layer.
        input_dropout: rate, of the features.
        degree: K. PyG counts the K + 1 terms instead.
    """

    space: ClassVar[dict[str, Any]] = {
        "num_layers": CONVOLUTIONS,
        "degree": [1, 2, 3, 4],
        "input_dropout": INPUT_DROPOUT,
    }
    published: ClassVar[dict[str, Any]] = {
        "num_layers": 2,
        "hidden_channels": 32,
        "degree": 2,
        "input_dropout": 0.5,
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
        degree: int = 2,
    ) -> None:
        super().__init__()
        require_fraction("input_dropout", input_dropout)
        self.input_dropout = input_dropout
        require_at_least("degree", degree, 0)
        require_at_least("num_layers", num_layers, 1)
        hidden = [hidden_channels] * (num_layers - 1)
        pairs = zip([in_channels, *hidden], [*hidden, out_channels], strict=True)
        self.convs = nn.ModuleList(ChebConv(*pair, degree + 1) for pair in pairs)
        self.degree, self.dropout = degree, dropout

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        convs: list[Any] = list(self.convs)
        S, (first, *others) = _adjacency(edge_index, edge_weight, x), convs
        h = _filtered(first, S, feature_products(first.lins, x, self.input_dropout, self.training))
        for conv in others:
            h = functional.dropout(h.relu(), self.dropout, self.training)
            h = _filtered(conv, S, [lin(h) for lin in conv.lins])
        return h

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for conv in self.convs:
            conv.reset_parameters()  # type: ignore[operator]


def _adjacency(edge_index: Any, edge_weight: Tensor | None, x: Tensor) -> Matrix:
    """S = I − 𝓛."""
    if edge_weight is None:
        return symmetric_matrix(edge_index, x.size(0), x)
    return from_weights(edge_index, edge_weight, x, loop=0.0)


def _filtered(conv: Any, S: Matrix, terms: Sequence[Tensor]) -> Tensor:
    """Σ_k T_k(−S) z_k + b from z_k = h Θ_k, by Clenshaw: b_k = z_k − 2 S b_{k+1} − b_{k+2}.

    PyG's layer multiplies with S first, which is as many products, but of features for the first layer.
    """
    if len(terms) == 1:
        return terms[0] + conv.bias
    first, *rest, b = terms
    after = torch.zeros_like(b)
    for z in reversed(rest):
        b, after = z - 2 * S(b) - after, b
    return first - S(b) - after + conv.bias
