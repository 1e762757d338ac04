"""Polynormer, a graph transformer that is a polynomial of its input: Deng, Yue and Zhang (2024),
https://arxiv.org/abs/2403.01232.

The layers are PyG's. PyG's model around them is not used: it writes into dense batches, which `torch.vmap`
does not admit, normalises the graph in every pass, gives log-probabilities for logits, and with more than
one head its global attention does not fit its width.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn.attention import PolynormerAttention

from polynsd.errors import require_at_least, require_fraction
from polynsd.zoo.attention import require_heads
from polynsd.zoo.operators import no_weights
from polynsd.zoo.ranges import WIDE
from polynsd.zoo.tuned import TunedLayer, conv_edges, convolution


class Polynormer(nn.Module):
    """Local layers x ← (1 − β) LN(ReLU(W x) ⊙ x') + β x', x' = dropout(ReLU(BN(conv(x) + W' x))), summed up;
    then global layers of linear attention with sigmoid kernels.

    Published training has two phases: first the local part with a classifier of its own, then all of it with
    another. Here a model is one or the other from the first epoch on (`global_attention`). The heads share
    `hidden_channels`: what is published as 64 channels with 8 heads is 512 channels here.

    Args:
        in_channels: features per node.
        hidden_channels: width.
        num_layers: local layers; published: 5 to 10.
        out_channels: logits per node.
        dropout: rate in local and global layers.
        feature_dropout: rate of the features.
        heads: of both kinds of attention.
        beta: β.
        local_attention: whether a local layer is `gat` or `gcn`.
        global_attention: whether there are global layers.
        global_layers: how many.
    """

    space: ClassVar[dict[str, Any]] = {
        "num_layers": [2, 5, 7],
        "hidden_channels": WIDE,
        "global_layers": [1, 2, 3],
        "heads": [1, 2, 4, 8],
        "local_attention": [True, False],
        "feature_dropout": {"low": 0.0, "high": 0.5},
    }
    published: ClassVar[dict[str, Any]] = {
        "num_layers": 7,
        "hidden_channels": 512,
        "global_layers": 2,
        "heads": 8,
        "local_attention": True,
        "feature_dropout": 0.15,
    }

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        feature_dropout: float = 0.15,
        heads: int = 1,
        beta: float = 0.9,
        local_attention: bool = False,
        global_attention: bool = True,
        global_layers: int = 2,
    ) -> None:
        super().__init__()
        require_at_least("num_layers", num_layers, 1)
        require_at_least("global_layers", global_layers, 1)
        require_fraction("dropout", dropout)
        require_fraction("feature_dropout", feature_dropout)
        require_heads(hidden_channels, heads)
        self.feature_dropout, self.conv = feature_dropout, "gat" if local_attention else "gcn"
        widths = [in_channels, *[hidden_channels] * (num_layers - 1)]
        self.local_layers = nn.ModuleList(
            LocalLayer(convolution(self.conv, width, hidden_channels, heads), hidden_channels, beta, dropout)
            for width in widths
        )
        self.norm = nn.LayerNorm(hidden_channels) if global_attention else None
        self.global_layers = nn.ModuleList(
            PolynormerAttention(
                hidden_channels, heads, hidden_channels // heads, beta, qk_shared=False, dropout=dropout
            )
            for _ in range(global_layers if global_attention else 0)
        )
        self.output = nn.Linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        no_weights("Polynormer", edge_weight)
        edges = conv_edges(self.conv, edge_index, x)
        x = functional.dropout(x, self.feature_dropout, self.training)
        total = x.new_zeros(())
        for layer in self.local_layers:
            x = layer(x, edges)
            total = total + x
        return self.output(self._everywhere(total))

    def _everywhere(self, x: Tensor) -> Tensor:
        if self.norm is None:
            return x
        batch = self.norm(x)[None]  # of one graph
        for layer in self.global_layers:
            batch = layer(batch)
        return batch[0]

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for module in (*self.local_layers, self.norm, *self.global_layers, self.output):
            if module is not None:
                module.reset_parameters()


class LocalLayer(nn.Module):
    """(1 − β) LN(ReLU(W x) ⊙ x') + β x' with x' = dropout(ReLU(BN(conv(x) + W' x)))."""

    def __init__(self, conv: Any, width: int, beta: float, dropout: float) -> None:
        super().__init__()
        self.beta, self.dropout = beta, dropout
        self.gate = nn.Linear(conv.in_channels, width)
        self.local = TunedLayer(conv, residual=True, norm="batch")
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, edges: Any) -> Tensor:
        """[N, in] → [N, C]."""
        gate = functional.relu(self.gate(x))
        new = functional.dropout(functional.relu(self.local(x, edges)), self.dropout, self.training)
        return (1 - self.beta) * self.norm(gate * new) + self.beta * new

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for module in (self.gate, self.local, self.norm):
            module.reset_parameters()
