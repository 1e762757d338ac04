"""The perceptron and the classic convolutions: MLP, GCN with two relatives, GraphSAGE, GIN.

Ŝ = D̃^{−1/2} (A + I) D̃^{−1/2} is `gcn_matrix`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import models
from torch_geometric.nn.dense import Linear

from polynsd.errors import ConfigError, require_choice, require_fraction
from polynsd.topology import as_topology
from polynsd.zoo.layers import (
    CONVOLUTIONS,
    INPUT_DROPOUT,
    PERCEPTRON,
    GCNLayer,
    Options,
    SAGELayer,
    ZooModel,
)
from polynsd.zoo.matrices import (
    SparseMatrix,
    adjacency_matrix,
    constant_weights,
    gcn_matrix,
    mean_matrix,
    refuse_weights,
    weighted_matrix,
)


class MLP(ZooModel):
    """A perceptron on the features of a node alone: H⁺ = dropout(ReLU(H W + b)), the last layer H W + b.

    `num_layers` counts linear maps.
    """

    space: ClassVar[Options] = {"num_layers": PERCEPTRON, "input_dropout": INPUT_DROPOUT}
    published: ClassVar[Options] = {"num_layers": 2, "hidden_channels": 64, "input_dropout": 0.0}

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, input_dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(dropout, input_dropout)
        sizes = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.layers = nn.ModuleList(Linear(a, b) for a, b in pairwise(sizes))
        self.reset_parameters()

    def forward(self, x: Tensor, edge_index: Any = None, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]; the edges and their weights make no difference."""
        first, *others = self.layers
        masks = self.hidden_masks(x, [layer.in_channels for layer in others])
        (h,) = self.feature_products([first], x)
        h = h + first.bias
        for layer, mask in zip(others, masks, strict=True):
            h = layer(h.relu() * mask)
        return h


class GCN(ZooModel):
    """Kipf and Welling, "Semi-supervised classification with graph convolutional networks" (2017).

    H⁺ = dropout(ReLU(Ŝ H W + b)), the last layer without ReLU and dropout.
    """

    space: ClassVar[Options] = {"num_layers": CONVOLUTIONS, "input_dropout": INPUT_DROPOUT}
    published: ClassVar[Options] = {"num_layers": 2, "hidden_channels": 64, "input_dropout": 0.5}

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, input_dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(dropout, input_dropout)
        sizes = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.layers = nn.ModuleList(GCNLayer(a, b) for a, b in pairwise(sizes))

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        S = self.matrix(edge_index, x, edge_weight)
        first, *others = self.layers
        masks = self.hidden_masks(x, [layer.linear.in_channels for layer in others])
        (h,) = self.feature_products([first.linear], x)
        h = first.after_weights(h, S)
        for layer, mask in zip(others, masks, strict=True):
            h = layer(self.normalize(h).relu() * mask, S)
        return h

    def matrix(self, edge_index: Any, x: Tensor, edge_weight: Tensor | None) -> SparseMatrix:
        """The matrix that every layer multiplies with."""
        return gcn_matrix(edge_index, x, edge_weight)

    def normalize(self, h: Tensor) -> Tensor:
        """What comes before the ReLU of hidden layers; here nothing."""
        return h


class PairNormGCN(GCN):
    """Zhao and Akoglu, "PairNorm: tackling oversmoothing in GNNs" (2020).

    H⁺ = dropout(ReLU(PN(Ŝ H W + b))), the last layer the convolution alone. PN takes the mean of all
    rows away and scales: x_i · s / √(ε + mean_j ‖x_j‖²), or individually x_i · s / (ε + ‖x_i‖).

    Args:
        scale: s, positive.
        individually: whether every row gets the norm s, and not their mean square.
    """

    space: ClassVar[Options] = {
        "num_layers": [2, 4, 8],
        "scale": {"low": 0.1, "high": 100.0, "log": True},
        "individually": [False, True],
        "input_dropout": INPUT_DROPOUT,
    }
    published: ClassVar[Options] = {
        "num_layers": 2,
        "hidden_channels": 32,
        "scale": 1.0,
        "individually": False,
        "input_dropout": 0.0,
    }

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, input_dropout: float = 0.0, scale: float = 1.0, individually: bool = False,
    ) -> None:  # fmt: skip
        sizes = in_channels, hidden_channels, num_layers, out_channels
        super().__init__(*sizes, dropout=dropout, input_dropout=input_dropout)
        if not scale > 0.0:
            raise ConfigError(f"scale must be positive; got {scale!r}.")
        self.scale, self.individually = scale, individually

    def normalize(self, h: Tensor) -> Tensor:
        """PN(h), with ε = 10⁻⁵."""
        h = h - h.mean(0, keepdim=True)
        if self.individually:
            return self.scale * h / (1e-5 + h.norm(2, -1, keepdim=True))
        return self.scale * h / (1e-5 + h.pow(2).sum(-1).mean()).sqrt()


class DropEdgeGCN(GCN):
    """Rong et al., "DropEdge: towards deep graph convolutional networks on node classification" (2020).

    A GCN. In training every step keeps each undirected edge with probability 1 − p, the same ones in
    all layers, and normalises Ŝ of what is left; in evaluation the graph is whole.

    Args:
        drop_edge: p, in [0, 1).
    """

    space: ClassVar[Options] = {
        "num_layers": [2, 4, 8],
        "drop_edge": {"low": 0.1, "high": 0.9},
        "input_dropout": INPUT_DROPOUT,
    }
    published: ClassVar[Options] = {
        "num_layers": 4,
        "hidden_channels": 128,
        "drop_edge": 0.2,
        "input_dropout": 0.0,
    }

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, input_dropout: float = 0.0, drop_edge: float = 0.2,
    ) -> None:  # fmt: skip
        sizes = in_channels, hidden_channels, num_layers, out_channels
        super().__init__(*sizes, dropout=dropout, input_dropout=input_dropout)
        require_fraction("drop_edge", drop_edge)
        self.drop_edge = drop_edge

    def matrix(self, edge_index: Any, x: Tensor, edge_weight: Tensor | None) -> SparseMatrix:
        """Ŝ of the edges that are kept."""
        if not self.training:
            return gcn_matrix(edge_index, x, edge_weight)
        topology = as_topology(edge_index, x.size(0))
        ones = torch.ones(topology.num_edges, dtype=x.dtype, device=x.device)
        is_kept = functional.dropout(ones, self.drop_edge).sign()  # 1 instead of 1 / (1 − p)
        weight = is_kept[topology.edge]
        if edge_weight is not None:
            weight = weight * constant_weights(topology, edge_weight, x)
        return weighted_matrix(topology, weight, loop=1.0)


class GraphSAGE(ZooModel):
    """Hamilton, Ying and Leskovec, "Inductive representation learning on large graphs" (2017).

    h_i⁺ = dropout(ReLU(W₁ h_i + W₂ mean_{j∈N(i)} h_j + b)), the last layer without ReLU and dropout.
    """

    space: ClassVar[Options] = {"num_layers": CONVOLUTIONS, "input_dropout": INPUT_DROPOUT}
    published: ClassVar[Options] = {"num_layers": 2, "hidden_channels": 128, "input_dropout": 0.0}

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, input_dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(dropout, input_dropout)
        sizes = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.layers = nn.ModuleList(SAGELayer(a, b) for a, b in pairwise(sizes))

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        refuse_weights("sage", edge_weight)
        S, (first, *others) = mean_matrix(edge_index, x), self.layers
        products = self.feature_products([first.neighbour, first.root], x)
        h = first.after_weights(*products, S)
        for layer in others:
            h = layer(self.drop(h.relu()), S)
        return h


class GIN(ZooModel):
    """Xu et al., "How powerful are graph neural networks?" (2019).

    h_i⁺ = MLP((1 + ε) h_i + Σ_{j∈N(i)} h_j), the perceptron with one hidden layer; between layers
    normalisation, ReLU and dropout.

    Args:
        train_eps: whether ε is learned, from 0 on; else it is 0.
        norm: "batch" for batch normalisation, inside the perceptrons too, or "none".
    """

    space: ClassVar[Options] = {
        "num_layers": CONVOLUTIONS,
        "train_eps": [False, True],
        "norm": ["none", "batch"],
        "input_dropout": INPUT_DROPOUT,
    }
    published: ClassVar[Options] = {
        "num_layers": 4,
        "hidden_channels": 64,
        "train_eps": False,
        "norm": "batch",
        "input_dropout": 0.0,
    }

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *,
        dropout: float = 0.0, input_dropout: float = 0.0, train_eps: bool = False, norm: str = "none",
    ) -> None:  # fmt: skip
        super().__init__(dropout, input_dropout)
        require_choice("norm", norm, ("none", "batch"))
        sizes = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.layers = nn.ModuleList(GINLayer(a, b, train_eps, norm) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(
            nn.BatchNorm1d(hidden_channels) if norm == "batch" else nn.Identity() for _ in sizes[2:]
        )

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        refuse_weights("gin", edge_weight)
        A, (first, *others) = adjacency_matrix(edge_index, x), self.layers
        (h,) = self.feature_products([first.linear], x)
        h = first.after_weights(h, A)
        for layer, norm in zip(others, self.norms, strict=True):
            h = layer(self.drop(norm(h).relu()), A)
        return h


class GINLayer(nn.Module):
    """W₂ ReLU(norm(W₁ (A h + (1 + ε) h) + b₁)) + b₂."""

    def __init__(self, in_channels: int, out_channels: int, train_eps: bool, norm: str) -> None:
        super().__init__()
        sizes = [in_channels, out_channels, out_channels]
        self.mlp = models.MLP(sizes, norm="batch_norm" if norm == "batch" else None)
        eps = torch.zeros(1)
        if train_eps:
            self.eps = nn.Parameter(eps)
        else:
            self.register_buffer("eps", eps)
        self.reset_parameters()

    @property
    def linear(self) -> Any:
        """W₁, which commutes with A + (1 + ε) I."""
        return self.mlp.lins[0]

    def reset_parameters(self) -> None:
        self.mlp.reset_parameters()
        nn.init.zeros_(self.eps)

    def forward(self, h: Tensor, A: SparseMatrix) -> Tensor:
        return self.mlp(A(h) + (1 + self.eps) * h)

    def after_weights(self, z: Tensor, A: SparseMatrix) -> Tensor:
        """From z = h W₁; dropout is called as often as by `mlp`, so that later calls keep their masks."""
        h = A(z) + (1 + self.eps) * z + self.linear.bias
        h = functional.dropout(self.mlp.norms[0](h).relu(), 0.0, self.training)
        return functional.dropout(self.mlp.lins[1](h), 0.0, self.training)
