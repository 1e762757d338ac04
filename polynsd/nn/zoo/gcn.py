"""The graph convolutional network, and what it shares with its relatives.

PyG's layers gather a message per edge and scatter the sums. Where the messages are S x with a matrix S
that does not change, one sparse product does the same without an array of messages: `by_product` gives
a layer that product, and the layer is then called with the matrix where PyG has `edge_index`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdRef
from torch_geometric.nn import models

from polynsd.errors import ConfigError
from polynsd.kernels.edges import sum_at_nodes
from polynsd.kernels.operator import Csr
from polynsd.memo import TensorMemo
from polynsd.nn.zoo.operators import Propagation, gcn_matrix
from polynsd.topology import Topology, as_topology


class Weighted(NamedTuple):
    """A symmetric matrix with weights of edges; calling it multiplies. The weights are constants."""

    off: Propagation
    diagonal: Tensor  # [N]

    @property
    def values(self) -> Tensor:
        """The numbers off the diagonal."""
        return self.off.values

    def __call__(self, z: Tensor) -> Tensor:
        """S z for a signal `[N, C]`."""
        return torch.addcmul(self.off(z), self.diagonal[:, None], z.to(self.diagonal.dtype))


Matrix = Propagation | Weighted


def weighted_matrix(topology: Topology, weight: Tensor, loop: float) -> Weighted:
    """D̃^{−1/2} (A + loop·I) D̃^{−1/2} with weights `[H]` of half-edges; a row of zeros stays one."""
    degree = loop + sum_at_nodes(weight, topology.pattern, -1)
    scale = torch.where(degree > 0, degree.rsqrt(), 0.0)
    values = scale[topology.row] * weight * scale[topology.col]
    return Weighted(Propagation(*_places(topology), values), loop * scale**2)


def smoothing(edge_index: Any, edge_weight: Tensor | None, like: Tensor) -> Matrix:
    """Ŝ of the graph, found once."""
    if edge_weight is None:
        return gcn_matrix(edge_index, like.size(0), like)
    return from_weights(edge_index, edge_weight, like, loop=1.0)


def from_weights(edge_index: Any, edge_weight: Tensor, like: Tensor, loop: float) -> Weighted:
    """`weighted_matrix` with the weights of an edge list, found once."""
    topology = as_topology(edge_index, like.size(0))
    weight = of_half_edges(topology, edge_weight, like)
    return _weighted(weight, lambda: weighted_matrix(topology, weight, loop), topology, loop)


def of_half_edges(topology: Topology, edge_weight: Tensor, like: Tensor) -> Tensor:
    """`[H]` the weights of an edge list, checked and spread once."""
    if edge_weight.requires_grad:
        raise ConfigError("edge_weight is a constant here and would get no gradient; detach() it.")
    return _weights(
        edge_weight, lambda: topology.symmetric_weight(edge_weight).to(like), topology, like.dtype
    )


def of_features(matrix: Matrix, x: Tensor) -> Tensor:
    """S x of what does not change: features, and what this made of them. Found once."""
    if x.requires_grad:
        return matrix(x)
    return _products(x, lambda: matrix(x), WeakIdRef(matrix.values))


def remembering(matrix: Matrix, x: Tensor) -> Callable[[Tensor], Tensor]:
    """The matrix as a function of signals that has the product with the features x at hand."""
    return lambda z: of_features(matrix, z) if z is x else matrix(z)


def by_product(conv: Any) -> Any:
    """PyG's layer, which then takes a matrix, or any function of a signal, for `edge_index`."""
    conv.propagate = _propagate
    return conv


def _propagate(edge_index: Callable[[Tensor], Tensor], size: Any = None, *, x: Any, **_: Any) -> Tensor:
    return edge_index(x[0] if isinstance(x, tuple) else x)


def _places(topology: Topology) -> tuple[Csr, Csr]:
    return _structures(topology.rowptr, partial(_half_edges, topology))


def _half_edges(topology: Topology) -> tuple[Csr, Csr]:
    """Entry h of the transposed matrix is that of twin(h)."""
    pattern = topology.pattern
    number = torch.arange(topology.num_half_edges, dtype=torch.int32, device=pattern.col.device)
    return Csr(pattern.rowptr, pattern.col, number), Csr(pattern.rowptr, pattern.col, pattern.twin)


_structures = TensorMemo[tuple[Csr, Csr]]()
_weights = TensorMemo[Tensor]()
_weighted = TensorMemo[Weighted]()
_products = TensorMemo[Tensor]()


class GCN(nn.Module):
    """Kipf and Welling's graph convolutional network, "Semi-supervised classification with GCNs" (2017).

    H⁺ = dropout(ReLU(Ŝ H W + b)), the last layer without ReLU and dropout.

    Args:
        in_channels: number of features.
        hidden_channels: width.
        num_layers: number of convolutions.
        out_channels: number of classes or targets.
        dropout: rate, after every hidden layer.
    """

    space: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.gnn = convolutions(in_channels, hidden_channels, num_layers, out_channels, dropout)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """[N, in] → [N, out]."""
        return self.gnn(x, smoothing(edge_index, edge_weight, x))

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        self.gnn.reset_parameters()


def convolutions(
    in_channels: int,
    hidden_channels: int,
    num_layers: int,
    out_channels: int,
    dropout: float,
    norm: nn.Module | None = None,
) -> Any:
    """PyG's GCN, with a normalisation after every hidden convolution; it is called with Ŝ."""
    gnn = models.GCN(in_channels, hidden_channels, num_layers, out_channels, dropout=dropout, norm=norm)
    for conv in gnn.convs:
        by_product(conv)
    return gnn
