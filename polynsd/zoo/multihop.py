"""Convolutions that reach several hops in one layer, or many layers deep: SGC, MixHop, GCNII, ChebNet.

Ŝ = D̃^{−1/2} (A + I) D̃^{−1/2} is `gcn_matrix`, S = D^{−1/2} A D^{−1/2} is `symmetric_matrix`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch_geometric.nn import models
from torch_geometric.nn.dense import Linear
from torch_geometric.nn.inits import glorot

from polynsd.errors import ConfigError, require_at_least
from polynsd.nn.features import encode_features
from polynsd.zoo.layers import CONVOLUTIONS, INPUT_DROPOUT, Options, ZooModel
from polynsd.zoo.matrices import SparseMatrix, gcn_matrix, once_per_features, powers, symmetric_matrix


class SGC(ZooModel):
    """Wu et al., "Simplifying graph convolutional networks" (2019).

    Y = MLP(Ŝ^k X); with one layer the published Ŝ^k X W + b. The power is taken once, so training costs
    what the perceptron costs. `num_layers` counts its linear maps; `dropout` follows its hidden layers.

    Args:
        hops: the power k.
    """

    space: ClassVar[Options] = {"num_layers": [1, 2], "hops": [1, 2, 3, 4]}
    published: ClassVar[Options] = {"num_layers": 1, "hidden_channels": 64, "hops": 2}

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, hops: int = 2,
    ) -> None:  # fmt: skip
        super().__init__(dropout)
        require_at_least("hops", hops, 0)
        self.hops = hops
        sizes = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.mlp = models.MLP(sizes, dropout=dropout, norm=None)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        S = gcn_matrix(edge_index, x, edge_weight)
        return self.mlp([x, *once_per_features(powers, S, x, self.hops)][-1])


class MixHop(ZooModel):
    """Abu-El-Haija et al., "MixHop: higher-order graph convolutional architectures" (2019).

    H⁺ = dropout(ReLU(‖_{k=0…hops} Ŝ^k H W_k + b)); at last Y = H W + b.

    `num_layers` counts the layers before the last, linear one. `hidden_channels` is the width of every power;
    a layer has (hops + 1) times as many channels.

    Args:
        hops: the highest power.
    """

    space: ClassVar[Options] = {
        "num_layers": [1, 2, 3],
        "hidden_channels": [20, 32, 64],
        "hops": [1, 2, 3],
        "input_dropout": INPUT_DROPOUT,
    }
    published: ClassVar[Options] = {"num_layers": 2, "hidden_channels": 20, "hops": 2, "input_dropout": 0.0}

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, input_dropout: float = 0.0, hops: int = 2,
    ) -> None:  # fmt: skip
        super().__init__(dropout, input_dropout)
        require_at_least("hops", hops, 0)
        require_at_least("num_layers", num_layers, 1)
        width = (hops + 1) * hidden_channels
        sizes = [in_channels, *[width] * (num_layers - 1)]
        self.layers = nn.ModuleList(MixHopLayer(size, hidden_channels, hops) for size in sizes)
        self.output = nn.Linear(width, out_channels)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        S, (first, *others) = gcn_matrix(edge_index, x, edge_weight), self.layers
        products = self.feature_products(first.linears, x)
        h = self.drop(first.after_weights(products, S).relu())
        for layer in others:
            h = self.drop(layer(h, S).relu())
        return self.output(h)


class MixHopLayer(nn.Module):
    """‖_k S^k h W_k + b."""

    def __init__(self, in_channels: int, out_channels: int, hops: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.empty((hops + 1) * out_channels))
        self.linears = nn.ModuleList(Linear(in_channels, out_channels, bias=False) for _ in range(hops + 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in self.linears:
            linear.reset_parameters()  # type: ignore[operator]
        nn.init.zeros_(self.bias)

    def forward(self, h: Tensor, S: SparseMatrix) -> Tensor:
        parts = []
        for k, linear in enumerate(self.linears):
            h = S(h) if k else h
            parts.append(linear(h))
        return torch.cat(parts, -1) + self.bias

    def after_weights(self, products: Sequence[Tensor], S: SparseMatrix) -> Tensor:
        """From h W_k; each product with S takes all powers that are left."""
        first, *rest = products
        parts = [first]
        while rest:
            first, *rest = S(torch.cat(rest, -1)).split([z.size(-1) for z in rest], -1)
            parts.append(first)
        return torch.cat(parts, -1) + self.bias


class GCNII(ZooModel):
    """Chen et al., "Simple and deep graph convolutional networks" (2020).

    H⁰ = ReLU(X W₀ + b), H^ℓ = ReLU(((1−α) Ŝ H^{ℓ−1} + α H⁰) ((1−β_ℓ) I + β_ℓ W_ℓ)) with
    β_ℓ = log(θ/ℓ + 1), and Y = H^L W + b.

    `num_layers` is L, between the two linear maps; `dropout` comes before every map.

    Args:
        alpha: share α of the first representation, in [0, 1].
        theta: how much the maps may differ from the identity, positive; the paper's λ.
    """

    space: ClassVar[Options] = {"num_layers": [2, 8, 16], "alpha": [0.1, 0.2, 0.5], "theta": [0.5, 1.0, 1.5]}
    published: ClassVar[Options] = {"num_layers": 16, "hidden_channels": 64, "alpha": 0.1, "theta": 0.5}

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, alpha: float = 0.1, theta: float = 0.5,
    ) -> None:  # fmt: skip
        super().__init__(dropout)
        if not 0.0 <= alpha <= 1.0:
            raise ConfigError(f"alpha must lie in [0, 1]; got {alpha!r}.")
        if not theta > 0.0:
            raise ConfigError(f"theta must be positive; got {theta!r}.")
        self.alpha, self.theta = alpha, theta
        self.encoder = nn.Linear(in_channels, hidden_channels)
        self.weights = nn.ParameterList(
            torch.empty(hidden_channels, hidden_channels) for _ in range(num_layers)
        )
        self._reset_weights()
        self.decoder = nn.Linear(hidden_channels, out_channels)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        self.encoder.reset_parameters()
        self._reset_weights()
        self.decoder.reset_parameters()

    def _reset_weights(self) -> None:
        for W in self.weights:
            glorot(W)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        S = gcn_matrix(edge_index, x, edge_weight)
        h = start = encode_features(self.encoder, x, self.dropout, self.training).relu()
        for number, W in enumerate(self.weights, start=1):
            beta = math.log(self.theta / number + 1)
            z = (1 - self.alpha) * S(self.drop(h)) + self.alpha * start
            h = torch.addmm(z, z, W, beta=1 - beta, alpha=beta).relu()  # (1 − β) z + β z W
        return self.decoder(self.drop(h))


class ChebNet(ZooModel):
    """Defferrard, Bresson and Vandergheynst, "Convolutional neural networks on graphs …" (2016).

    H⁺ = dropout(ReLU(Σ_{k=0…K} T_k(𝓛 − I) H Θ_k + b)), the last layer without ReLU and dropout;
    𝓛 − I = −S is 2𝓛/λ_max − I for the bound λ_max = 2.

    Args:
        degree: K. PyG counts the K + 1 terms instead.
    """

    space: ClassVar[Options] = {
        "num_layers": CONVOLUTIONS,
        "degree": [1, 2, 3, 4],
        "input_dropout": INPUT_DROPOUT,
    }
    published: ClassVar[Options] = {"num_layers": 2, "hidden_channels": 32, "degree": 2, "input_dropout": 0.5}

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, input_dropout: float = 0.0, degree: int = 2,
    ) -> None:  # fmt: skip
        super().__init__(dropout, input_dropout)
        require_at_least("degree", degree, 0)
        require_at_least("num_layers", num_layers, 1)
        sizes = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.layers = nn.ModuleList(ChebLayer(a, b, degree) for a, b in pairwise(sizes))

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        S, (first, *others) = symmetric_matrix(edge_index, x, edge_weight), self.layers
        h = first.after_weights(self.feature_products(first.linears, x), S)
        for layer in others:
            h = layer(self.drop(h.relu()), S)
        return h


class ChebLayer(nn.Module):
    """Σ_k T_k(−S) h Θ_k + b."""

    def __init__(self, in_channels: int, out_channels: int, degree: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.empty(out_channels))
        self.linears = nn.ModuleList(
            Linear(in_channels, out_channels, bias=False, weight_initializer="glorot")
            for _ in range(degree + 1)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in self.linears:
            linear.reset_parameters()  # type: ignore[operator]
        nn.init.zeros_(self.bias)

    def forward(self, h: Tensor, S: SparseMatrix) -> Tensor:
        return self.after_weights([linear(h) for linear in self.linears], S)

    def after_weights(self, products: Sequence[Tensor], S: SparseMatrix) -> Tensor:
        """From z_k = h Θ_k, by Clenshaw's recurrence b_k = z_k − 2 S b_{k+1} − b_{k+2}.

        It takes as many products with S as T_k(−S) h would, but of output channels instead of features.
        """
        if len(products) == 1:
            return products[0] + self.bias
        first, *rest, b = products
        after = torch.zeros_like(b)
        for z in reversed(rest):
            b, after = z - 2 * S(b) - after, b
        return first - S(b) - after + self.bias
