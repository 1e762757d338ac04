"""From restriction maps to the Laplacian that a layer filters with.

Learned coordinates of a stalk have the maps of the learner, fixed channels those of a Laplacian or a signless
one. Where all maps are diagonal they are one operator; where learned blocks are dense, or stalks are turned
(`rotation`, a flat sheaf), learned and fixed coordinates are kept apart as a direct sum. Random-walk
normalisation is the symmetric one seen in another basis: (D + I)⁻¹ L = S (S L S) S⁻¹.
"""

from __future__ import annotations

from torch import Tensor

from polynsd.config import LayerConfig
from polynsd.kernels.ops import blocks
from polynsd.sheaf.direct_sum import DirectSum
from polynsd.sheaf.families import append_channels, fixed_maps
from polynsd.sheaf.laplacian import SheafLaplacian
from polynsd.sheaf.similar import SimilarLaplacian
from polynsd.topology import Topology

Laplacian = SheafLaplacian | SimilarLaplacian | DirectSum


def assemble_laplacian(
    config: LayerConfig,
    topology: Topology,
    edge_weight: Tensor | None,
    batch: Tensor | None,
    maps: Tensor,
    rotation: Tensor | None = None,
    constant: str | None = None,
) -> Laplacian:
    """The operator on all coordinates of the stalks.

    Args:
        config: normalisation, family, dimension and fixed channels.
        topology: the graph.
        edge_weight: `[H]`, or None.
        batch: graph numbers of the nodes, or None.
        maps: of the learned coordinates, on half-edges; scalars where stalks are turned.
        rotation: `[..., N, d, d]` that turns the learned coordinates of every stalk, or None.
        constant: a name for maps that depend on the graph alone, whose blocks are then found once.
    """
    is_mean = config.normalization == "random-walk"

    def laplacian(
        maps: Tensor,
        stalk_dim: int,
        orthogonal_columns: bool,
        P: Tensor | None = None,
        constant: tuple[object, ...] | None = None,
    ) -> SheafLaplacian | SimilarLaplacian:
        L = SheafLaplacian(
            topology,
            maps,
            "sheaf-augmented" if is_mean else config.normalization,
            edge_weight=edge_weight,
            orthogonal_columns=orthogonal_columns,
            stalk_dim=stalk_dim,
            batch=batch,
            constant=constant,
        )
        if not is_mean:
            return L if P is None else SimilarLaplacian(L, P)
        S = L.node_scale
        assert S is not None
        return SimilarLaplacian(L, *((1 / S, S) if P is None else (P / S, P.mT * S)))

    orthogonal, d, channels = config.family.orthogonal_columns, config.stalk_dim, config.fixed_channels
    if rotation is None and (not channels or blocks.is_elementwise(maps)):
        whole = append_channels(maps, channels, topology, d)
        name = None if constant is None else (constant, d, channels)
        return laplacian(whole, config.total_stalk_dim, orthogonal, constant=name)
    learned = laplacian(maps, d, orthogonal, rotation, None if constant is None else (constant, d))
    if not channels:
        return learned
    fixed = fixed_maps(channels, topology, maps.dtype)
    return DirectSum([learned, laplacian(fixed, len(channels), True, constant=channels)])
