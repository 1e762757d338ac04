"""ChebNet: filters that are Chebyshev polynomials of the Laplacian."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional
from torch.utils.weak import WeakIdRef
from torch_geometric.nn import ChebConv

from polynsd.errors import require_at_least
from polynsd.memo import TensorMemo
from polynsd.nn.zoo.gcn import Matrix, from_weights
from polynsd.nn.zoo.operators import symmetric_matrix

_of_features = TensorMemo[list[Tensor]]()


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
        degree: K. PyG counts the K + 1 terms instead.
    """

    space: ClassVar[dict[str, Any]] = {"degree": [1, 2, 3, 4]}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        degree: int = 2,
    ) -> None:
        super().__init__()
        require_at_least("degree", degree, 0)
        require_at_least("num_layers", num_layers, 1)
        hidden = [hidden_channels] * (num_layers - 1)
        pairs = zip([in_channels, *hidden], [*hidden, out_channels], strict=True)
        self.convs = nn.ModuleList(ChebConv(*pair, degree + 1) for pair in pairs)
        self.degree, self.dropout = degree, dropout

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        matrix = _adjacency(edge_index, edge_weight, x)
        h = _combined(self.convs[0], self._terms_of_features(matrix, x))
        for conv in self.convs[1:]:
            h = functional.dropout(h.relu(), self.dropout, self.training)
            h = _combined(conv, _terms(matrix, h, self.degree))
        return h

    def _terms_of_features(self, matrix: Matrix, x: Tensor) -> list[Tensor]:
        if x.requires_grad:
            return _terms(matrix, x, self.degree)
        found = _of_features(
            x, lambda: _terms(matrix, x, self.degree)[1:], WeakIdRef(matrix.values), self.degree
        )
        return [x, *found]

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for conv in self.convs:
            conv.reset_parameters()  # type: ignore[operator]


def _adjacency(edge_index: Any, edge_weight: Tensor | None, x: Tensor) -> Matrix:
    """S = I − 𝓛."""
    if edge_weight is None:
        return symmetric_matrix(edge_index, x.size(0), x)
    return from_weights(edge_index, edge_weight, x, loop=0.0)


def _terms(matrix: Matrix, x: Tensor, degree: int) -> list[Tensor]:
    """T_0 x … T_K x of −S: T_k = −2 S T_{k−1} − T_{k−2}."""
    terms = [x, -matrix(x)][: degree + 1]
    for _ in range(2, degree + 1):
        terms.append(-2 * matrix(terms[-1]) - terms[-2])
    return terms


def _combined(conv: Any, terms: list[Tensor]) -> Tensor:
    """What PyG's layer makes of its terms, which it would find anew for the features in every epoch."""
    return sum(lin(term) for lin, term in zip(conv.lins, terms, strict=True)) + conv.bias
