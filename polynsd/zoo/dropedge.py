"""A GCN that trains on thinned graphs."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional

from polynsd.errors import require_fraction
from polynsd.topology import as_topology
from polynsd.zoo.gcn import convolutions, convolved
from polynsd.zoo.ranges import INPUT_DROPOUT
from polynsd.zoo.weighted import Weighted, of_half_edges, smoothing, weighted_matrix


class DropEdgeGCN(nn.Module):
    """Rong et al., "DropEdge: towards deep graph convolutional networks on node classification" (2020).

    A GCN. In training every step keeps each undirected edge with probability 1 − p, the same ones in
    all layers, and normalises Ŝ of what is left; in evaluation the graph is whole.

    Args:
        in_channels: number of features.
        hidden_channels: width.
        num_layers: number of convolutions.
        out_channels: number of classes or targets.
        dropout: rate, after every hidden layer.
        input_dropout: rate, of the features.
        drop_edge: p, in [0, 1).
    """

    space: ClassVar[dict[str, Any]] = {
        "num_layers": [2, 4, 8],
        "drop_edge": {"low": 0.1, "high": 0.9},
        "input_dropout": INPUT_DROPOUT,
    }
    published: ClassVar[dict[str, Any]] = {
        "num_layers": 4,
        "hidden_channels": 128,
        "drop_edge": 0.2,
        "input_dropout": 0.0,
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
        drop_edge: float = 0.2,
    ) -> None:
        super().__init__()
        require_fraction("input_dropout", input_dropout)
        self.input_dropout = input_dropout
        require_fraction("drop_edge", drop_edge)
        self.drop_edge = drop_edge
        self.gnn = convolutions(in_channels, hidden_channels, num_layers, out_channels, dropout)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        thinned = self._thinned if self.training else smoothing
        return convolved(self.gnn, x, thinned(edge_index, edge_weight, x), self.input_dropout)

    def _thinned(self, edge_index: Any, edge_weight: Tensor | None, x: Tensor) -> Weighted:
        """Ŝ of the edges that are kept."""
        topology = as_topology(edge_index, x.size(0))
        ones = x.new_ones(topology.num_edges)
        is_kept = functional.dropout(ones, self.drop_edge).sign()  # whatever the rate of the replica
        weight = is_kept[topology.edge]
        if edge_weight is not None:
            weight = weight * of_half_edges(topology, edge_weight, x)
        return weighted_matrix(topology, weight, loop=1.0)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        self.gnn.reset_parameters()
