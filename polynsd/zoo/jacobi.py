"""JacobiConv: a filter in Jacobi's basis for every class."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from polynsd.errors import ConfigError
from polynsd.spectral.bases import jacobi
from polynsd.zoo.operators import symmetric_matrix
from polynsd.zoo.series import FilteredMLP


class JacobiConv(FilteredMLP):
    """Spectral filters without non-linearity (Wang and Zhang, 2022), orthogonal under (1 − ξ)^a (1 + ξ)^b.

        out = Σ_k ρ_k w_k ⊙ P_k^{a,b}(S) MLP(X),   ρ_k = Π_{j ≤ k} α tanh(η_j),   S = D^{−1/2} A D^{−1/2}

    Each class has coefficients w `[K + 1, C]` of its own, first 1; the common factors ρ shrink or grow from
    degree to degree (polynomial coefficient decomposition).

    Args:
        in_channels: features per node, or -1 to infer them at the first call.
        hidden_channels: width of the MLP.
        num_layers: its linear layers; published is 1, a linear model.
        out_channels: classes.
        dropout: before every linear layer.
        filter_dropout: before the filter.
        degree: K ≥ 1, the number of hops.
        alpha: α > 0, the bound of the factor between two degrees.
        a: exponent at ξ = 1, where the smooth signals are; more than −1, like
        b: the exponent at ξ = −1.
    """

    space: ClassVar[dict[str, Any]] = {
        **FilteredMLP.space,
        "num_layers": [1, 2],
        "alpha": [0.5, 1.0, 1.5, 2.0],
        "a": {"low": -0.5, "high": 2.0},
        "b": {"low": -0.5, "high": 2.0},
    }
    published: ClassVar[dict[str, Any]] = {
        **FilteredMLP.published,
        "num_layers": 1,
        "alpha": 1.0,
        "a": 1.0,
        "b": 1.0,
    }

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        filter_dropout: float = 0.5,
        degree: int = 10,
        alpha: float = 1.0,
        a: float = 1.0,
        b: float = 1.0,
    ) -> None:
        sizes = in_channels, hidden_channels, num_layers, out_channels
        super().__init__(*sizes, dropout=dropout, filter_dropout=filter_dropout, degree=degree)
        if not alpha > 0:
            raise ConfigError(f"alpha must be positive; got {alpha!r}.")
        self.alpha, self.basis = alpha, jacobi(a, b).raw()
        self.theta = nn.Parameter(torch.empty(degree + 1, out_channels))  # w
        self.eta = nn.Parameter(torch.empty(degree))
        self.reset_filter()

    def reset_filter(self) -> None:
        """All w are 1, all η are min(1 / α, 1)."""
        nn.init.ones_(self.theta)
        nn.init.constant_(self.eta, min(1 / self.alpha, 1.0))

    def sheaf_parameters(self) -> list[nn.Parameter]:
        """The coefficients of the filter, which have a weight decay of their own."""
        return [self.theta, self.eta]

    def filtered(self, z: Tensor, edge_index: Any, like: Tensor) -> Tensor:
        """Σ_k ρ_k w_k ⊙ P_k(S) z."""
        S = symmetric_matrix(edge_index, z.size(0), like)
        factors = self.alpha * self.eta.tanh()
        rho = accumulate(factors.unbind(), torch.mul, initial=torch.ones_like(self.eta[0]))
        polynomials = self.basis.polynomials(lambda p: S(p), z, self.degree)
        terms = zip(rho, self.theta, polynomials, strict=True)
        return torch.stack([r * w * p for r, w, p in terms]).sum(0)
