"""The truth about a sheaf, written down as the definition reads: dense, float64, differentiable.

    (δx)_e = √w_e (F_{v⊴e} x_v − F_{u⊴e} x_u),    L = δᵀδ,    D = blkdiag(L),    S L S.

Nothing here shares code with the operators it judges: δ is filled edge by edge, half-edges are
looked up by their end points, and square roots come from the Denman–Beavers iteration.
"""

import torch
from torch import Tensor

from polynsd.topology import Topology

NEWTON_STEPS = 20


def dense_maps(maps: Tensor, d: int) -> Tensor:
    """[H, d, d] matrices from any of the three forms in which maps are stored."""
    maps = maps.double()
    return maps if maps.size(-1) > 1 else maps * torch.eye(d, dtype=torch.float64)


def dense_coboundary(topology: Topology, maps: Tensor, d: int, edge_weight: Tensor | None = None) -> Tensor:
    """δ `[E d, N d]`; rows run over the edges (v, u) with v < u, in lexicographic order."""
    F = dense_maps(maps, d)
    ends = list(zip(topology.row.tolist(), topology.col.tolist(), strict=True))
    half = {pair: h for h, pair in enumerate(ends)}
    edges = sorted(pair for pair in ends if pair[0] < pair[1])
    delta = F.new_zeros(len(edges), d, topology.num_nodes, d)
    for e, (v, u) in enumerate(edges):
        root = 1.0 if edge_weight is None else edge_weight[half[v, u]].double().sqrt()
        delta[e, :, v] = root * F[half[v, u]]
        delta[e, :, u] = -root * F[half[u, v]]
    return delta.reshape(len(edges) * d, topology.num_nodes * d)


def dense_laplacian(
    topology: Topology,
    maps: Tensor,
    normalization: str = "none",
    *,
    stalk_dim: int | None = None,
    edge_weight: Tensor | None = None,
) -> Tensor:
    """S δᵀδ S `[N d, N d]` for maps without replica dimensions."""
    d = maps.size(-2) if stalk_dim is None else stalk_dim
    N = topology.num_nodes
    delta = dense_coboundary(topology, maps, d, edge_weight)
    L = delta.mT @ delta
    D = torch.stack([L[v * d : v * d + d, v * d : v * d + d] for v in range(N)])
    eye = torch.eye(d, dtype=torch.float64)
    match normalization:
        case "none":
            blocks = eye.expand(N, d, d)
        case "sheaf":
            blocks = _pseudo_inverse_root(D)
        case "sheaf-augmented":
            blocks = inverse_root(D + eye)
        case _:  # degree
            blocks = _weighted_degree(topology, edge_weight).add(1).rsqrt()[:, None, None] * eye
    S = torch.block_diag(*blocks)
    return S @ L @ S


def inverse_root(A: Tensor) -> Tensor:
    """A^{−1/2}: Y → A^{1/2} and Z → A^{−1/2} by Y, Z ← (Y + Z⁻¹)/2, (Z + Y⁻¹)/2.

    Unlike an eigendecomposition it can be differentiated where eigenvalues coincide.
    """
    Y, Z = A, torch.eye(A.size(-1), dtype=A.dtype).expand_as(A)
    for _ in range(NEWTON_STEPS):
        Y, Z = (Y + Z.inverse()) / 2, (Z + Y.inverse()) / 2
    return Z


def _pseudo_inverse_root(D: Tensor) -> Tensor:
    """D^{−1/2} on the range of D and 0 on its kernel."""
    values, Q = torch.linalg.eigh(D.detach())
    kernel = (Q * (values < 1e-12)[..., None, :]) @ Q.mT
    return inverse_root(D + kernel) - kernel


def _weighted_degree(topology: Topology, edge_weight: Tensor | None) -> Tensor:
    weight = torch.ones(topology.num_half_edges) if edge_weight is None else edge_weight
    return torch.zeros(topology.num_nodes, dtype=torch.float64).index_add(0, topology.row, weight.double())
