"""Models made for heterophily: H2GCN, FSGNN, GloGNN. (FAGCN and GGCN are in `attention`.)

S = D^{−1/2} A D^{−1/2} is `symmetric_matrix`, Ŝ = D̃^{−1/2} (A + I) D̃^{−1/2} is `gcn_matrix`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn.dense import Linear

from polynsd.errors import ConfigError, ShapeError, require_at_least, require_choice, require_fraction
from polynsd.nn.features import encode_features
from polynsd.nn.inputs import check_features, linear
from polynsd.nn.precision import in_full_precision
from polynsd.zoo.layers import Options, ZooModel, set_inputs
from polynsd.zoo.matrices import (
    SparseMatrix,
    adjacency_matrix,
    gcn_matrix,
    once_per_features,
    powers,
    refuse_weights,
    symmetric_matrix,
    two_hop_matrix,
)


class H2GCN(ZooModel):
    """Zhu et al., "Beyond homophily" (2020); L rounds without weights, whose widths double.

        H⁰ = ReLU(X W),   H^ℓ = [Ā₁ H^{ℓ−1} ‖ Ā₂ H^{ℓ−1}],   out = dropout([H⁰ ‖ … ‖ H^L]) W_c,

    with Ā_i the symmetrically normalised graph of the nodes at distance exactly i.

    `hidden_channels` is the width of H⁰, `num_layers` L ≥ 1, published are 1 and 2.

    Args:
        hops: 2, or 1 to leave out the nodes at distance two.
    """

    space: ClassVar[Options] = {"num_layers": [1, 2], "hops": [1, 2]}
    published: ClassVar[Options] = {"num_layers": 2, "hidden_channels": 64, "hops": 2}

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, hops: int = 2,
    ) -> None:  # fmt: skip
        super().__init__(dropout)
        require_at_least("num_layers", num_layers, 1)
        require_choice("hops", str(hops), ("1", "2"))
        self.in_channels, self.num_layers, self.hops = in_channels, num_layers, hops
        self.encoder = linear(in_channels, hidden_channels)
        self.decoder = linear(hidden_channels * sum(hops**k for k in range(num_layers + 1)), out_channels)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        refuse_weights("H2GCN", edge_weight)
        check_features(self, x)
        matrices = [matrix(edge_index, x) for matrix in (symmetric_matrix, two_hop_matrix)[: self.hops]]
        rounds = [encode_features(self.encoder, x, 0.0, self.training).relu()]
        for _ in range(self.num_layers):
            rounds.append(torch.cat([S(rounds[-1]) for S in matrices], -1))
        return self.decoder(self.drop(torch.cat(rounds, -1)))


class FSGNN(ZooModel):
    """Feature selection (Maurya et al., 2021) among the 2K + 1 matrices X_m ∈ {X, S^k X, Ŝ^k X : k = 1 … K}.

        out = W dropout(ReLU(‖_m softmax(a)_m · X_m W_m)),   the rows of X_m W_m scaled to length one

    S is the normalised graph without, Ŝ with self-loops.

    `hidden_channels` is the width of every X_m W_m, `num_layers` K ≥ 1, published are 3 and 8.

    Args:
        unit_rows: scale the rows.
    """

    space: ClassVar[Options] = {"num_layers": [2, 3, 8], "unit_rows": [True, False]}
    published: ClassVar[Options] = {"num_layers": 3, "hidden_channels": 64, "unit_rows": True}

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, unit_rows: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(dropout)
        require_at_least("num_layers", num_layers, 1)
        self.in_channels, self.num_layers, self.unit_rows = in_channels, num_layers, unit_rows
        count = 2 * num_layers + 1
        self.encoders = nn.ModuleList(linear(in_channels, hidden_channels) for _ in range(count))
        self.attention = nn.Parameter(torch.ones(count))
        self.decoder = linear(count * hidden_channels, out_channels)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        super().reset_parameters()
        nn.init.ones_(self.attention)

    def sheaf_parameters(self) -> list[nn.Parameter]:
        """The weights of the matrices, which have a weight decay of their own."""
        return [self.attention]

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        refuse_weights("FSGNN", edge_weight)
        check_features(self, x)
        inputs = (x, *hop_features(x, edge_index, self.num_layers))
        parts = [
            encode_features(layer, X, 0.0, False) for layer, X in zip(self.encoders, inputs, strict=True)
        ]
        if self.unit_rows:
            parts = [functional.normalize(part, dim=-1) for part in parts]
        weighted = [share * part for share, part in zip(self.attention.softmax(-1), parts, strict=True)]
        return self.decoder(self.drop(torch.cat(weighted, -1).relu()))


def hop_features(x: Tensor, edge_index: Any, count: int) -> list[Tensor]:
    """S X, …, S^K X, Ŝ X, …, Ŝ^K X, found once for features that are not learned."""
    matrices = symmetric_matrix(edge_index, x), gcn_matrix(edge_index, x)
    return [power for S in matrices for power in once_per_features(powers, S, x, count)]


class GloGNN(ZooModel):
    """Global homophily (Li et al., 2022): H⁺ = (1 − γ) Z* H + γ H⁰ with a coefficient per pair of nodes,

        Z* = argmin ‖H − (1 − γ) Z H − γ H⁰‖² + β₁ ‖Z‖² + β₂ ‖Z − P‖²,   P = Σ_{k=1..K} λ_k Ŝ^k.

    Setting the gradient to zero, and (β I + c² H Hᵀ)^{−1} H = H (β I + c² Hᵀ H)^{−1}, leaves C × C matrices:

        Z* H = (c (H − γ H⁰) Hᵀ H + β₂ P H) (β I + c² Hᵀ H)^{−1},   c = 1 − γ,   β = β₁ + β₂.

    H⁰ = MLP(δ X W_1 + (1 − δ) A W_2), where W_2 has a row per node: the model belongs to one graph.

    `hidden_channels` is the width of the MLP, which has two hidden layers. `num_layers` says how often H⁺ is
    found. `dropout` is that of the features and behind both hidden layers.

    Args:
        beta1: β₁ ≥ 0, and
        beta2: β₂ ≥ 0, not both zero.
        gamma: γ, 0 ≤ γ < 1.
        delta: δ, how much features count beside neighbours.
        degree: K ≥ 1.
    """

    space: ClassVar[Options] = {
        "num_layers": [1, 2, 3],
        "beta1": [0.0, 1.0, 10.0],
        "beta2": [0.1, 1.0, 10.0, 100.0, 1000.0],
        "gamma": {"low": 0.0, "high": 0.9},
        "delta": {"low": 0.0, "high": 1.0},
        "degree": [1, 2, 3, 4, 5, 6],
    }
    published: ClassVar[Options] = {
        "num_layers": 2,
        "hidden_channels": 64,
        "beta1": 1.0,
        "beta2": 1.0,
        "gamma": 0.5,
        "delta": 0.5,
        "degree": 3,
    }

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, beta1: float = 1.0, beta2: float = 1.0, gamma: float = 0.5,
        delta: float = 0.5, degree: int = 3,
    ) -> None:  # fmt: skip
        super().__init__(dropout)
        require_at_least("num_layers", num_layers, 1)
        require_at_least("degree", degree, 1)
        require_fraction("gamma", gamma)
        if min(beta1, beta2) < 0 or beta1 + beta2 <= 0:
            raise ConfigError(f"beta1 and beta2 must be ≥ 0, one of them > 0; got {beta1} and {beta2}.")
        self.in_channels, self.num_layers = in_channels, num_layers
        self.beta1, self.beta2, self.gamma, self.delta = beta1, beta2, gamma, delta
        self.encoder = linear(in_channels, hidden_channels)
        self.neighbours = Linear(-1, hidden_channels, bias=False)  # as many inputs as there are nodes
        self.hidden = linear(hidden_channels, hidden_channels)
        self.decoder = linear(hidden_channels, out_channels)
        self.powers = nn.Parameter(torch.full((degree,), 1 / degree))  # λ

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        super().reset_parameters()
        nn.init.constant_(self.powers, 1 / self.powers.numel())

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        refuse_weights("GloGNN", edge_weight)
        check_features(self, x)
        start = H = self.encode(x, adjacency_matrix(edge_index, x))
        for _ in range(self.num_layers):
            H = self.mix(H, start, gcn_matrix(edge_index, x))
        return H

    def encode(self, x: Tensor, A: SparseMatrix) -> Tensor:
        """The first representation H⁰ `[N, C]`."""
        own = encode_features(self.encoder, x, self.dropout, self.training)
        h = self.delta * own + (1 - self.delta) * A(self._node_weights(x).mT)
        h = self.drop(self.hidden(self.drop(h.relu())).relu())
        return self.decoder(h)

    def _node_weights(self, x: Tensor) -> Tensor:
        """W_2ᵀ `[hidden, N]`; N is inferred at the first call."""
        set_inputs(self.neighbours, x.size(0))
        if self.neighbours.in_channels != x.size(0):
            raise ShapeError(
                f"this GloGNN has a weight for each of {self.neighbours.in_channels} nodes; the features "
                f"have {x.size(0)} rows. Build a new one for another graph."
            )
        return self.neighbours.weight

    @in_full_precision
    def mix(self, H: Tensor, start: Tensor, S: SparseMatrix) -> Tensor:
        """H⁺; the C × C matrix is inverted in float64."""
        c, gram = 1 - self.gamma, H.mT @ H
        eye = torch.eye(H.size(1), dtype=torch.double, device=H.device)
        inverse = invert((self.beta1 + self.beta2) * eye + c**2 * gram.double()).to(H.dtype)
        near, power = torch.zeros_like(H), H
        for weight in self.powers:
            power = S(power)
            near = near + weight * power
        far = c * (H - self.gamma * start) @ gram
        return c * (far + self.beta2 * near) @ inverse + self.gamma * start


def invert(M: Tensor) -> Tensor:
    """The inverse of a positive definite matrix, by Gauss and Jordan.

    The libraries for this make the host wait for the GPU, which CUDA graph capture does not allow. With ones
    on the diagonal no pivots are needed. The last line, a Newton step, carries the gradient.
    """
    eye = torch.eye(M.size(-1), dtype=M.dtype, device=M.device)
    scale = M.detach().diagonal().rsqrt()
    X = scale[:, None] * M.detach() * scale
    for k, unit in enumerate(eye):  # exchanges coordinate k of the input with that of the output
        X = X - torch.outer(X[:, k] - unit, X[k] + unit) / X[k, k]
    X = scale[:, None] * X * scale
    return X @ (2 * eye - M @ X)
