"""H2GCN: neighbours at distance one and two are kept apart, and all rounds are kept."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from polynsd.errors import require_at_least, require_choice
from polynsd.nn.features import encode_features
from polynsd.nn.inputs import check_features, linear
from polynsd.zoo.operators import no_weights, symmetric_matrix, two_hop_matrix

MATRICES = (symmetric_matrix, two_hop_matrix)


class H2GCN(nn.Module):
    """Beyond homophily (Zhu et al., 2020); L rounds without weights, whose widths double.

        H⁰ = ReLU(X W),   H^ℓ = [Ā₁ H^{ℓ−1} ‖ Ā₂ H^{ℓ−1}],   out = dropout([H⁰ ‖ … ‖ H^L]) W_c,

    with Ā_i the symmetrically normalised graph of the nodes at distance exactly i.

    Args:
        in_channels: features per node, or -1 to infer them at the first call.
        hidden_channels: width of H⁰.
        num_layers: L ≥ 1 rounds; published are 1 and 2.
        out_channels: classes.
        dropout: of what the classifier sees.
        hops: 2, or 1 to leave out the nodes at distance two.
    """

    space: ClassVar[dict[str, Any]] = {"num_layers": [1, 2], "hops": [1, 2]}
    published: ClassVar[dict[str, Any]] = {"num_layers": 2, "hidden_channels": 64, "hops": 2}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        hops: int = 2,
    ) -> None:
        super().__init__()
        require_at_least("num_layers", num_layers, 1)
        require_choice("hops", str(hops), ("1", "2"))
        self.in_channels, self.num_layers, self.dropout, self.hops = in_channels, num_layers, dropout, hops
        self.encoder = linear(in_channels, hidden_channels)
        self.decoder = linear(hidden_channels * sum(hops**k for k in range(num_layers + 1)), out_channels)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for layer in (self.encoder, self.decoder):
            layer.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        no_weights("H2GCN", edge_weight)
        check_features(x, self.in_channels)
        matrices = [matrix(edge_index, x.size(0), x) for matrix in MATRICES[: self.hops]]
        rounds = [encode_features(self.encoder, x, 0.0, self.training).relu()]
        for _ in range(self.num_layers):
            rounds.append(torch.cat([S(rounds[-1]) for S in matrices], -1))
        return self.decoder(functional.dropout(torch.cat(rounds, -1), self.dropout, self.training))
