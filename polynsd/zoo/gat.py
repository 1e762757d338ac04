"""Graph attention networks, the first and the second version."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch_geometric.nn import models

from polynsd.errors import require_fraction
from polynsd.zoo.attention import by_kernels, edges_with_loops, require_heads
from polynsd.zoo.layers import after_weights, feature_products
from polynsd.zoo.operators import no_weights
from polynsd.zoo.ranges import CONVOLUTIONS, INPUT_DROPOUT


class GAT(nn.Module):
    """Veličković et al., "Graph attention networks" (2018); Brody, Alon and Yahav's GATv2 (2022).

    h_i⁺ = ‖_heads Σ_{j∈N(i)∪{i}} softmax_j(e_ij) W h_j + b, then ELU and dropout,
    e_ij = LeakyReLU_{0.2}(aᵀ[W h_i ‖ W h_j]), or aᵀ LeakyReLU_{0.2}(W' h_i + W h_j) for v2. The last
    layer takes the mean of the heads.

    Args:
        in_channels: number of features.
        hidden_channels: width of all heads together.
        num_layers: number of attention layers.
        out_channels: number of classes or targets.
        dropout: rate, of the attention and after every hidden layer.
        input_dropout: rate, of the features.
        heads: number of heads.
        v2: whether the attention is that of GATv2.
    """

    space: ClassVar[dict[str, Any]] = {
        "num_layers": CONVOLUTIONS,
        "heads": [1, 4, 8],
        "input_dropout": INPUT_DROPOUT,
    }
    published: ClassVar[dict[str, Any]] = {
        "num_layers": 2,
        "hidden_channels": 64,
        "heads": 8,
        "input_dropout": 0.6,
    }

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        heads: int = 8,
        v2: bool = False,
    ) -> None:
        super().__init__()
        require_fraction("input_dropout", input_dropout)
        self.input_dropout = input_dropout
        require_heads(hidden_channels if num_layers > 1 else heads, heads)
        self.v2 = v2
        self.gnn = models.GAT(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            dropout=dropout,
            act="elu",
            heads=heads,
            v2=v2,
            add_self_loops=False,  # they are in the edges already
        )
        for conv in self.gnn.convs:
            by_kernels(conv)
        after_weights(*self._first_maps())

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        no_weights("gat", edge_weight)
        products = feature_products(self._first_maps(), x, self.input_dropout, self.training)
        h = products if self.v2 else products[0]
        return self.gnn(h, edges_with_loops(edge_index, x.size(0), x))

    def _first_maps(self) -> list[Any]:
        """One, or for v2 those of the neighbours and of the asking node."""
        conv = self.gnn.convs[0]
        return [conv.lin_l, conv.lin_r] if self.v2 else [conv.lin]

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        self.gnn.reset_parameters()
