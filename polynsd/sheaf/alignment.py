r"""How well learned transports agree with given ones, in whatever basis the learner has chosen.

    learned = transports(topology, laplacian.maps)            # of a flat one: (…, laplacian.P, "nodes")
    planted = transports(topology, frames, maps_on="nodes")   # frames of `polynsd.data.planted_sheaf`
    transport_alignment(learned, planted)                     # 1: the same up to a basis; about 0: unrelated

An encoder may turn all stalks by one orthogonal matrix G without changing what a model can compute, and then
the transports are G T_e Gᵀ instead of T_e. Agreement is therefore taken at the best G,

    max_{G ∈ O(d)}  1/H Σ_e tr((G T_e Gᵀ)ᵀ P_e)/d  =  max_G gᵀ M g / d,
    g = vec(G),   M = 1/H Σ_e P_e ⊗ T_e,

a quadratic form over the orthogonal group. If T_e = Gᵀ P_e G for all e, then g is an eigenvector of M at its
largest eigenvalue 1, so eigenvectors of M are good starts. From each of them G ← polar((M + c) G) ascends,
where c makes M + c positive semidefinite: a convex function lies above its tangent, which the polar factor
maximises.
"""

import torch
from torch import Tensor

from polynsd.errors import ShapeError, require_choice
from polynsd.kernels.ops import blocks, edges
from polynsd.topology import Topology

MAX_STEPS = 1000
TOLERANCE = 1e-10  # of an alignment, per step


def transports(topology: Topology, maps: Tensor, maps_on: str = "edges") -> Tensor:
    """The orthogonal part of the transport F_vᵀ F_u to v from u, on half-edges (v, u): `[..., H, d, d]`.

    Args:
        topology: the graph.
        maps: `[..., H, d, d]` on half-edges or `[..., N, d, d]` on nodes; diagonal maps end in `[d, 1]`.
        maps_on: `edges` or `nodes`.

    The orthogonal part is the polar factor, the orthogonal matrix nearest to F_vᵀ F_u. Where F_vᵀ F_u is
    singular it is one of several.
    """
    require_choice("maps_on", maps_on, ("edges", "nodes"))
    count = topology.num_half_edges if maps_on == "edges" else topology.num_nodes
    if maps.dim() < 3 or maps.size(-3) != count or maps.size(-1) not in (1, maps.size(-2)):
        raise ShapeError(f"maps on {maps_on} must have shape [..., {count}, d, d]; got {list(maps.shape)}.")
    maps, pattern = maps.detach(), topology.pattern
    if maps_on == "nodes":
        maps = edges.at_rows(maps, pattern)
    coupling = blocks.transport(maps, edges.swap_halves(maps, pattern))
    return polar(blocks.to_dense(coupling, maps.size(-2)))


def transport_alignment(learned: Tensor, planted: Tensor) -> Tensor:
    """Agreement of transports `[..., H, d, d]` up to one change of basis, in [−1, 1]; `[...]` for replicas.

    1 if the learned transports are the planted ones in some orthonormal basis of the stalk, about 0 (of order
    1/√H) for unrelated ones. Both are orthogonal matrices, such as `transports` returns.
    """
    if learned.dim() < 3 or learned.shape[-3:] != planted.shape[-3:] or learned.size(-1) != learned.size(-2):
        raise ShapeError(
            "learned and planted transports must have the same shape [..., H, d, d]; got "
            f"{list(learned.shape)} and {list(planted.shape)}."
        )
    d = learned.size(-1)
    M = _average_kronecker(planted.detach().double(), learned.detach().double())
    values, vectors = torch.linalg.eigh(M)
    G = polar(vectors.mT.unflatten(-1, (d, d)))  # [..., d², d, d], a start per eigenvector
    shifted = M - values[..., :1, None] * torch.eye(d * d, dtype=M.dtype, device=M.device)
    reached = _agreement(M, G)
    for _ in range(MAX_STEPS):
        G = polar((G.flatten(-2) @ shifted).unflatten(-1, (d, d)))
        before, reached = reached, _agreement(M, G)
        if bool((reached - before <= TOLERANCE).all()):
            break
    return reached.amax(-1)


def _average_kronecker(P: Tensor, T: Tensor) -> Tensor:
    """The symmetric part of 1/H Σ_e P_e ⊗ T_e, `[..., d², d²]`."""
    d = P.size(-1)
    outer = P.flatten(-2).mT @ T.flatten(-2) / P.size(-3)  # entries P_li T_kj at (l i, k j)
    M = outer.unflatten(-1, (d, d)).unflatten(-3, (d, d)).transpose(-3, -2).flatten(-2).flatten(-3, -2)
    return (M + M.mT) / 2


def _agreement(M: Tensor, G: Tensor) -> Tensor:
    """gᵀ M g / d of many G `[..., n, d, d]`."""
    g = G.flatten(-2)
    return ((g @ M) * g).sum(-1) / G.size(-1)


def polar(A: Tensor) -> Tensor:
    """The orthogonal matrices nearest to A `[..., d, d]`."""
    U, _, Vt = torch.linalg.svd(A)
    return U @ Vt
