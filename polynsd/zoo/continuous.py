"""Graph networks in continuous time: GRAND (Chamberlain et al., 2021) and CGNN (Xhonneux et al., 2020).

    x(0) = dropout(W₁ dropout(features)),   ẋ = f(x) for 0 ≤ t ≤ T,   logits = W₂ dropout(ReLU(x(T)))

They differ in f. Several layers run one after the other, each with its own parameters and x(0).
Solvers and gradients are those of `SheafODE` (polynsd/nn/integration.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from polynsd.config import ODEConfig
from polynsd.errors import require_at_least
from polynsd.kernels.ops.edges import at_columns, at_rows, sum_at_nodes
from polynsd.nn.features import encode_features
from polynsd.nn.inputs import check_features, linear
from polynsd.nn.integration import Inputs, integrate
from polynsd.sheaf.orthogonal import cayley
from polynsd.zoo.layers import INPUT_DROPOUT, Options, ZooModel
from polynsd.zoo.matrices import refuse_weights, symmetric_matrix
from polynsd.zoo.neighbours import Neighbourhood, neighbours_and_self, require_heads, softmax

TIMES: Options = {"num_layers": [1, 2], "horizon": [0.5, 1.0, 2.0, 4.0], "steps": [1, 2, 4, 8]}
PUBLISHED: Options = {"num_layers": 1, "hidden_channels": 64, "horizon": 4.0, "steps": 4}
BELOW_ONE = 1 - 1e-6  # the greatest eigenvalue of CGNN's W


class ContinuousModel(ZooModel):
    """Encoder, `num_layers` fields that each run over a time T, decoder.

    Args:
        sizes: features, hidden channels, layers, outputs.
        dropout: of what is before and after the flow.
        input_dropout: of the features.
        ode: how the fields are integrated.
        make_field: hidden channels → a module with `run(x, edge_index, ode)`.
    """

    def __init__(
        self,
        sizes: tuple[int, int, int, int],
        dropout: float,
        input_dropout: float,
        ode: ODEConfig,
        make_field: Callable[[int], nn.Module],
    ) -> None:
        super().__init__(dropout, input_dropout)
        in_channels, hidden_channels, num_layers, out_channels = sizes
        require_at_least("num_layers", num_layers, 1)
        self.in_channels, self.ode = in_channels, ode
        self.encoder = linear(in_channels, hidden_channels)
        self.layers = nn.ModuleList(make_field(hidden_channels) for _ in range(num_layers))
        self.decoder = linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        refuse_weights(type(self).__name__, edge_weight)
        check_features(self, x)
        x = self.drop(encode_features(self.encoder, x, self.input_dropout, self.training))
        for field in self.layers:
            x = field.run(x, edge_index, self.ode)
        return self.decoder(self.drop(x.relu()))


class GRAND(ContinuousModel):
    """Graph neural diffusion: ẋ = (A − I) x with attention A over neighbours and the node itself.

    A_ij is the mean over heads of softmax_j (W_q x_i · W_k x_j / √d), so A is row-stochastic: that of x(0) at
    all times (linear), or that of x(t).

    Args:
        horizon: T.
        solver: as of `SheafODE`.
        steps: of solvers with fixed steps.
        heads: of the attention.
        nonlinear: whether A follows the state.
    """

    space: ClassVar[Options] = {**TIMES, "heads": [1, 4], "input_dropout": INPUT_DROPOUT}
    published: ClassVar[Options] = {**PUBLISHED, "heads": 4, "input_dropout": 0.5}

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, input_dropout: float = 0.0, horizon: float = 1.0, solver: str = "rk4",
        steps: int = 4, heads: int = 4, nonlinear: bool = False,
    ) -> None:  # fmt: skip
        require_heads(hidden_channels, heads)
        sizes = in_channels, hidden_channels, num_layers, out_channels
        ode = ODEConfig(horizon, solver, steps)
        make_field = partial(AttentionDiffusion, heads=heads, nonlinear=nonlinear)
        super().__init__(sizes, dropout, input_dropout, ode, make_field)


class AttentionDiffusion(nn.Module):
    """ẋ = (A − I) x."""

    def __init__(self, channels: int, heads: int, nonlinear: bool) -> None:
        super().__init__()
        self.heads, self.nonlinear = heads, nonlinear
        self.query, self.key = nn.Linear(channels, channels), nn.Linear(channels, channels)

    def run(self, x: Tensor, edge_index: Any, ode: ODEConfig) -> Tensor:
        near = neighbours_and_self(edge_index, x)

        def derivative(x: Tensor, inputs: Inputs) -> Tensor:
            attention = inputs["attention"] if "attention" in inputs else self.attention(x, near)
            return sum_at_nodes(attention * at_columns(x, near.pattern, -2), near.pattern, -2) - x

        inputs = {} if self.nonlinear else {"attention": self.attention(x, near)}
        return integrate(self, derivative, x, inputs, ode)

    def attention(self, x: Tensor, near: Neighbourhood) -> Tensor:
        """A_ij `[pairs, 1]`."""
        q, k = (linear(x).unflatten(-1, (self.heads, -1)) for linear in (self.query, self.key))
        scores = (at_rows(q, near.pattern) * at_columns(k, near.pattern)).sum(-1) * q.size(-1) ** -0.5
        return softmax(scores, near).mean(-1, keepdim=True)


class CGNN(ContinuousModel):
    """Continuous graph neural network: ẋ = (A − I) x + x (W − I) + x(0).

    A = (α/2) (I + D^{−1/2} A D^{−1/2}) with α learned in (0, 1); W = U diag(m) Uᵀ with U orthogonal and m
    clipped to [0, 1).

    Args:
        horizon: T.
        solver: as of `SheafODE`.
        steps: of solvers with fixed steps.
    """

    space: ClassVar[Options] = {**TIMES, "input_dropout": INPUT_DROPOUT}
    published: ClassVar[Options] = {**PUBLISHED, "input_dropout": 0.5}

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, input_dropout: float = 0.0, horizon: float = 1.0, solver: str = "rk4",
        steps: int = 4,
    ) -> None:  # fmt: skip
        sizes = in_channels, hidden_channels, num_layers, out_channels
        ode = ODEConfig(horizon, solver, steps)
        super().__init__(sizes, dropout, input_dropout, ode, RestartedDiffusion)


class RestartedDiffusion(nn.Module):
    """ẋ = (A − I) x + x (W − I) + x(0)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.empty(()))  # before the sigmoid
        self.eigenvalues = nn.Parameter(torch.empty(channels))  # m
        self.rotation = nn.Parameter(torch.empty(channels * (channels - 1) // 2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """α = 0.95 as published; m and U random, because where all m are equal U does nothing."""
        nn.init.constant_(self.alpha, 2.944)  # log(0.95 / 0.05)
        nn.init.uniform_(self.eigenvalues, 0.0, 1.0)
        nn.init.normal_(self.rotation, std=0.1)

    def run(self, x: Tensor, edge_index: Any, ode: ODEConfig) -> Tensor:
        S = symmetric_matrix(edge_index, x)

        def derivative(x: Tensor, inputs: Inputs) -> Tensor:
            return self.alpha.sigmoid() / 2 * (x + S(x)) + x @ inputs["W"] - 2 * x + inputs["start"]

        return integrate(self, derivative, x, {"W": self.channel_matrix(), "start": x}, ode)

    def channel_matrix(self) -> Tensor:
        """W = U diag(m) Uᵀ."""
        U = cayley(self.rotation, len(self.eigenvalues))
        return U * self.eigenvalues.clamp(0.0, BELOW_ONE) @ U.mT
