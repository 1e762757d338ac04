"""ChebNetII: the filter is learned by its values at Chebyshev's nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polynsd.zoo.series import SeriesNet


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
