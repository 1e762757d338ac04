"""BernNet: the filter is a Bernstein polynomial."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import binom

from polynsd.zoo.series import SeriesNet


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
