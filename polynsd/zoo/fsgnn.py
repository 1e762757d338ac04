"""FSGNN: a choice among the features that the graph has smoothed or sharpened beforehand."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from polynsd.errors import require_at_least
from polynsd.nn.features import encode_features
from polynsd.nn.inputs import check_features, linear
from polynsd.zoo.operators import gcn_matrix, no_weights, of_features, powers, symmetric_matrix


class FSGNN(nn.Module):
    """Feature selection (Maurya et al., 2021) among the 2K + 1 matrices X_m ∈ {X, S^k X, Ŝ^k X : k = 1 … K}.

        out = W dropout(ReLU(‖_m softmax(a)_m · X_m W_m)),   the rows of X_m W_m scaled to length one

    S is the normalised graph without, Ŝ with self-loops.

    Args:
        in_channels: features per node, or -1 to infer them at the first call.
        hidden_channels: width of every X_m W_m.
        num_layers: K ≥ 1 hops; published are 3 and 8.
        out_channels: classes.
        dropout: of what the classifier sees.
        unit_rows: scale the rows.
    """

    space: ClassVar[dict[str, Any]] = {"num_layers": [2, 3, 8], "unit_rows": [True, False]}
    published: ClassVar[dict[str, Any]] = {"num_layers": 3, "hidden_channels": 64, "unit_rows": True}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        unit_rows: bool = True,
    ) -> None:
        super().__init__()
        require_at_least("num_layers", num_layers, 1)
        self.in_channels, self.num_layers = in_channels, num_layers
        self.dropout, self.unit_rows = dropout, unit_rows
        count = 2 * num_layers + 1
        self.encoders = nn.ModuleList(linear(in_channels, hidden_channels) for _ in range(count))
        self.attention = nn.Parameter(torch.ones(count))
        self.decoder = linear(count * hidden_channels, out_channels)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for layer in (*self.encoders, self.decoder):
            layer.reset_parameters()
        nn.init.ones_(self.attention)

    def sheaf_parameters(self) -> list[nn.Parameter]:
        """The choice among the matrices, which has a weight decay of its own."""
        return [self.attention]

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        no_weights("FSGNN", edge_weight)
        check_features(x, self.in_channels)
        inputs = (x, *hops(x, edge_index, self.num_layers))
        parts = [
            encode_features(layer, X, 0.0, False) for layer, X in zip(self.encoders, inputs, strict=True)
        ]
        if self.unit_rows:
            parts = [functional.normalize(part, dim=-1) for part in parts]
        chosen = [share * part for share, part in zip(self.attention.softmax(-1), parts, strict=True)]
        h = functional.dropout(torch.cat(chosen, -1).relu(), self.dropout, self.training)
        return self.decoder(h)


def hops(x: Tensor, edge_index: Any, count: int) -> list[Tensor]:
    """S X, …, S^K X, Ŝ X, …, Ŝ^K X, found once for features that are not learned."""
    matrices = (matrix(edge_index, x.size(0), x) for matrix in (symmetric_matrix, gcn_matrix))
    return [power for S in matrices for power in of_features(powers, S, x, count)]
