"""GloGNN: every node may listen to every other, in linear time."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from polynsd.errors import ConfigError, ShapeError, require_at_least, require_fraction
from polynsd.nn.features import encode_features
from polynsd.nn.inputs import check_features, linear
from polynsd.nn.precision import in_full_precision
from polynsd.zoo.operators import Propagation, adjacency_matrix, gcn_matrix, no_weights


class GloGNN(nn.Module):
    """Global homophily (Li et al., 2022): H⁺ = (1 − γ) Z* H + γ H⁰ with a coefficient per pair of nodes,

        Z* = argmin ‖H − (1 − γ) Z H − γ H⁰‖² + β₁ ‖Z‖² + β₂ ‖Z − P‖²,   P = Σ_{k=1..K} λ_k Ŝ^k.

    Setting the gradient to zero, and (β I + c² H Hᵀ)^{−1} H = H (β I + c² Hᵀ H)^{−1}, leaves C × C matrices:

        Z* H = (c (H − γ H⁰) Hᵀ H + β₂ P H) (β I + c² Hᵀ H)^{−1},   c = 1 − γ,   β = β₁ + β₂.

    H⁰ = MLP(δ X W_1 + (1 − δ) A W_2), where W_2 has a row per node: the model belongs to one graph.

    Args:
        in_channels: features per node, or -1 to infer them at the first call.
        hidden_channels: width of the MLP, which has two hidden layers.
        num_layers: L ≥ 1, how often H⁺ is found.
        out_channels: classes C.
        dropout: of the features and behind both hidden layers.
        beta1: β₁ ≥ 0, and
        beta2: β₂ ≥ 0, not both zero.
        gamma: γ, 0 ≤ γ < 1.
        delta: δ, how much features count beside neighbours.
        degree: K ≥ 1.
    """

    space: ClassVar[dict[str, Any]] = {
        "num_layers": [1, 2, 3],
        "beta1": [0.0, 1.0, 10.0],
        "beta2": [0.1, 1.0, 10.0, 100.0, 1000.0],
        "gamma": {"low": 0.0, "high": 0.9},
        "delta": {"low": 0.0, "high": 1.0},
        "degree": [1, 2, 3, 4, 5, 6],
    }
    published: ClassVar[dict[str, Any]] = {
        "num_layers": 2,
        "hidden_channels": 64,
        "beta1": 1.0,
        "beta2": 1.0,
        "gamma": 0.5,
        "delta": 0.5,
        "degree": 3,
    }

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        beta1: float = 1.0,
        beta2: float = 1.0,
        gamma: float = 0.5,
        delta: float = 0.5,
        degree: int = 3,
    ) -> None:
        super().__init__()
        from torch_geometric.nn.dense import Linear

        require_at_least("num_layers", num_layers, 1)
        require_at_least("degree", degree, 1)
        require_fraction("gamma", gamma)
        if min(beta1, beta2) < 0 or beta1 + beta2 <= 0:
            raise ConfigError(f"beta1 and beta2 must be ≥ 0, one of them > 0; got {beta1} and {beta2}.")
        self.in_channels, self.num_layers, self.dropout = in_channels, num_layers, dropout
        self.beta1, self.beta2, self.gamma, self.delta = beta1, beta2, gamma, delta
        self.encoder = linear(in_channels, hidden_channels)
        self.neighbours = Linear(-1, hidden_channels, bias=False)  # as many inputs as there are nodes
        self.hidden = linear(hidden_channels, hidden_channels)
        self.decoder = linear(hidden_channels, out_channels)
        self.powers = nn.Parameter(torch.empty(degree))  # λ
        self.reset_powers()

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for layer in (self.encoder, self.neighbours, self.hidden, self.decoder):
            layer.reset_parameters()  # type: ignore[operator]
        self.reset_powers()

    def reset_powers(self) -> None:
        """λ_k = 1 / K."""
        nn.init.constant_(self.powers, 1 / self.powers.numel())

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        no_weights("GloGNN", edge_weight)
        check_features(x, self.in_channels)
        start = H = self.encode(x, adjacency_matrix(edge_index, x.size(0), x))
        for _ in range(self.num_layers):
            H = self.mixed(H, start, gcn_matrix(edge_index, x.size(0), x))
        return H

    def encode(self, x: Tensor, A: Propagation) -> Tensor:
        """H⁰ `[N, C]`."""
        own = encode_features(self.encoder, x, self.dropout, self.training)
        h = self.delta * own + (1 - self.delta) * A(self._rows(x).mT)
        h = functional.dropout(h.relu(), self.dropout, self.training)
        h = functional.dropout(self.hidden(h).relu(), self.dropout, self.training)
        return self.decoder(h)

    def _rows(self, x: Tensor) -> Tensor:
        """W_2ᵀ `[hidden, N]`; N is inferred at the first call."""
        if self.neighbours.in_channels < 0:
            self.neighbours.initialize_parameters(self.neighbours, (x.mT,))
        if self.neighbours.in_channels != x.size(0):
            raise ShapeError(
                f"this GloGNN has a weight for each of {self.neighbours.in_channels} nodes; the features "
                f"have {x.size(0)} rows. Build a new one for another graph."
            )
        return self.neighbours.weight

    @in_full_precision
    def mixed(self, H: Tensor, start: Tensor, S: Propagation) -> Tensor:
        """H⁺; the C × C matrix is inverted in float64."""
        c, gram = 1 - self.gamma, H.mT @ H
        eye = torch.eye(H.size(1), dtype=torch.double, device=H.device)
        inverse = inverted((self.beta1 + self.beta2) * eye + c**2 * gram.double()).to(H.dtype)
        near, power = torch.zeros_like(H), H
        for weight in self.powers:
            power = S(power)
            near = near + weight * power
        far = c * (H - self.gamma * start) @ gram
        return c * (far + self.beta2 * near) @ inverse + self.gamma * start


def inverted(M: Tensor) -> Tensor:
    """The inverse of a positive definite matrix, by Gauss and Jordan.

    A GPU's libraries for this make the host wait, which no recording of a training step admits. With ones on
    the diagonal there is no need of pivots. The last line, a step of Newton's, brings the gradient.
    """
    eye = torch.eye(M.size(-1), dtype=M.dtype, device=M.device)
    scale = M.detach().diagonal().rsqrt()
    X = scale[:, None] * M.detach() * scale
    for k, unit in enumerate(eye):  # exchanges coordinate k of the input with that of the output
        X = X - torch.outer(X[:, k] - unit, X[k] + unit) / X[k, k]
    X = scale[:, None] * X * scale
    return X @ (2 * eye - M @ X)
