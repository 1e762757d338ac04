"""Classic convolutions, tuned: residual, norm, dropout and depth, as in Luo et al. (2024), "Classic GNNs are
strong baselines": https://arxiv.org/abs/2406.08993.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from polynsd.errors import require_at_least, require_choice, require_fraction
from polynsd.zoo.attention import by_kernels, edges_without_loops, require_heads
from polynsd.zoo.layers import by_product
from polynsd.zoo.operators import gcn_matrix, mean_matrix, no_weights, of_features, powers
from polynsd.zoo.ranges import WIDE

CONVS = ("gcn", "sage", "gat")
NORMS = {"none": None, "batch": nn.BatchNorm1d, "layer": nn.LayerNorm}


class TunedGNN(nn.Module):
    """h ← dropout(ReLU(norm(conv(h) + W h))) in every layer; logits W' h.

    Args:
        in_channels: features per node.
        hidden_channels: width of every layer.
        num_layers: convolutions; published: up to 15.
        out_channels: logits per node.
        dropout: rate after every activation.
        conv: `gcn` (Ŝ h W), `sage` (W_1 h + W_2 mean) or `gat` (as published, without j = i).
        residual: whether W h is added.
        norm: `none`, `batch` or `layer`.
        heads: of attention, in `gat`; each has its part of the width.
        pre_linear: whether a linear map with dropout comes before the first convolution.
    """

    space: ClassVar[dict[str, Any]] = {
        "num_layers": [2, 4, 8],
        "hidden_channels": WIDE,
        "norm": ["none", "batch", "layer"],
        "residual": [True, False],
        "pre_linear": [False, True],
    }
    published: ClassVar[dict[str, Any]] = {
        "num_layers": 4,
        "hidden_channels": 512,
        "norm": "batch",
        "residual": True,
        "pre_linear": False,
    }

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        conv: str = "gcn",
        residual: bool = True,
        norm: str = "batch",
        heads: int = 1,
        pre_linear: bool = False,
    ) -> None:
        super().__init__()
        require_choice("norm", norm, NORMS)
        require_at_least("num_layers", num_layers, 1)
        require_fraction("dropout", dropout)
        self.conv, self.dropout = conv, dropout
        self.input = nn.Linear(in_channels, hidden_channels) if pre_linear else None
        widths = [hidden_channels if pre_linear else in_channels, *[hidden_channels] * (num_layers - 1)]
        self.layers = nn.ModuleList(
            TunedLayer(convolution(conv, width, hidden_channels, heads), residual, norm) for width in widths
        )
        self.output = nn.Linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        no_weights("TunedGNN", edge_weight)
        edges = conv_edges(self.conv, edge_index, x)
        h = x if self.input is None else functional.dropout(self.input(x), self.dropout, self.training)
        for layer in self.layers:
            h = functional.dropout(functional.relu(layer(h, edges)), self.dropout, self.training)
        return self.output(h)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for module in (self.input, *self.layers, self.output):
            if module is not None:
                module.reset_parameters()


class TunedLayer(nn.Module):
    """norm(conv(h) + W h)."""

    def __init__(self, conv: Any, residual: bool, norm: str) -> None:
        super().__init__()
        width = getattr(conv, "heads", 1) * conv.out_channels
        kind = NORMS[norm]
        self.conv = conv
        self.shortcut = nn.Linear(conv.in_channels, width) if residual else None
        self.norm = None if kind is None else kind(width)

    def forward(self, h: Tensor, edges: Any) -> Tensor:
        """[N, in] → [N, out]."""
        new = self.conv(h, edges)
        new = new if self.shortcut is None else new + self.shortcut(h)
        return new if self.norm is None else self.norm(new)

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for module in (self.conv, self.shortcut, self.norm):
            if module is not None:
                module.reset_parameters()


def convolution(conv: str, in_channels: int, out_channels: int, heads: int) -> Any:
    """PyG's layer; it is called with what `conv_edges` gives."""
    require_choice("conv", conv, CONVS)
    if conv == "gat":
        require_heads(out_channels, heads)
        width = out_channels // heads
        return by_kernels(GATConv(in_channels, width, heads, add_self_loops=False, bias=False))
    return by_product((GCNConv if conv == "gcn" else SAGEConv)(in_channels, out_channels))


def conv_edges(conv: str, edge_index: Any, x: Tensor) -> Any:
    """Ŝ for `gcn`, D^{−1}A for `sage`, undirected edges for `gat`; found once per graph."""
    if conv == "gcn":
        return gcn_matrix(edge_index, len(x), x)
    if conv == "sage":
        S = mean_matrix(edge_index, len(x), x)
        return lambda z: of_features(powers, S, x, 1)[0] if z is x else S(z)
    return edges_without_loops(edge_index, len(x))
