"""GCNII: a deep graph convolutional network that remembers its input."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GCN2Conv

from polynsd.errors import ConfigError
from polynsd.nn.features import encode_features
from polynsd.zoo.layers import by_product
from polynsd.zoo.weighted import smoothing


class GCNII(nn.Module):
    """Chen et al., "Simple and deep graph convolutional networks" (2020).

    H⁰ = ReLU(X W₀ + b), H^ℓ = ReLU(((1−α) Ŝ H^{ℓ−1} + α H⁰) ((1−β_ℓ) I + β_ℓ W_ℓ)) with
    β_ℓ = log(θ/ℓ + 1), and Y = H^L W + b.

    Args:
        in_channels: number of features.
        hidden_channels: width.
        num_layers: number L of convolutions, between the two linear maps.
        out_channels: number of classes or targets.
        dropout: rate, before every map.
        alpha: share α of the first representation, in [0, 1].
        theta: how much the maps may differ from the identity, positive; the paper's λ.
    """

    space: ClassVar[dict[str, Any]] = {
        "num_layers": [2, 8, 16],
        "alpha": [0.1, 0.2, 0.5],
        "theta": [0.5, 1.0, 1.5],
    }
    published: ClassVar[dict[str, Any]] = {
        "num_layers": 16,
        "hidden_channels": 64,
        "alpha": 0.1,
        "theta": 0.5,
    }

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        alpha: float = 0.1,
        theta: float = 0.5,
    ) -> None:
        super().__init__()
        if not 0.0 <= alpha <= 1.0:
            raise ConfigError(f"alpha must lie in [0, 1]; got {alpha!r}.")
        if not theta > 0.0:
            raise ConfigError(f"theta must be positive; got {theta!r}.")
        self.encode = nn.Linear(in_channels, hidden_channels)
        self.convs = nn.ModuleList(
            by_product(GCN2Conv(hidden_channels, alpha, theta, layer)) for layer in range(1, num_layers + 1)
        )
        self.classify = nn.Linear(hidden_channels, out_channels)
        self.dropout = dropout

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        matrix = smoothing(edge_index, edge_weight, x)

        def propagate(z: Tensor) -> Tensor:
            return matrix(z).clone()  # which PyG's layer writes into

        h = first = encode_features(self.encode, x, self.dropout, self.training).relu()
        for conv in self.convs:
            h = conv(self._drop(h), first, propagate).relu()
        return self.classify(self._drop(h))

    def _drop(self, h: Tensor) -> Tensor:
        return functional.dropout(h, self.dropout, self.training)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for layer in (self.encode, *self.convs, self.classify):
            layer.reset_parameters()
