"""An MLP, then a learned filter of the graph: what the spectral models share."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from polynsd import kernels
from polynsd.errors import require_at_least, require_fraction
from polynsd.kernels import BlockOperator
from polynsd.nn.features import encode_features
from polynsd.nn.inputs import check_features, linear
from polynsd.topology import Topology
from polynsd.zoo.operators import balanced, no_weights, remembered
from polynsd.zoo.ranges import PERCEPTRON

Values = Callable[[NDArray[np.float64], int], NDArray[np.float64]]
FILTER_DROPOUT = [0.0, 0.2, 0.5, 0.8]


class FilteredMLP(nn.Module):
    """Features, an MLP, then a filter: out = p(M) MLP(X), p of degree K with coefficients of its own.

    Args:
        in_channels: features per node, or -1 to infer them at the first call.
        hidden_channels: width of the MLP.
        num_layers: its linear layers; one makes the model linear.
        out_channels: classes.
        dropout: before every linear layer.
        filter_dropout: before the filter.
        degree: K ≥ 1, the number of hops.
    """

    space: ClassVar[dict[str, Any]] = {"num_layers": PERCEPTRON, "filter_dropout": FILTER_DROPOUT}
    published: ClassVar[dict[str, Any]] = {
        "num_layers": 2,
        "hidden_channels": 64,
        "filter_dropout": 0.5,
        "degree": 10,
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
    ) -> None:
        super().__init__()
        require_at_least("num_layers", num_layers, 1)
        require_at_least("degree", degree, 1)
        require_fraction("filter_dropout", filter_dropout)
        self.in_channels, self.degree = in_channels, degree
        self.dropout, self.filter_dropout = dropout, filter_dropout
        sizes = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.layers = nn.ModuleList(linear(a, b) for a, b in pairwise(sizes))
        self.theta = nn.Parameter(torch.ones(degree + 1))

    def reset_parameters(self) -> None:
        """Draws all parameters anew; the filter starts from where it is published to."""
        for layer in self.layers:
            layer.reset_parameters()  # type: ignore[operator]
        self.reset_filter()

    def reset_filter(self) -> None:
        """The first coefficients."""
        nn.init.ones_(self.theta)

    def sheaf_parameters(self) -> list[nn.Parameter]:
        """The coefficients of the filter, which have a weight decay of their own."""
        return [self.theta]

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        no_weights(type(self).__name__, edge_weight)
        check_features(x, self.in_channels)
        z = functional.dropout(self.encode(x), self.filter_dropout, self.training)
        return self.filtered(z, edge_index, x)

    def encode(self, x: Tensor) -> Tensor:
        """The MLP."""
        first, *others = self.layers
        z = encode_features(first, x, self.dropout, self.training)
        for layer in others:
            z = layer(functional.dropout(z.relu(), self.dropout, self.training))
        return z

    def filtered(self, z: Tensor, edge_index: Any, like: Tensor) -> Tensor:
        """p(M) z."""
        raise NotImplementedError


class SeriesNet(FilteredMLP):
    """A filter p = Σ_k w_k B_k of one matrix M with spectrum in [−1, 1], the same for all classes.

    Whatever the B_k are, p is added up as a Chebyshev series first: K products with the graph, by a kernel
    whose memory does not grow with K.

    Where M = 𝓛 − I, an isolated node has 𝓛_vv = 1, as in the published code: it gets p at the eigenvalue 1
    times its own row, whereas `poly-spectral` has L_vv = 0 and p at the eigenvalue 0 there.
    """

    def filtered(self, z: Tensor, edge_index: Any, like: Tensor) -> Tensor:
        """Σ_k φ_k T_k(M) z."""
        A = self.shifted(edge_index, z.size(0), like)
        return kernels.chebyshev_filter(A, self.chebyshev_coefficients(), z.unsqueeze(-2), 1.0).squeeze(-2)

    def chebyshev_coefficients(self) -> Tensor:
        """φ `[K + 1]` with p = Σ_k φ_k T_k; not a product of matrices, which autocast would round."""
        table = to_chebyshev(self.basis, self.degree, self.theta.dtype, self.theta.device)
        return (table * self.weights()).sum(-1)

    def weights(self) -> Tensor:
        """The w_k, not negative."""
        return self.theta.relu()

    def shifted(self, edge_index: Any, num_nodes: int, like: Tensor) -> BlockOperator:
        """I + M; here M = 𝓛 − I, where 𝓛 = I − D^{−1/2} A D^{−1/2}."""
        return laplacian(edge_index, num_nodes, like)

    @staticmethod
    def basis(xi: NDArray[np.float64], degree: int) -> NDArray[np.float64]:
        """B_k(ξ_j) `[nodes, K + 1]`."""
        raise NotImplementedError


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


@remembered
def laplacian(topology: Topology, like: Tensor) -> BlockOperator:
    """𝓛 = I − D^{−1/2} A D^{−1/2}, 1 on the diagonal of isolated nodes too."""
    diag = torch.ones(topology.num_nodes, 1, 1, dtype=like.dtype, device=like.device)
    off = -balanced(topology.row, topology.col, topology.degree)
    return BlockOperator(topology.pattern, diag, off[:, None, None].to(diag))
