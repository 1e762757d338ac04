"""GPRGNN: an MLP, then a learned polynomial of the smoothing matrix."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.errors import require_fraction
from polynsd.kernels import BlockOperator
from polynsd.topology import Topology
from polynsd.zoo.operators import balanced, remembered
from polynsd.zoo.series import FilteredMLP, SeriesNet


class GPRGNN(SeriesNet):
    """Generalised PageRank (Chien et al., 2021): out = Σ_k γ_k Ŝ^k MLP(X).

    The first γ are those of personalised PageRank, α (1 − α)^k, and (1 − α)^K for the last. Ŝ is the matrix
    of GCN, with self-loops.

    Args:
        in_channels: features per node, or -1 to infer them at the first call.
        hidden_channels: width of the MLP.
        num_layers: its linear layers; published are 2.
        out_channels: classes.
        dropout: before every linear layer.
        filter_dropout: before the filter.
        degree: K ≥ 1, the number of hops.
        alpha: chance to return to the start, 0 ≤ α < 1.
    """

    space: ClassVar[dict[str, Any]] = {**FilteredMLP.space, "alpha": [0.1, 0.2, 0.5, 0.9]}
    published: ClassVar[dict[str, Any]] = {**FilteredMLP.published, "alpha": 0.1}

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
        alpha: float = 0.1,
    ) -> None:
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

    def shifted(self, edge_index: Any, num_nodes: int, like: Tensor) -> BlockOperator:
        """I + Ŝ."""
        return shifted_gcn(edge_index, num_nodes, like)

    @staticmethod
    def basis(xi: NDArray[np.float64], degree: int) -> NDArray[np.float64]:
        """ξ_j^k."""
        return np.vander(xi, degree + 1, increasing=True)


@remembered
def shifted_gcn(topology: Topology, like: Tensor) -> BlockOperator:
    """I + D̃^{−1/2} (A + I) D̃^{−1/2}."""
    degree = topology.degree + 1
    diag, off = 1 + 1 / degree.double(), balanced(topology.row, topology.col, degree)
    diag, off = (part[:, None, None].to(like.device, like.dtype) for part in (diag, off))
    return BlockOperator(topology.pattern, diag, off)
