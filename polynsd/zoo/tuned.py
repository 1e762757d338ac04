"""Classic convolutions, tuned: residual, norm, dropout and depth, as in Luo et al. (2024), "Classic GNNs are
strong baselines": https://arxiv.org/abs/2406.08993.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor, nn

from polynsd.errors import require_at_least, require_choice
from polynsd.nn.batch_norm import BatchNorm
from polynsd.zoo.layers import WIDE, GATLayer, GCNLayer, Options, SAGELayer, ZooModel
from polynsd.zoo.matrices import gcn_matrix, mean_matrix, once_per_features, powers, refuse_weights
from polynsd.zoo.neighbours import neighbours, require_heads

CONVS = ("gcn", "sage", "gat")
NORMS: dict[str, Callable[[int], nn.Module]] = {
    "none": nn.Identity,
    "batch": BatchNorm,
    "layer": nn.LayerNorm,
}


class TunedGNN(ZooModel):
    """h ← dropout(ReLU(norm(conv(h) + W h))) in every layer; logits W' h. Published are up to 15 layers.

    Args:
        conv: `gcn` (Ŝ h W), `sage` (W_1 h + W_2 mean) or `gat` (as published, without j = i).
        residual: whether W h is added.
        norm: `none`, `batch` or `layer`.
        heads: of attention, in `gat`; each has its part of the width.
        pre_linear: whether a linear map with dropout comes before the first convolution.
    """

    space: ClassVar[Options] = {
        "num_layers": [2, 4, 8],
        "hidden_channels": WIDE,
        "norm": ["none", "batch", "layer"],
        "residual": [True, False],
        "pre_linear": [False, True],
    }
    published: ClassVar[Options] = {
        "num_layers": 4,
        "hidden_channels": 512,
        "norm": "batch",
        "residual": True,
        "pre_linear": False,
    }

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, conv: str = "gcn", residual: bool = True, norm: str = "batch", heads: int = 1,
        pre_linear: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(dropout)
        require_choice("norm", norm, NORMS)
        require_at_least("num_layers", num_layers, 1)
        self.conv = conv
        self.input = nn.Linear(in_channels, hidden_channels) if pre_linear else None
        widths = [hidden_channels if pre_linear else in_channels, *[hidden_channels] * (num_layers - 1)]
        self.layers = nn.ModuleList(
            TunedLayer(
                make_convolution(conv, width, hidden_channels, heads), width, hidden_channels, residual, norm
            )
            for width in widths
        )
        self.output = nn.Linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        refuse_weights("TunedGNN", edge_weight)
        graph = conv_graph(self.conv, edge_index, x)
        h = x if self.input is None else self.drop(self.input(x))
        for layer in self.layers:
            h = self.drop(layer(h, graph).relu())
        return self.output(h)


class TunedLayer(nn.Module):
    """norm(conv(h) + W h)."""

    def __init__(
        self, conv: nn.Module, in_channels: int, out_channels: int, residual: bool, norm: str
    ) -> None:
        super().__init__()
        self.conv = conv
        self.shortcut = nn.Linear(in_channels, out_channels) if residual else None
        self.norm = NORMS[norm](out_channels)

    def forward(self, h: Tensor, graph: Any) -> Tensor:
        new = self.conv(h, graph)
        return self.norm(new if self.shortcut is None else new + self.shortcut(h))


def make_convolution(conv: str, in_channels: int, out_channels: int, heads: int) -> nn.Module:
    """A layer of this kind; attention has neither bias nor self-loops."""
    require_choice("conv", conv, CONVS)
    if conv == "gat":
        require_heads(out_channels, heads)
        return GATLayer(in_channels, out_channels // heads, heads, bias=False)
    return (GCNLayer if conv == "gcn" else SAGELayer)(in_channels, out_channels)


def conv_graph(conv: str, edge_index: Any, x: Tensor) -> Any:
    """The second argument of layers of this kind, on a graph with features x."""
    if conv == "gcn":
        return gcn_matrix(edge_index, x)
    if conv == "gat":
        return neighbours(edge_index, x)
    S = mean_matrix(edge_index, x)
    return lambda h: once_per_features(powers, S, x, 1)[0] if h is x else S(h)
