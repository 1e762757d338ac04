"""Spectral models: an MLP, then a learned filter of the graph, out = p(M) MLP(X).

| model       | p                                           | M                          |
|-------------|---------------------------------------------|----------------------------|
| `GPRGNN`    | Σ_k γ_k M^k                                 | Ŝ, the matrix of GCN       |
| `BernNet`   | Bernstein polynomials                       | 𝓛 − I                      |
| `ChebNetII` | Chebyshev interpolation                     | 𝓛 − I                      |
| `JacobiConv`| Jacobi polynomials, one filter per class    | S = I − 𝓛                  |

𝓛 = I − D^{−1/2} A D^{−1/2}. The first three are added up as a Chebyshev series first: K products with the
graph, by a kernel whose memory does not grow with K. (ChebNet, with weights per degree, is in `multihop`.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import binom
from torch import Tensor, nn
from torch.nn import functional

from polynsd import kernels
from polynsd.errors import ConfigError, require_at_least, require_fraction
from polynsd.kernels import BlockOperator
from polynsd.nn.features import encode_features
from polynsd.nn.inputs import check_features, linear
from polynsd.spectral.bases import jacobi
from polynsd.topology import Topology
from polynsd.zoo.layers import PERCEPTRON, Options, ZooModel
from polynsd.zoo.matrices import once_per_graph, refuse_weights, symmetric_matrix, symmetric_weights

Values = Callable[[NDArray[np.float64], int], NDArray[np.float64]]


class FilteredMLP(ZooModel):
    """Features, an MLP, then a filter: out = p(M) MLP(X), p of degree K with coefficients of its own.

    `hidden_channels` and `num_layers` are the width and the linear layers of the MLP; one makes the model
    linear. `dropout` comes before every linear layer.

    Args:
        filter_dropout: before the filter.
        degree: K ≥ 1, the number of hops.
    """

    space: ClassVar[Options] = {"num_layers": PERCEPTRON, "filter_dropout": [0.0, 0.2, 0.5, 0.8]}
    published: ClassVar[Options] = {
        "num_layers": 2,
        "hidden_channels": 64,
        "filter_dropout": 0.5,
        "degree": 10,
    }

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, filter_dropout: float = 0.5, degree: int = 10,
    ) -> None:  # fmt: skip
        super().__init__(dropout)
        require_at_least("num_layers", num_layers, 1)
        require_at_least("degree", degree, 1)
        require_fraction("filter_dropout", filter_dropout)
        self.in_channels, self.degree, self.filter_dropout = in_channels, degree, filter_dropout
        sizes = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.layers = nn.ModuleList(linear(a, b) for a, b in pairwise(sizes))
        self.theta = nn.Parameter(torch.ones(degree + 1))

    def reset_parameters(self) -> None:
        """Draws all parameters anew; the filter takes its published start values."""
        super().reset_parameters()
        self.reset_filter()

    def reset_filter(self) -> None:
        """All coefficients are 1 at first."""
        nn.init.ones_(self.theta)

    def sheaf_parameters(self) -> list[nn.Parameter]:
        """The coefficients of the filter, which have a weight decay of their own."""
        return [self.theta]

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        refuse_weights(type(self).__name__, edge_weight)
        check_features(self, x)
        z = functional.dropout(self.encode(x), self.filter_dropout, self.training)
        return self.filter(z, edge_index, x)

    def encode(self, x: Tensor) -> Tensor:
        first, *others = self.layers
        z = encode_features(first, x, self.dropout, self.training)
        for layer in others:
            z = layer(self.drop(z.relu()))
        return z

    def filter(self, z: Tensor, edge_index: Any, x: Tensor) -> Tensor:
        """p(M) z for a signal z `[N, out_channels]`; x are the features."""
        raise NotImplementedError


class SeriesNet(FilteredMLP):
    """A filter p = Σ_k w_k B_k of one matrix M with spectrum in [−1, 1], the same for all classes.

    Whatever the B_k are, p is added up as a Chebyshev series first: K products with the graph, by a kernel
    whose memory does not grow with K.

    Where M = 𝓛 − I, an isolated node has 𝓛_vv = 1, as in the published code: it gets p at the eigenvalue 1
    times its own row, whereas `poly-spectral` has L_vv = 0 and p at the eigenvalue 0 there.
    """

    def filter(self, z: Tensor, edge_index: Any, x: Tensor) -> Tensor:
        """Σ_k φ_k T_k(M) z."""
        A = self.shifted_matrix(edge_index, x)
        return kernels.chebyshev_filter(A, self.chebyshev_coefficients(), z.unsqueeze(-2), 1.0).squeeze(-2)

    def chebyshev_coefficients(self) -> Tensor:
        """φ `[K + 1]` with p = Σ_k φ_k T_k; not a product of matrices, which autocast would round."""
        table = to_chebyshev(self.basis, self.degree, self.theta.dtype, self.theta.device)
        return (table * self.weights()).sum(-1)

    def weights(self) -> Tensor:
        """The w_k, not negative."""
        return self.theta.relu()

    def shifted_matrix(self, edge_index: Any, x: Tensor) -> BlockOperator:
        """I + M; here M = 𝓛 − I, where 𝓛 = I − D^{−1/2} A D^{−1/2}."""
        return laplacian(edge_index, x)

    @staticmethod
    def basis(xi: NDArray[np.float64], degree: int) -> NDArray[np.float64]:
        """B_k(ξ_j) `[nodes, K + 1]`."""
        raise NotImplementedError


class GPRGNN(SeriesNet):
    """Generalised PageRank (Chien et al., 2021): out = Σ_k γ_k Ŝ^k MLP(X).

    The first γ are those of personalised PageRank, α (1 − α)^k, and (1 − α)^K for the last. Ŝ is the matrix
    of GCN, with self-loops.

    The other arguments are those of `FilteredMLP`; published are 2 layers.

    Args:
        alpha: chance to return to the start, 0 ≤ α < 1.
    """

    space: ClassVar[Options] = {**FilteredMLP.space, "alpha": [0.1, 0.2, 0.5, 0.9]}
    published: ClassVar[Options] = {**FilteredMLP.published, "alpha": 0.1}

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, filter_dropout: float = 0.5, degree: int = 10, alpha: float = 0.1,
    ) -> None:  # fmt: skip
        sizes = in_channels, hidden_channels, num_layers, out_channels
        super().__init__(*sizes, dropout=dropout, filter_dropout=filter_dropout, degree=degree)
        require_fraction("alpha", alpha)
        self.alpha = alpha
        self.reset_filter()

    def reset_filter(self) -> None:
        """γ_k = α (1 − α)^k, γ_K = (1 − α)^K."""
        steps = torch.arange(self.degree + 1, dtype=self.theta.dtype, device=self.theta.device)
        with torch.no_grad():
            self.theta.copy_((1 - self.alpha) ** steps)
            self.theta[:-1] *= self.alpha

    def weights(self) -> Tensor:
        """γ, of any sign."""
        return self.theta

    def shifted_matrix(self, edge_index: Any, x: Tensor) -> BlockOperator:
        return shifted_gcn(edge_index, x)

    @staticmethod
    def basis(xi: NDArray[np.float64], degree: int) -> NDArray[np.float64]:
        return np.vander(xi, degree + 1, increasing=True)


class BernNet(SeriesNet):
    """Bernstein filters (He et al., 2021).

        out = Σ_k relu(θ_k) 2^{−K} (K over k) (2I − 𝓛)^{K−k} 𝓛^k MLP(X)

    The basis adds up to one, so that θ = 1, the start, is the identity. As published it takes K (K + 3) / 2
    products with the graph; as a Chebyshev series it takes K. The arguments are those of `FilteredMLP`;
    published are 2 layers. Isolated nodes: see `SeriesNet`.
    """

    @staticmethod
    def basis(xi: NDArray[np.float64], degree: int) -> NDArray[np.float64]:
        """With 𝓛 = I + M: binom(K, k) ((1 − ξ) / 2)^{K−k} ((1 + ξ) / 2)^k."""
        k, high = np.arange(degree + 1), (1 + xi[:, None]) / 2
        return np.asarray(binom(degree, k) * (1 - high) ** (degree - k) * high**k)


class ChebNetII(SeriesNet):
    """Chebyshev interpolation (He et al., 2022): out = Σ_k c_k T_k(𝓛 − I) MLP(X).

        c_k = (2 / (K + 1)) Σ_j relu(γ_j) T_k(ξ_j), half of it for k = 0,  ξ_j = cos((K − j + ½) π / (K + 1)),

    so that the filter has the value relu(γ_j) at the eigenvalue 1 + ξ_j of 𝓛. It starts as the identity. The
    arguments are those of `FilteredMLP`; published are 2 layers. Isolated nodes: see `SeriesNet`.
    """

    @staticmethod
    def basis(xi: NDArray[np.float64], degree: int) -> NDArray[np.float64]:
        """B_k is the polynomial with the value 1 at node k and 0 at the others."""
        return np.eye(degree + 1)


class JacobiConv(FilteredMLP):
    """Spectral filters without non-linearity (Wang and Zhang, 2022), orthogonal under (1 − ξ)^a (1 + ξ)^b.

        out = Σ_k ρ_k w_k ⊙ P_k^{a,b}(S) MLP(X),   ρ_k = Π_{j ≤ k} α tanh(η_j),   S = D^{−1/2} A D^{−1/2}

    Each class has coefficients w `[K + 1, C]` of its own, first 1; the common factors ρ shrink or grow from
    degree to degree (polynomial coefficient decomposition).

    The other arguments are those of `FilteredMLP`; published is 1 layer, a linear model.

    Args:
        alpha: α > 0, the bound of the factor between two degrees.
        a: exponent at ξ = 1, where the smooth signals are; more than −1, like
        b: the exponent at ξ = −1.
    """

    space: ClassVar[Options] = {
        **FilteredMLP.space,
        "num_layers": [1, 2],
        "alpha": [0.5, 1.0, 1.5, 2.0],
        "a": {"low": -0.5, "high": 2.0},
        "b": {"low": -0.5, "high": 2.0},
    }
    published: ClassVar[Options] = {
        **FilteredMLP.published,
        "num_layers": 1,
        "alpha": 1.0,
        "a": 1.0,
        "b": 1.0,
    }

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, filter_dropout: float = 0.5, degree: int = 10, alpha: float = 1.0,
        a: float = 1.0, b: float = 1.0,
    ) -> None:  # fmt: skip
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

    def filter(self, z: Tensor, edge_index: Any, x: Tensor) -> Tensor:
        """Σ_k ρ_k w_k ⊙ P_k(S) z."""
        S = symmetric_matrix(edge_index, x)
        factors = self.alpha * self.eta.tanh()
        rho = accumulate(factors.unbind(), torch.mul, initial=torch.ones_like(self.eta[0]))
        polynomials = self.basis.polynomials(lambda p: S(p), z, self.degree)
        terms = zip(rho, self.theta, polynomials, strict=True)
        return torch.stack([r * w * p for r, w, p in terms]).sum(0)


@cache
def to_chebyshev(basis: Values, degree: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """M `[K + 1, K + 1]` with B_k = Σ_j M_jk T_j, by interpolation at the zeros of T_{K+1}: exact.

    c_j = (2 / (K + 1)) Σ_i f(ξ_i) T_j(ξ_i), and half of that for j = 0.
    """
    xi = np.cos((np.arange(degree, -1, -1) + 0.5) * math.pi / (degree + 1))
    interpolation = 2 / (degree + 1) * np.polynomial.chebyshev.chebvander(xi, degree).T
    interpolation[0] /= 2
    with torch.inference_mode(False):  # training may use it next
        return torch.as_tensor(interpolation @ basis(xi, degree), dtype=dtype, device=device)


@once_per_graph
def laplacian(topology: Topology, x: Tensor) -> BlockOperator:
    """𝓛 = I − D^{−1/2} A D^{−1/2}, 1 on the diagonal of isolated nodes too."""
    diag = torch.ones(topology.num_nodes, 1, 1, dtype=x.dtype, device=x.device)
    off = -symmetric_weights(topology.row, topology.col, topology.degree)
    return BlockOperator(topology.pattern, diag, off[:, None, None].to(diag))


@once_per_graph
def shifted_gcn(topology: Topology, x: Tensor) -> BlockOperator:
    """I + D̃^{−1/2} (A + I) D̃^{−1/2}."""
    degree = topology.degree + 1
    diag, off = 1 + 1 / degree.double(), symmetric_weights(topology.row, topology.col, degree)
    diag, off = (part[:, None, None].to(x.device, x.dtype) for part in (diag, off))
    return BlockOperator(topology.pattern, diag, off)
