"""Small sheaves and layers on which theory is checked, and the dense linear algebra that judges them.

All numbers are float64 and a function of the seed. Signals have the shape [N, d, C].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polynsd.config import LayerConfig
from polynsd.nn.layer import SheafLayer
from polynsd.published import PUBLISHED_LAYER
from polynsd.sheaf.families import append_channels, get_family
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.spectral.filter import PolynomialFilter
from polynsd.testing.samples import random_edges, random_tensor, random_weights
from polynsd.topology import Topology

FAMILIES = ("identity", "diagonal", "orthogonal", "general")


def random_graph(seed: int, nodes: int = 10, edges: int = 18) -> Topology:
    """Uniform pairs of nodes; some are repeated, and a node may have none."""
    return Topology.from_edge_index(random_edges(nodes, edges, seed), nodes)


def path(nodes: int) -> Topology:
    """0 – 1 – … – (N − 1)."""
    first = torch.arange(nodes - 1)
    return Topology.from_edge_index(torch.stack([first, first + 1]), nodes)


def random_laplacian(
    family: str,
    seed: int,
    normalization: str = "sheaf-augmented",
    *,
    graph: Topology | None = None,
    d: int = 3,
    weighted: bool = False,
    channels: tuple[str, ...] = (),
) -> SheafLaplacian:
    """Maps with standard normal parameters, so that they may stretch and be nearly singular."""
    topology = random_graph(seed) if graph is None else graph
    kind = get_family(family)
    maps = kind.build(random_tensor(topology.num_half_edges, kind.num_params(d), seed=seed), d)
    maps = append_channels(maps, channels, topology, d)
    weight = random_weights(topology, seed=seed + 1) if weighted else None
    stalk_dim = d + len(channels)
    return SheafLaplacian(topology, maps, normalization, edge_weight=weight, stalk_dim=stalk_dim)


def random_signal(L: SheafLaplacian, channels: int = 1, seed: int = 0) -> Tensor:
    """[N, d, C] standard normal numbers."""
    return random_tensor(L.topology.num_nodes, L.stalk_dim, channels, seed=seed)


def random_mixture(
    degree: int, seed: int, spread: float = 3.0, basis: str = "chebyshev1"
) -> PolynomialFilter:
    """A filter with random softmax weights, from nearly uniform to nearly one-hot."""
    p = PolynomialFilter(basis, degree).double().requires_grad_(False)
    p.theta.copy_(spread * random_tensor(degree + 1, seed=seed))
    return p


def weight_on(k: int, degree: int) -> Tensor:
    """Logits whose softmax puts all weight on the polynomial of degree k."""
    return torch.full((degree + 1,), -800.0).index_fill(0, torch.tensor(k), 0.0)


def plain_layer(stalk_dim: int = 1, seed: int | None = None, **options: Any) -> SheafLayer:
    """A layer with one channel, no mixing and φ = identity: the setting of the paper's propositions.

    With a seed, θ, α and ε are standard normal.
    """
    plain = {"mixing": "none", "activation": "identity", "maps": "identity", "stalk_dim": stalk_dim}
    layer = SheafLayer(1, LayerConfig(**PUBLISHED_LAYER | plain | options)).double().requires_grad_(False)
    if seed is not None:
        for number, parameter in enumerate(layer.parameters()):
            parameter.copy_(random_tensor(*parameter.shape, seed=1000 * number + seed))
    return layer


def set_layer(layer: SheafLayer, theta: Any = None, alpha: Any = None, epsilon: Any = None) -> SheafLayer:
    """Writes numbers into the filter (θ, α) and the gate (ε)."""
    values = ((layer.filter.theta, theta), (layer.filter.alpha, alpha), (layer.epsilon, epsilon))
    for parameter, value in values:
        if value is not None:
            assert isinstance(parameter, Tensor)
            parameter.copy_(torch.as_tensor(value, dtype=torch.float64).expand_as(parameter))
    return layer


def spectrum(L: SheafLaplacian) -> Tensor:
    """All eigenvalues of L in increasing order."""
    return torch.linalg.eigvalsh(L.to_dense())


def matrix_of(apply: Callable[[Tensor], Tensor], L: SheafLaplacian) -> Tensor:
    """The matrix of a linear map of signals: its values on all unit signals."""
    size = L.shape[0]
    units = torch.eye(size, dtype=L.dtype).reshape(L.topology.num_nodes, L.stalk_dim, size)
    image = apply(units)
    return image.reshape(image.shape[0] * image.shape[1], size)


def filter_matrix(p: PolynomialFilter, L: SheafLaplacian) -> Tensor:
    """p(L) as a dense matrix."""
    return matrix_of(lambda x: p(L, x), L)


def operator_norm(matrix: Tensor) -> float:
    """The largest singular value."""
    return float(torch.linalg.matrix_norm(matrix, 2))


def count_hops(topology: Topology) -> NDArray[np.float64]:
    """[N, N] lengths of shortest paths, infinite between components."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import shortest_path

    ends = (topology.row.numpy(), topology.col.numpy())
    size = (topology.num_nodes, topology.num_nodes)
    ones = np.ones(topology.num_half_edges)
    return np.asarray(shortest_path(csr_matrix((ones, ends), size), unweighted=True))
