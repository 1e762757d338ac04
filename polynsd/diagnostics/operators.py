"""Operators in the basis in which they are symmetric.

A filter of P⁻¹ A P is one of A in other coordinates (`sheaf/similar.py`), and energies and spectra belong to
the symmetric A: of a rotation the numbers are the same, of a random walk they are those of the symmetric
normalisation.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polynsd.kernels.ops import blocks
from polynsd.nn.assembly import Laplacian
from polynsd.sheaf import SheafLaplacian
from polynsd.sheaf.direct_sum import DirectSum
from polynsd.sheaf.similar import SimilarLaplacian
from polynsd.topology import Topology


def symmetric_form(L: Laplacian) -> SheafLaplacian | DirectSum:
    """A where the operator is P⁻¹ A P."""
    if isinstance(L, SimilarLaplacian):
        return L.base
    return DirectSum([symmetric_form(part) for part in L.parts]) if isinstance(L, DirectSum) else L  # type: ignore[misc]


def symmetric_state(L: Laplacian, x: Tensor) -> Tensor:
    """P x where the operator is P⁻¹ A P."""
    if isinstance(L, SimilarLaplacian):
        return blocks.apply(L.P, x)
    if isinstance(L, DirectSum):
        pieces = x.split([part.stalk_dim for part in L.parts], -2)
        return torch.cat([symmetric_state(p, piece) for p, piece in zip(L.parts, pieces, strict=True)], -2)
    return x


def plain_laplacian(topology: Topology, like: Laplacian) -> SheafLaplacian:
    """The Laplacian of the graph itself, F = I, normalised as another operator on it is."""
    first = learned_part(like)
    first = first.base if isinstance(first, SimilarLaplacian) else first
    ones = torch.ones(topology.num_half_edges, 1, 1, dtype=like.dtype, device=like.device)
    return SheafLaplacian(
        topology, ones, first.normalization, edge_weight=first.edge_weight, stalk_dim=like.stalk_dim
    )


def learned_part(L: Laplacian) -> SheafLaplacian | SimilarLaplacian:
    """The operator on the coordinates whose maps are learned; with diagonal maps it has the others, too."""
    return L.parts[0] if isinstance(L, DirectSum) else L


def learned_maps(L: Laplacian, d: int) -> Tensor:
    """The restriction maps `[H, d, d]` of the learned coordinates, without what normalises them.

    A flat sheaf, F_{v⊴e} = c_e O_v, is held as the numbers c on half-edges and the rotations O on nodes.
    """
    part = learned_part(L)
    base = part.base if isinstance(part, SimilarLaplacian) else part
    maps = blocks.to_dense(base.maps, base.stalk_dim)[..., :d, :d]
    if not isinstance(part, SimilarLaplacian) or blocks.is_elementwise(part.P):
        return maps
    rotation = part.P
    if not part.is_symmetric:  # P = S⁻¹ O
        assert base.node_scale is not None
        rotation = rotation * base.node_scale
    return maps @ rotation[base.topology.row]
