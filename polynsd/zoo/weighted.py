"""Matrices of graphs whose edges have weights, found once per list of weights.

    D̃^{−1/2} (A + loop·I) D̃^{−1/2},   A with the weights, D̃ its row sums

With loop = 1 and without weights it is `gcn_matrix`, with loop = 0 `symmetric_matrix`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from polynsd.errors import ConfigError
from polynsd.kernels.ops.edges import sum_at_nodes
from polynsd.kernels.ops.operator import Csr
from polynsd.memo import TensorMemo
from polynsd.topology import Topology, as_topology
from polynsd.zoo.operators import Propagation, gcn_matrix


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


def weighted_matrix(topology: Topology, weight: Tensor, loop: float) -> Weighted:
    """The matrix with weights `[H]` of half-edges; a row of zeros stays one."""
    degree = loop + sum_at_nodes(weight, topology.pattern, -1)
    scale = torch.where(degree > 0, degree.rsqrt(), 0.0)
    values = scale[topology.row] * weight * scale[topology.col]
    places = _structures(topology.rowptr, partial(_half_edges, topology))
    return Weighted(Propagation(*places, values), loop * scale**2)


def of_half_edges(topology: Topology, edge_weight: Tensor, like: Tensor) -> Tensor:
    """`[H]` the weights of an edge list, checked and spread once."""
    if edge_weight.requires_grad:
        raise ConfigError("edge_weight is a constant here and would get no gradient; detach() it.")
    return _weights(
        edge_weight, lambda: topology.symmetric_weight(edge_weight).to(like), topology, like.dtype
    )


def _half_edges(topology: Topology) -> tuple[Csr, Csr]:
    """Entry h of the transposed matrix is that of twin(h)."""
    pattern = topology.pattern
    number = torch.arange(topology.num_half_edges, dtype=torch.int32, device=pattern.col.device)
    return Csr(pattern.rowptr, pattern.col, number), Csr(pattern.rowptr, pattern.col, pattern.twin)


_structures = TensorMemo[tuple[Csr, Csr]]()
_weights = TensorMemo[Tensor]()
_weighted = TensorMemo[Weighted]()
